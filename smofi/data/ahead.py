"""Batches read one step ahead, by another thread, where reading a sample takes time and draws nothing at random."""

from __future__ import annotations

from concurrent.futures import Executor, Future

from torch import Tensor

from smofi.data.samples import Samples

Batch = tuple[Tensor, Tensor]


class Ahead:
    """The batches of one client, step by step; while one is computed with, the next one is read.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import torch
    >>> from smofi.data.samples import TensorSamples
    >>> samples = TensorSamples.of(torch.arange(4.0)[:, None], torch.arange(4))
    >>> with ThreadPoolExecutor(1) as pool:
    ...     ahead = Ahead(samples, torch.tensor([[3], [1]]), pool)
    ...     [int(ahead.batch(step)[1]) for step in range(2)]
    [3, 1]
    """

    def __init__(self, samples: Samples, order: Tensor, pool: Executor) -> None:
        self.samples, self.order, self.pool = samples, order, pool
        self.next_batch: Future[Batch] | None = None

    def batch(self, step: int) -> Batch:
        """The batch of this step; steps are read one after the other."""
        # the first one, too, is read by the pool: a single thread does all the reading
        batch = (self.next_batch or self._read(step)).result()
        self.next_batch = self._read(step + 1) if step + 1 < len(self.order) else None
        return batch

    def _read(self, step: int) -> Future[Batch]:
        return self.pool.submit(self.samples.batch, self.order[step])
