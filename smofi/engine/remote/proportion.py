"""How far clients may come in a round: none goes out of all proportion to the others, in anything that is averaged.

    |row - start| <= max(1000 |median row - start|, 10 |start|)

The median is that of the rows that have moved at all. The start counts, too, since where most hardly move, a step is
far from the median: of statistics, those that the median row has changed; of momentum, which starts at zero, the
weights as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from smofi.engine.remote.row import RemoteRow
from smofi.engine.state import GlobalState

FAR, START = 1000.0, 10.0


def out_of_proportion(rows: Sequence[RemoteRow], state: GlobalState) -> Iterator[tuple[RemoteRow, str]]:
    """The rows that are too far from where the round began, each once, and why."""
    left = list(rows)
    moved = {one.row: one.moved() for one in left}
    for kind in ("weights", "statistics", "moments") if state.carried.numel() else ("weights", "statistics"):
        order = sorted((one for one in left if moved[one.row][kind]), key=lambda one: moved[one.row][kind])
        if not order:
            continue
        median = order[(len(order) - 1) // 2]
        most = max(FAR * moved[median.row][kind], START * _start(kind, median, state))
        for one in order:
            far = moved[one.row][kind]
            if not (math.isfinite(far) and far <= most):
                left.remove(one)
                yield one, f"its {kind} moved by {far:.3g}, and at most {most:.3g} is plausible"


def _start(kind: str, median: RemoteRow, state: GlobalState) -> float:
    """How large what has moved was where the round began."""
    if kind == "statistics":  # others are constants, which may be large or infinite
        return median.changed_statistics()
    weights = float(state.weights.norm())
    return weights if kind == "weights" else max(weights, float(state.carried.norm()))
