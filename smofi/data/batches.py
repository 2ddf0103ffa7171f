"""The batches of a client's round: their order, and how they are read before their step.

The order is a function of (seed, round, client), never of the method, the workers or the timing. One batch is read
ahead by another thread where reading a sample takes time and draws nothing at random; many are gathered in one go where
it takes so little that a call costs more than what it does.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future

import numpy as np
from torch import Tensor

from smofi.data.samples import Samples, TensorSamples
from smofi.seeds import generator

Batch = tuple[Tensor, Tensor]

ALIGNED = 64
"""Bytes: torch's memory begins at multiples of it. Products of matrices that begin elsewhere may round differently,
so a batch is gathered with others only if each of them begins at such a multiple, as it does by itself."""


def batch_order(size: int, batch_size: int, steps: int, *, seed: int, round: int, client: int) -> np.ndarray:
    """Return the sample indices of a client's round, `[steps, batch_size]`.

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


class Ahead:
    """The batches of one client, step by step; while one is computed with, the next one is read."""

    def __init__(self, samples: Samples, order: Tensor, pool: Executor) -> None:
        self.samples, self.order, self.pool = samples, order, pool
        self.next_batch: Future[Batch] | None = None

    def batch(self, step: int) -> Batch:
        """Return the batch of this step; steps are read one after the other."""
        # the first one, too, is read by the pool: a single thread does all the reading
        batch = (self.next_batch or self._read(step)).result()
        self.next_batch = self._read(step + 1) if step + 1 < len(self.order) else None
        return batch

    def _read(self, step: int) -> Future[Batch]:
        return self.pool.submit(self.samples.batch, self.order[step])


class Gathered:
    """The batches of one client, step by step, gathered as many at a time as are `most` bytes, to the same bits."""

    def __init__(self, samples: TensorSamples, order: Tensor, most: int) -> None:
        self.samples, self.order = samples, order
        self.at_a_time = self.batches_of(samples, order.shape[1], most)
        self.first, self.batches = 0, list[Batch]()

    @staticmethod
    def batches_of(samples: TensorSamples, size: int, most: int) -> int:
        """Return how many batches of this size are gathered at a time."""
        bytes_of_batch = size * samples.bytes_of_sample
        fit = bytes_of_batch and bytes_of_batch % ALIGNED == 0
        return max(1, most // bytes_of_batch) if fit else 1

    def batch(self, step: int) -> Batch:
        """Return the batch of this step."""
        place = step - self.first
        if not 0 <= place < len(self.batches):
            self.first, place = step, 0
            self.batches = self._gather(self.order[step : step + self.at_a_time])
        return self.batches[place]

    def _gather(self, order: Tensor) -> list[Batch]:
        inputs, targets = self.samples.batch(order)
        size = order.shape[1]
        return list(zip(inputs.split(size), targets.split(size), strict=True))
