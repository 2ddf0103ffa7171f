"""Memory for a process's rows: weights, statistics, gradients, and a model bound to each row.

It is allocated when the number of rows changes, not round by round.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from smofi.cut import Cut
from smofi.engine.cohort.rows import Rows
from smofi.engine.cohort.setup import Setup
from smofi.engine.state import GlobalState
from smofi.flat import shell


class Room:
    """Rows `[count, P]` and what belongs to them, for as long as a run needs them."""

    def __init__(self, setup: Setup, state: GlobalState, own_gradients: bool = False) -> None:
        """`own_gradients`: every row has a gradient of its own, not only where the server merges batches."""
        self.setup, self.state = setup, state
        self.own_gradients = own_gradients or setup.method.where.merges
        self.models: list[nn.Sequential] = []
        self.count = 0
        self.bound_to: tuple[int, int, Cut | None] | None = None

    def open(self, count: int, at_once: int, cut: Cut) -> None:
        """Room for `count` rows, of which up to `at_once` are computed in one pass. All begin alike: W_j <- W.

        `cut` is that of all clients, where they share a server model.
        """
        self._bind(count, min(at_once, count), cut if self.setup.method.where.one_server else None)
        self.weights.fill(self.state.weights)
        self.statistics.fill(self.state.statistics)
        self.gradients.zero()  # a step that failed may have left some

    def _bind(self, count: int, at_once: int, shared_cut: Cut | None) -> None:
        """Allocate the rows and bind a model to each; again only when their number or the shared columns change."""
        if self.bound_to == (count, at_once, shared_cut):
            return
        like, layout, own = self.state.weights, self.setup.layout, self.own_gradients
        shared = shared_cut.server(layout) if shared_cut else None
        shared_statistics = layout.statistic_columns(shared_cut.first, shared_cut.last) if shared_cut else None
        self.weights = Rows(count, layout.size, like, shared)
        self.statistics = Rows(count, layout.statistics_size, like, shared_statistics)
        self.gradients = Rows(count if own else at_once or 1, layout.size, like, shared)
        del self.models[count:]  # they would keep the old rows in memory
        self.models += [shell(self.setup.template).train() for _ in range(count - len(self.models))]
        for place, model in enumerate(self.models[:count]):
            gradient_row = place if own else 0  # otherwise one gradient at a time
            rows = (self.weights, place), (self.statistics, place), (self.gradients, gradient_row)
            layout.bind(model, *(partial(matrix.of, row) for matrix, row in rows))
        self.count, self.bound_to = count, (count, at_once, shared_cut)
