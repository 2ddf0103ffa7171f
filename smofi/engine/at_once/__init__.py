"""Many clients in one pass.

gradients      the gradients of many clients, by one forward and one backward pass
layers         layers of many clients, each by one call of a kernel
products       products of matrices, a pair per client, all in one call
padding        passes of more rows than clients, so that a client's bits do not depend on the others' number
trial          whether the clients of a model can be computed at once: two of them try it
independence   which padding a model needs for that: equal clients try it
private        what the above use of torch that is not public, and how to do without
"""
