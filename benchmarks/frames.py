"""A message of a deployment as bytes and back: MB/s of a tensor of 4 MB, as it is and packed; microseconds of a message
without one.

MB are those of the tensor in memory, whatever is sent of it. Beside it, a plain copy of the same memory.

    python benchmarks/frames.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from shared.internals import COMPRESSIONS, Compression, Frame, encode, read
from shared.options import options
from shared.rows import Sheet
from torch import Tensor

ACTIVATION = (64, 16, 32, 32)
"""A batch of images within a network: 4 MiB in single precision."""

FIELDS: dict[str, Any] = {"round": 3, "step": 17, "client": "hospital-a", "loss": 0.693}


def seconds(work: Callable[[], object], calls: int) -> float:
    """The time of one call."""
    started = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - started) / calls


def taken(sent: bytes) -> Tensor:
    return read(sent).take("x")


def there_and_back(frame: Frame, packed: dict[str, Compression | None]) -> Tensor:
    return taken(encode(frame, packed))


def main() -> None:
    given = options(__doc__, repetitions=9).parse_args()
    torch.set_num_threads(1)
    sheet = Sheet(given.results)
    tensor = torch.randn(ACTIVATION)
    megabytes = tensor.nbytes / 1e6
    for name, one in {"as it is": None, **COMPRESSIONS}.items():
        frame, packed = Frame("activation", FIELDS, {"x": tensor}), {"x": one}
        sent = encode(frame, packed)
        sheet.begin(packing=name, bytes=len(sent))
        works: dict[str, Callable[[], object]] = {
            "encode": partial(encode, frame, packed),
            "read, take": partial(taken, sent),
            "both": partial(there_and_back, frame, packed),
            "copy": tensor.clone,
        }
        for work, values in measured(works, given.repetitions, calls=20).items():
            sheet.add("MB/s", [megabytes / value for value in values], ".0f", work=work)
    empty = Frame("ready", FIELDS)
    bare = encode(empty)
    sheet.begin(packing="no tensor", bytes=len(bare))
    works = {"encode": lambda: encode(empty), "read": lambda: read(bare), "both": lambda: read(encode(empty))}
    for work, values in measured(works, given.repetitions, calls=1000).items():
        sheet.add("microseconds", [value * 1e6 for value in values], ".1f", work=work)


def measured(works: dict[str, Callable[[], object]], repetitions: int, calls: int) -> dict[str, list[float]]:
    """Seconds of each kind of work, measured in turn; the first repetition warms up."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for repetition in range(-1, repetitions):
        for name, work in works.items():
            took = seconds(work, calls)
            if repetition >= 0:
                found[name].append(took)
    return found


if __name__ == "__main__":
    main()
