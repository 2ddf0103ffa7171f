"""The workers of a run: processes that share its work.

tree.py        the order of every sum, and which worker computes which rows
workers.py     the workers as the engine uses them: a sum, a copy, by torch.distributed
forked.py      the same in shared memory, after a fork
starting.py    how many workers a run has, and how they are started
counting.py    how many there is work for
forking.py     started by a fork, where that works              spawning.py    started by the same command again
watching.py    a worker that dies ends the run                  network.py     the network that reaches other machines
endings.py     signals that end a run
"""
