"""What a sum over two processes costs: shared memory of forked processes beside gloo of `torch.distributed`.

Both are timed in turn in the same two processes, a batch of sums each; the medians over the repetitions are shown, with
the lowest and the highest.

    python benchmarks/sum.py
"""

from __future__ import annotations

import os
import tempfile
import time

import torch
import torch.distributed as dist
from shared.internals import DistributedWorkers, ForkedWorkers, Workers
from shared.options import options
from shared.rows import Sheet

BATCHES = {2**10: 500, 100 * 2**10: 200, 2**20: 50, 40 * 2**20: 3}
"""Sums in a row for each number of bytes."""


def microseconds(workers: Workers, tensor: torch.Tensor, batch: int) -> float:
    """The time of one sum, from when all are ready."""
    workers.sum(torch.zeros(1))
    started = time.perf_counter()
    for _ in range(batch):
        workers.sum(tensor)
    return (time.perf_counter() - started) / batch * 1e6


def main() -> None:
    given = options(__doc__, repetitions=7).parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        forked = ForkedWorkers(2)
        forked.fork()
        place = f"file://{folder}/meeting"
        dist.init_process_group("gloo", init_method=place, rank=forked.rank, world_size=2)
        sheet = Sheet(given.results, leads=forked.rank == 0)
        measure({"forked": forked, "gloo": DistributedWorkers(forked.rank, 2, "gloo")}, given.repetitions, sheet)
        dist.destroy_process_group()
        if forked.rank > 0:
            os._exit(0)
        forked.end()


def measure(kinds: dict[str, Workers], repetitions: int, sheet: Sheet) -> None:
    """Add a row for every size and kind of workers."""
    for size, batch in BATCHES.items():
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for repetition in range(-1, repetitions):
            for name, workers in kinds.items():
                took = microseconds(workers, torch.zeros(size // 4), batch)
                if repetition >= 0:  # the first one warms up
                    times[name].append(took)
        for name, found in times.items():
            sheet.add("microseconds", found, ".0f", KB=size // 2**10, workers=name)


if __name__ == "__main__":
    main()
