"""Cheaper passes on a CPU: the same numbers, with less work.

quicken        the layers of a model reordered, merged and in place, where that changes no number
kernels        which kernels compute convolutions, by a rule
freed_memory   memory that a step frees is kept for the next
threads        another number of threads for a while
widest         what the widest operation of a pass takes
private        what the above use of torch that is not public, and how they do without
"""
