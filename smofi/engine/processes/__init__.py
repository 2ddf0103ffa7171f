"""Who shares the work: the processes of one run, its workers.

workers.py     how many workers a run has, and how they are started      crew.py      how they add what each has computed
forking.py     started by a fork, where that works                       forked.py    how forked ones add, in shared memory
spawning.py    started by the same command again                         network.py   which network others are reached by
watching.py    a worker that dies ends the run
"""
