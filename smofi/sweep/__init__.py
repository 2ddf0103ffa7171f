"""Many runs by one command: cells of one method and one seed, each a process of its own, found again when done.

cells.py     a cell: the settings of one run, and what decides its numbers
store.py     the runs below a folder: which cells are done, which can go on
running.py   cells as processes, several at a time        child.py     one of these processes

Internal: may change without notice.
"""
