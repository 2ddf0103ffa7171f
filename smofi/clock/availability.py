"""When each client's device is available: always, as phones come and go, or as in a file of traces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from smofi.clock.presence import ALWAYS, Presence
from smofi.clock.sheet import Sheet
from smofi.clock.tables import GAP_PER_MEAN, LEVELS, MEAN_GAP, READY_PER_MEAN, READY_SHARE
from smofi.errors import refuse
from smofi.seeds import generator

COLUMNS = ("device", "trace_start_s", "trace_end_s", "ready_start_s", "ready_end_s")
WEEK = 7 * 24 * 3600.0

T = TypeVar("T")


def presences(availability: str, clients: int, seed: int) -> list[Presence]:
    """One for each client.

    >>> presences("always", 2, seed=0)[1].comes(100.0)
    100.0
    """
    if not isinstance(availability, str) or not (availability in ("always", "phones") or availability.endswith(".csv")):
        refuse("availability", availability, "always, phones, or the path of a .csv file")
    if availability == "always":
        return [ALWAYS] * clients
    if availability == "phones":
        return [phone_presence(seed, client) for client in range(clients)]
    return one_each(read_traces(availability), clients, seed, "availability")


def one_each(rows: Sequence[T], clients: int, seed: int, purpose: str) -> list[T]:
    """The rows themselves if there is one for each client; else each client draws one, and several may draw the same.

    >>> one_each("abc", 3, seed=0, purpose="example")
    ['a', 'b', 'c']
    """
    if len(rows) == clients:
        return list(rows)
    return [rows[at] for at in generator(seed, purpose).integers(len(rows), size=clients).tolist()]


def phone_presence(seed: int, client: int) -> Presence:
    """A phone that comes and goes, for about a week that then repeats: its share of ready time and its mean gap are
    drawn first, then intervals and gaps by turns with just these means, in whole seconds, starting at any moment.

    >>> phone_presence(0, 0).period >= WEEK
    True
    """
    draws = generator(seed, "availability", client)
    of_share, of_gap, phase = draws.random(3)
    share = float(READY_SHARE.at(of_share))
    level = (LEVELS[0] + (LEVELS[-1] - LEVELS[0]) * of_share) / 100
    gap = float(MEAN_GAP[int(level * len(MEAN_GAP))].at(of_gap))
    # share = ready / (ready + gap)
    ready = gap * share / (1 - share)
    turns = math.ceil(WEEK / (ready + gap))
    lengths = np.stack([READY_PER_MEAN.at(draws.random(turns)), GAP_PER_MEAN.at(draws.random(turns))])
    lengths *= np.array([[ready], [gap]]) / lengths.mean(axis=1, keepdims=True)
    lengths = np.ceil(lengths)
    after = np.cumsum(lengths.sum(axis=0))
    period = float(after[-1])
    starts = (after - lengths.sum(axis=0) + math.floor(phase * period)) % period
    ends = starts + lengths[0]
    whole = zip(starts.tolist(), np.minimum(ends, period).tolist(), strict=True)
    around = ((0.0, end - period) for end in ends.tolist() if end > period)
    return Presence.merged([*whole, *around], period)


def read_traces(name: str) -> list[Presence]:
    """The traces of a file in FLASH's layout, in the order in which their devices first occur, each from 0 on."""
    sheet = Sheet.read("availability", name, COLUMNS)
    for column in COLUMNS:
        if column not in sheet.columns:
            sheet.wrong(f"a column {column!r}, but there are {', '.join(sheet.columns)}")
    spans: dict[str, tuple[float, float]] = {}
    ready: dict[str, list[tuple[float, float]]] = {}
    cells = zip(sheet.words("device"), *map(sheet.numbers, COLUMNS[1:]), strict=True)
    for (line, _), (device, begin, end, start, stop) in zip(sheet.rows, cells, strict=True):
        if not begin < end:
            sheet.wrong(f"trace_end_s > trace_start_s in line {line}, but they are {end:g} and {begin:g}")
        if not begin <= start <= stop <= end:
            sheet.wrong(
                "trace_start_s <= ready_start_s <= ready_end_s <= trace_end_s in line "
                f"{line}, but they are {begin:g}, {start:g}, {stop:g} and {end:g}"
            )
        if spans.setdefault(device, (begin, end)) != (begin, end):
            sheet.wrong(f"the same trace_start_s and trace_end_s in all lines of device {device!r:.100}, up to {line}")
        ready.setdefault(device, []).append((start - begin, stop - begin))
    return [Presence.merged(ready[device], end - begin) for device, (begin, end) in spans.items()]
