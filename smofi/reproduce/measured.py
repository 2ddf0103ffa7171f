"""A panel with its numbers: a row for each line that has runs, and which runs are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from smofi.report.history import History
from smofi.report.measures import Row, measure
from smofi.reproduce.items import Line, Panel
from smofi.reproduce.results import Results


@dataclass(frozen=True)
class Measured:
    """The histories of a panel's lines. `seeds` are those of `every_seed` that can be used: without the panel's first
    line, a seed has no target. A run that ended before its last round has diverged: it is in no number, but named."""

    panel: Panel
    seeds: tuple[int, ...]
    every_seed: tuple[int, ...]
    histories: dict[Line, list[History]]
    missing: tuple[tuple[Line, int], ...]
    diverged: tuple[tuple[Line, int], ...] = ()

    @classmethod
    def of(cls, panel: Panel, seeds: Sequence[int], results: Results) -> Measured:
        """What the results have of it."""
        results = results.standing_in(panel.task)
        cells = panel.cells(seeds)
        found = {key: run.history for key, cell in cells.items() if (run := results.of(cell)) and run.history.measured}
        whole = {key: history for key, history in found.items() if history.rounds >= cells[key].config.rounds}
        usable = [seed for seed in seeds if (panel.lines[0], seed) in whole]
        histories = {
            line: [_named(whole[line, seed], name_of(line, panel), seed) for seed in usable if (line, seed) in whole]
            for line in panel.lines
        }
        return cls(
            *(panel, tuple(usable), tuple(seeds), histories),
            missing=tuple(key for key in cells if key not in found),
            diverged=tuple(key for key in found if key not in whole),
        )

    @property
    def baseline(self) -> Line:
        return self.panel.lines[0]

    @property
    def all_histories(self) -> list[History]:
        """Of all lines, in their order."""
        return [history for line in self.panel.lines for history in self.histories[line]]

    @cached_property
    def target(self) -> float | None:
        """The accuracy to reach, where it is one for all seeds."""
        bests = [max(history.measured) for history in self.histories[self.baseline]]
        return self.panel.target.given(bests) if bests else self.panel.target.fixed

    @cached_property
    def rows(self) -> dict[Line, Row]:
        """The measures of each line that has runs."""
        if not self.all_histories:
            return {}
        rows = measure(
            self.all_histories,
            name_of(self.baseline, self.panel),
            share=self.panel.target.share,
            target=self.target,
        )
        by_name = {row.name: row for row in rows}
        return {line: by_name[name] for line in self.panel.lines if (name := name_of(line, self.panel)) in by_name}

    def target_of(self, seed: int) -> float:
        """The accuracy to reach with this seed."""
        if self.target is not None:
            return self.target
        own = next(history for history in self.histories[self.baseline] if history.seed == seed)
        return self.panel.target.share * max(own.measured)

    def rounds_by_seed(self, line: Line) -> dict[int, int | None]:
        """The rounds to the target with each seed, None where it is missed."""
        return {one.seed: one.rounds_to(self.target_of(one.seed)) for one in self.histories[line]}


def name_of(line: Line, panel: Panel) -> str:
    """What tells a line apart in its panel: its method, or its label where others have the same method."""
    same = [one for one in panel.lines if one.method == line.method]
    return line.method if len(same) == 1 else line.label


def _named(history: History, name: str, seed: int) -> History:
    return replace(history, name=name, seed=seed)
