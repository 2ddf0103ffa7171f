"""Batch order: a function of (seed, round, client), never of the method, the workers or the timing."""

from __future__ import annotations

import numpy as np

from smofi.seeds import generator


def batch_order(size: int, batch_size: int, steps: int, *, seed: int, round: int, client: int) -> np.ndarray:
    """The sample indices of a client's round, `[steps, batch_size]`.

    An endless stream of epochs, each a fresh permutation without its last partial batch, cut after `steps` batches.

    >>> batch_order(size=5, batch_size=2, steps=3, seed=0, round=0, client=0).shape
    (3, 2)
    """
    per_epoch = size // batch_size
    rng = generator(seed, "batches", round, client)
    epochs = [
        rng.permutation(size)[: per_epoch * batch_size].reshape(per_epoch, batch_size)
        for _ in range(-(-steps // per_epoch))
    ]
    return np.concatenate(epochs)[:steps] if epochs else np.empty((0, batch_size), dtype=np.int64)
