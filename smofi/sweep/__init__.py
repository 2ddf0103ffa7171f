"""Many runs by one command: cells of one method and one seed, each a process of its own, found again when done.

file.py      a sweep's file: settings, a grid, a list     cells.py     a cell, and what decides its numbers
store.py     the runs below a folder, by their settings   folder.py    the folder of a sweep, and how its cells ended
running.py   cells as processes, several at a time        child.py     one of these processes
grids.py     the values that parameters are tuned over    tuning.py    which of them are best on validation data
pace.py      how long cells take

Internal: may change without notice.
"""
