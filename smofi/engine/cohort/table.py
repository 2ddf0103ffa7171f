"""What a process holds of a round: a row for each of its clients, a model bound to each, and their momenta."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from torch import Tensor, nn

from smofi.cut import Cut
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.local import Segment
from smofi.engine.cohort.rows import Rows
from smofi.engine.plan import RoundPlan
from smofi.engine.state import GlobalState
from smofi.flat import Columns, Layout, shell
from smofi.method import Method
from smofi.optim import Optimizer

Parts = tuple[list[Segment], list[Segment]]
"""The client's and the server's columns of one row, or of several."""


class Table:
    """Rows `[count, P]` and what belongs to them; memory is allocated when their number changes, not round by round."""

    def __init__(
        self, template: nn.Sequential, layout: Layout, state: GlobalState, method: Method, optimizer: Optimizer
    ) -> None:
        self.template, self.layout, self.state = template, layout, state
        self.method, self.optimizer, self.where = method, optimizer, method.where
        self.models: list[nn.Sequential] = []
        self.count = 0
        self.bound_to: tuple[int, int, Cut | None] | None = None

    def open(self, plan: RoundPlan, rows: list[int], count: int, at_once: int, fusion: Fusion | None) -> None:
        """Room for `count` rows, of which these are in use: W_j <- W."""
        self.cuts, self.fusion = [plan.cuts[row] for row in rows], fusion
        self._bind(count, min(at_once, count), plan.cuts[0] if self.where.one_server else None)
        self.weights.fill(self.state.weights)
        self.statistics.fill(self.state.statistics)
        self.gradients.zero()  # a step that failed may have left some
        # rows cut alike that lie next to each other are a stretch
        self.stretches = [list(places) for _, places in groupby(range(len(rows)), key=self.cuts.__getitem__)]
        self.kept: dict[tuple[int, int], tuple[Tensor, list[float]]] = {}
        self.known: dict[tuple[int, int], Parts] = {}

    def matrices(self, places: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Weights and statistics of consecutive rows, and room for their gradients."""
        columns, statistics = slice(0, self.layout.size), slice(0, self.layout.statistics_size)
        gradients = self.gradients.matrix(columns)[: places.stop - places.start]
        return self.weights.matrix(columns)[places], self.statistics.matrix(statistics)[places], gradients

    def parts(self, places: slice) -> Parts:
        """The client's and the server's columns of consecutive rows that are cut alike."""
        key = places.start, places.stop
        if key not in self.known:
            stretch = next(stretch for stretch in self.stretches if places.start in stretch)
            cut = self.cuts[places.start]
            client = [one for blocks in cut.client_blocks for one in self._segments(stretch, places, blocks)]
            self.known[key] = client, self._segments(stretch, places, range(cut.first, cut.last), server=True)
        return self.known[key]

    def _bind(self, count: int, at_once: int, cut: Cut | None) -> None:
        """Allocate the rows and bind a model to each; again only when their number or the shared columns change."""
        if self.bound_to == (count, at_once, cut):
            return
        like, layout = self.state.weights, self.layout
        shared = cut.server(layout) if cut else None
        shared_statistics = layout.statistic_columns(cut.first, cut.last) if cut else None
        self.weights = Rows(count, layout.size, like, shared)
        self.statistics = Rows(count, layout.statistics_size, like, shared_statistics)
        self.gradients = Rows(count if self.where.merges else at_once or 1, layout.size, like, shared)
        del self.models[count:]  # they would keep the rows of before
        self.models += [shell(self.template).train() for _ in range(count - len(self.models))]
        for place, model in enumerate(self.models[:count]):
            own = place if self.where.merges else 0  # otherwise one gradient at a time
            rows = (self.weights, place), (self.statistics, place), (self.gradients, own)
            layout.bind(model, *(partial(matrix.of, row) for matrix, row in rows))
        self.count, self.bound_to = count, (count, at_once, cut)

    def _segments(self, stretch: list[int], places: slice, blocks: range, server: bool = False) -> list[Segment]:
        """Blocks of some rows: a single segment, unless carried momentum has seen a different number of updates."""
        runs = groupby(blocks, key=lambda block: float(self.state.carried_updates[block]))
        return [self._segment(stretch, places, list(run), updates, server) for updates, run in runs]

    def _segment(self, stretch: list[int], places: slice, blocks: list[int], updates: float, server: bool) -> Segment:
        columns, count = self.layout.columns(blocks[0], blocks[-1] + 1), places.stop - places.start
        fusion = self.fusion if server else None
        single = server and self.where.one_server
        rows = slice(0, 1) if single else slice(places.start - stretch[0], places.stop - stretch[0])
        gradient = self.gradients.matrix(columns)
        own_gradient = self.where.merges and not single
        moments, counts = self._kept(stretch, blocks[0], columns, updates, 1 if single else len(stretch), bool(fusion))
        own = tuple(moments[:, rows])
        return Segment(
            blocks=range(blocks[0], blocks[-1] + 1),
            columns=columns,
            weights=self.weights.matrix(columns)[rows if single else places],
            gradient=gradient[places] if own_gradient else gradient[:count],
            start=self.state.weights[columns],
            prior=tuple(one.expand(count, -1) for one in fusion.view(fusion.prior, columns)) if fusion else own,
            moments=fusion.view(fusion.latest[:, :count], columns) if fusion else own,
            total=fusion.view(fusion.total, columns) if fusion else (),
            counts=counts,
            rows=rows,
        )

    def _kept(
        self, stretch: list[int], block: int, columns: Columns, updates: float, rows: int, fused: bool
    ) -> tuple[Tensor, list[float]]:
        """The moments of a stretch of rows, `[moments, rows, columns]`, and how many updates each row has seen."""
        key = stretch[0], block
        if key not in self.kept:
            if self.method.carry:
                moments = self.state.carried[:, None, columns].repeat(1, rows, 1)
            else:
                width = columns.stop - columns.start
                moments = self.state.weights.new_zeros(0 if fused else self.optimizer.moments, rows, width)
            self.kept[key] = moments, [updates] * rows
        return self.kept[key]
