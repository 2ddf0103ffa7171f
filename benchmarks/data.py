"""How long data takes: decoded the first time, loaded from the cache, and a batch gathered beside a plain tensor's.

    python benchmarks/data.py cifar10=/data/cifar-10-batches-bin fashion-mnist=/data/fashion-mnist

The files are taken as they lie in the folders named; the cache is a new one, thrown away afterwards. Times are of this
process on one thread, the best of the repetitions; files the system has read before come from its memory.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import torch
from settings import seconds

from smofi.data import Source, load

REPETITIONS = 5


def main() -> None:
    """Measure every data set named on the command line as NAME=FOLDER."""
    torch.set_num_threads(1)
    for argument in sys.argv[1:]:
        name, _, folder = argument.partition("=")
        with tempfile.TemporaryDirectory() as home:
            os.environ["SMOFI_DATA"] = home
            first = seconds(lambda: load(name, folder=folder))  # noqa: B023
            again = min(seconds(lambda: load(name, folder=folder)) for _ in range(REPETITIONS))  # noqa: B023
            size = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
            source = load(name, folder=folder)
            print(f"{name}: {len(source.train):,} + {len(source.test):,} samples, {size / 1e6:.0f} MB in the cache")
            print(f"  decoded and cached {first:.2f} s, from the cache {again:.4f} s")
            print(f"  a batch of 32 in {gather(source):.0f} us, of ready floats in {gather_floats(source):.0f} us")


def gather(source: Source) -> float:
    """Microseconds for a batch of 32 random samples, as the engine asks for it."""
    draws = torch.randint(len(source.train), (200, 32))
    return 1e6 * statistics.median(seconds(lambda: source.train.batch(draw)) for draw in draws)  # noqa: B023


def gather_floats(source: Source) -> float:
    """The same from the first 1,000 samples, held as tensors that are ready for the model."""
    inputs = source.train[:1000].tensors()[0].contiguous()
    draws = torch.randint(len(inputs), (200, 32))
    return 1e6 * statistics.median(seconds(lambda: inputs.index_select(0, draw)) for draw in draws)  # noqa: B023


if __name__ == "__main__":
    main()
