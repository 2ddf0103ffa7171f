"""One module per source that a user can name. Each finds its files in a folder, and decodes them later.

by name         cifar (cifar10, cifar100), fashion_mnist, tiny_imagenet, speech_commands, shakespeare, digits
user's own      folder, npz, csv, python (a function)
items           what lies in a folder: which files are samples, of which class and whose
layout          by the folders they lie in
client_list     by a list, clients.csv
pictures, recordings, own_texts, idx_files     what the files of a folder become
header, table   the columns of a csv file by their names; what is kept of it while it is read
hub             the same data sets by name, from the Hugging Face hub
hub_conversion  its columns converted to what the official files would give
leaf, roles     the two forms in which the texts of shakespeare come: excerpts, or whole texts by role
texts           excerpts of whole texts

File formats are in `smofi.data.formats`.
"""
