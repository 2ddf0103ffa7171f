"""How far clients may come in a round: none goes out of all proportion to the others, in anything that is averaged.

    |row - start| <= max(1000 |median row - start|, 10 |start|)

The start counts, too, since where most do not move at all, a step is far from the median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from smofi.engine.remote.row import RemoteRow
from smofi.engine.state import GlobalState

FAR, START = 1000.0, 10.0


def out_of_proportion(rows: Sequence[RemoteRow], state: GlobalState) -> Iterator[tuple[RemoteRow, str]]:
    """The rows that are too far from where the round began, each once, and why."""
    left = list(rows)
    moved = {one.row: one.moved() for one in left}
    for kind in ("weights", "statistics", "moments") if state.carried.numel() else ("weights", "statistics"):
        order = sorted(left, key=lambda one: moved[one.row][kind])
        median = order[(len(order) - 1) // 2]
        # statistics that the median client has left as they were are constants, which may be large or infinite
        start = {"weights": state.weights.norm, "moments": state.carried.norm}.get(kind, median.changed_statistics)
        most = max(FAR * moved[median.row][kind], START * float(start()))
        for one in order:
            if not (far := moved[one.row][kind]) <= most:
                left.remove(one)
                yield one, f"its {kind} moved by {far:.3g}, and at most {most:.3g} is plausible"
