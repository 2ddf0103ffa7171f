"""How large a message of a run can be: what is larger is refused before it is read."""

from __future__ import annotations

import math

from smofi.config import Config
from smofi.cut import parse_cut
from smofi.engine.cohort.setup import Setup
from smofi.engine.remote.crossing import Crossing, Task
from smofi.engine.remote.links import Shape
from smofi.errors import InputError
from smofi.memory import as_text
from smofi.net.transport.limits import MIB, Limits

MOST = 2048 * MIB
"""The most bytes of a message that a client agrees to."""

BEFORE_AN_OFFER = Limits(payload=4 * MIB, waiting_bytes=MOST)
"""A client connects before it knows how large messages will be, and then expects those of the run."""

MOST_STEPS = 10**6
"""Of a client in a round. What is random in each step is drawn at the beginning, so they take memory."""

WAITING = 4
"""Of the largest messages, how many of one client may wait."""

A_SECOND = 4
"""Of the largest messages, how many of one client are read in a second without a pause, where that is more than the
least rate of any run."""


def largest_message(setup: Setup, config: Config, task: Task, clients: int, whole_model: bool) -> int:
    """The most bytes that a message of this run can have: a client's columns, a batch at a cut, or, where clients judge
    it, the whole model."""
    layout = setup.layout
    largest = (layout.size + layout.statistics_size) * layout.dtype.itemsize if whole_model else 0
    for cut in dict.fromkeys(parse_cut(config.cut, layout, clients).options):
        crossing = Crossing(setup, cut, task)
        targets = Shape(task.target_dtype, task.target_shape)
        batches = [(crossing.activation, targets), (crossing.output,)]
        samples = max(sum(map(_bytes, one)) for one in batches)
        largest = max(largest, sum(map(_bytes, crossing.of_columns().values())), config.batch_size * samples)
    return largest


def limits_for(largest: int) -> Limits:
    """Room for the largest message, and to spare for headers; a few such messages a second.

    >>> limits_for(10**6).payload
    2048576
    >>> limits_for(10**9).bytes_per_second // 10**6
    4004
    """
    payload = largest + MIB
    if payload > MOST:
        raise InputError(
            f"a message of this run has up to {as_text(largest)}, and clients take at most "
            f"{as_text(MOST)}: choose a smaller batch_size, or a cut that fewer numbers cross"
        )
    rate = max(Limits.bytes_per_second, A_SECOND * payload)
    return Limits(payload=payload, waiting_bytes=WAITING * payload, bytes_per_second=rate)


def _bytes(shape: Shape) -> int:
    return math.prod(shape.sizes) * shape.dtype.itemsize
