"""The processes that share the work of a run: its workers.

crew        what the engine asks of its fellow workers: a sum, a copy; by torch.distributed
forked      the same for processes forked on one machine, which add in shared memory
workers     how many there are, how they are started, and none left behind
forking     further workers by fork
spawning    further workers by the same command once more
watching    a worker that dies ends the run
network     the network by which a machine reaches another one
"""
