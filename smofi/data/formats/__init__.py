"""File formats and decoding that know no data set: each refuses what is broken, and takes no more memory than it fills.

files           folders listed, files found and read, with a limit on their size; `wrong` refuses one by name
names           names from outside, made fit to be shown
arrays          x, y, x_test, y_test and client, as a decoded data set
labels          labels and owners as numbers; a test set held out by label
npy             the header of a numpy array
idx             the format of MNIST
plain_pickle    pickles of plain data, read without calling anything
pickle_stack    the values of a pickle, put together one by one
pictures        JPEG, PNG, BMP, GIF and WebP
wav, logmel     sound, and what it becomes: a small image
resample        sound at another rate
rows            the rows of a .csv file
columns         the columns of a Hugging Face `datasets.Dataset`
letters         text as numbers below 80
"""
