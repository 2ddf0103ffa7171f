"""What is copied into an export, so that it answers for raw input where smofi is not installed.

No module here imports smofi or any other module here by its place in it: each is copied as it is, and stands alone.

predict.py       the program: from files to classes        read_table.py    rows of a CSV file
read_picture.py  picture files                             read_sound.py    WAVE files
read_text.py     texts                                     read_array.py    numpy arrays, rows of numbers
"""
