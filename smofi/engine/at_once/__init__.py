"""Many clients in one pass.

executor       client by client, or many at once: what a setting stands for, or what is faster here
choice         how many clients are computed at once
measurements   what was measured before, kept for the next run
trial          whether the clients of a model can be computed at once: two of them try it
many           the gradients of many clients, by one forward and one backward pass
layers         layers of many clients, each by one call of a kernel
private        what the above use of torch that is not public, and how to do without
"""
