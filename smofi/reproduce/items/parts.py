"""What an item is made of: panels with lines, and each line with a run per seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smofi.config import Config
from smofi.reproduce.items.targets import NINE_TENTHS, Target
from smofi.reproduce.items.tasks import Task
from smofi.sweep.cells import Cell

Changes = Mapping[str, Any]
SCALES = ("small", "paper")
CURVES, HOURS, POINTS, BARS = "curves", "hours", "points", "bars"
"""Kinds of figures: accuracy over rounds, over hours; best accuracy and rounds over what varies, or as bars."""
BEST, MEAN, ROUNDS, HOURS_TO, MISSES = "best", "mean", "rounds", "hours to", "misses"
"""What is compared: accuracies, rounds and hours to the target; or whether the target is missed."""
SEEDS = (0, 1, 2)
ONE_BY_ONE = ("sflv2", "mergesfl")
"""Methods with one server model: their clients are never computed at once."""


@dataclass(frozen=True, eq=False)
class Line:
    """A row of a table, or a curve: one method with some settings, over all seeds.

    `changes` are its own settings, beside those of the panel; `value` is what varies along the axis of a figure, and
    `group` which curve it belongs to there; `published` is what the paper calls it, if not `label`.
    """

    label: str
    method: str
    changes: Changes = field(default_factory=dict)
    value: str = ""
    group: str = ""
    published: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines to be compared with each other, all with the task's settings and the panel's `changes`.

    The first line is the baseline, whose best sets the target. `beside` are the setups of the paper's table that belong
    next to it.
    """

    title: str
    task: Task
    lines: tuple[Line, ...]
    changes: Changes = field(default_factory=dict)
    target: Target = NINE_TENTHS
    beside: tuple[str, ...] = ()

    def config(self, line: Line) -> Config:
        """The settings of a line's runs, but for the seed."""
        given = {**self.task.changes, **self.changes, **line.changes, "method": line.method}
        if self.task.scale == "small" and "executor" not in given:
            one_by_one = any(name in line.method for name in ONE_BY_ONE)
            given["executor"] = "loop" if one_by_one else "vmap"
        return self.task.config(given)

    def cells(self, seeds: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """All its runs, each with a label for people; seed after seed, so that early seeds are complete first."""
        return self.cells_of(self.lines, seeds)

    def cells_of(self, lines: Sequence[Line], seeds: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """The runs of some of its lines."""
        configs = {line: self.config(line) for line in lines}
        return {
            (line, seed): Cell(config.model_copy(update={"seed": seed}), f"{self.title}, {line.label}, seed {seed}")
            for seed in seeds
            for line, config in configs.items()
        }


@dataclass(frozen=True)
class Check:
    """A comparison by which a claim holds: line `ours` is ahead of `others`, or of all lines on its base, in each panel
    or in one. With `than`, it is ahead of itself in those panels instead. With `over`, gains over that line are
    compared."""

    ours: str
    others: tuple[str, ...] = ()
    by: str = BEST
    panel: int | None = None
    than: tuple[int, ...] = ()
    over: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and the checks that must hold for it to be so here; `why` it cannot be told if
    there are none."""

    words: str
    checks: tuple[Check, ...] = ()
    why: str = ""


@dataclass(frozen=True, eq=False)
class Item:
    """A table or a figure of the paper, or one of ours. `claims` is what the paper says it shows;
    `source` is its label in the paper, `published` the file with its numbers, if it has any; `draw` its kinds of
    figures."""

    name: str
    title: str
    panels: Callable[[str], tuple[Panel, ...]]
    draw: tuple[str, ...] = (CURVES,)
    source: str = ""
    claims: tuple[Claim, ...] = ()
    published: str = ""
    remarks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS

    def at(self, scale: str) -> Scaled:
        """Its panels at a scale."""
        return Scaled(self, scale)


@dataclass(frozen=True, eq=False)
class Scaled:
    """An item at one scale."""

    item: Item
    scale: str

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        return self.item.panels(self.scale)

    def cells(self, seeds: Sequence[int]) -> list[Cell]:
        """All runs it needs, each once."""
        found = {cell.key: cell for panel in self.panels for cell in panel.cells(seeds).values()}
        return list(found.values())
