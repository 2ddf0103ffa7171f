"""How long data takes: decoded the first time, loaded from the cache, and a batch gathered beside a plain tensor's.

    python benchmarks/data.py cifar10=/data/cifar-10-batches-bin fashion-mnist=/data/fashion-mnist

The files are read where they are; the cache is a new one, removed afterwards. Times are of this process on one thread;
files that the system has read before come from its memory.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path

import torch
from shared.options import options
from shared.rows import Sheet
from shared.timing import seconds

from smofi.data import Source, load

BATCH = 32


def measure(name: str, folder: str, repetitions: int, sheet: Sheet) -> None:
    """Add the times of one data set."""
    read = partial(load, name, folder=folder)
    with tempfile.TemporaryDirectory() as home:
        os.environ["SMOFI_DATA"] = home
        first, again = seconds(read), [seconds(read) for _ in range(repetitions)]
        size = sum(path.stat().st_size for path in Path(home).rglob("*") if path.is_file())
        source = read()
        sheet.begin(data=name, samples=len(source.train) + len(source.test))
        sheet.add("MB", [size / 1e6], ".0f", of="cache")
        sheet.add("seconds", [first], ".2f", of="decoded and cached")
        sheet.add("seconds", again, ".4f", of="from the cache")
        sheet.add("microseconds", gather(source), ".0f", of=f"a batch of {BATCH}")
        sheet.add("microseconds", gather_floats(source), ".0f", of=f"a batch of {BATCH} ready floats")


def gather(source: Source) -> list[float]:
    """Microseconds for batches of random samples, as the engine reads them."""
    draws = torch.randint(len(source.train), (200, BATCH))
    return [1e6 * seconds(partial(source.train.batch, draw)) for draw in draws]


def gather_floats(source: Source) -> list[float]:
    """The same from the first 1,000 samples as tensors that are ready for the model."""
    inputs = source.train[:1000].tensors()[0].contiguous()
    draws = torch.randint(len(inputs), (200, BATCH))
    return [1e6 * seconds(partial(inputs.index_select, 0, draw)) for draw in draws]


def main() -> None:
    parser = options(__doc__, repetitions=5)
    parser.add_argument("sets", nargs="+", metavar="NAME=FOLDER", help="a data set, and the folder with its files")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    for name, _, folder in (text.partition("=") for text in given.sets):
        measure(name, folder, given.repetitions, sheet)


if __name__ == "__main__":
    main()
