"""Many clients in one pass.

gradients   the gradients of many clients, by one forward and one backward pass
layers      layers of many clients, each by one call of a kernel
trial       whether the clients of a model can be computed at once: two of them try it
private     what the above use of torch that is not public, and how to do without
"""
