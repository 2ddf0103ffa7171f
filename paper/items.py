"""The items of items.yaml, whose first lines say what is in it: panels to run, and claims to be checked."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from smofi.config import Config
from smofi.config.presets import preset_text
from smofi.plain_yaml import parse_settings
from smofi.sweep.store import Cell

HERE = Path(__file__).parent
SCALES = ("small", "paper")
SEEDS = (0, 1, 2)

Tree = Any
"""A piece of items.yaml."""


@dataclass(frozen=True)
class Target:
    """A share of the baseline's best with the same seed; or `fixed`, one accuracy for all; or, with `rounded`, that
    share of its mean best over seeds, rounded down to a whole percent.

    >>> Target().words("FedAvg"), Target(fixed=0.7).words("FedAvg")
    ('90 % of the best accuracy of FedAvg with the same seed', '70 %')
    """

    share: float = 0.9
    fixed: float | None = None
    rounded: bool = False

    def given(self, bests: Sequence[float]) -> float | None:
        """Return the accuracy where it is one for all seeds, None otherwise; `bests` are the baseline's.

        >>> Target(rounded=True).given([0.83, 0.84])
        0.75
        """
        if self.rounded and bests:
            return math.floor(100 * self.share * fmean(bests)) / 100
        return self.fixed

    def words(self, baseline: str) -> str:
        if self.fixed is not None:
            return f"{100 * self.fixed:g} %"
        share = f"{100 * self.share:g} % of"
        if self.rounded:
            return f"{share} the mean best accuracy of {baseline}, rounded down to a whole percent"
        return f"{share} the best accuracy of {baseline} with the same seed"


@dataclass(frozen=True, eq=False)
class Line:
    """A row of a table, or a curve: a method with its own settings, over all seeds. `value` is its place along the axis
    of a figure, `group` its curve there; `published` is its name in the paper's table."""

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    value: str = ""
    group: str = ""
    published: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """Lines to be compared with each other; the first is the baseline. `task` is the title of what they train, `input`
    and `classes` the shape of its samples; `beside` are the setups of the paper's table next to it."""

    title: str
    task: str
    base: Mapping[str, Any]
    lines: tuple[Line, ...]
    target: Target
    beside: tuple[str, ...]
    input: tuple[int, ...]
    classes: int

    @property
    def baseline(self) -> Line:
        return self.lines[0]

    def cells(self, seeds: Sequence[int]) -> dict[tuple[Line, int], Cell]:
        """Return all runs, seed after seed, so that early seeds are complete first."""
        configs = {line: Config(**{**self.base, **line.settings, "method": line.method}) for line in self.lines}
        return {
            (line, seed): Cell(config.model_copy(update={"seed": seed}), f"{self.title}, {line.label}, seed {seed}")
            for seed in seeds
            for line, config in configs.items()
        }

    def name_of(self, line: Line) -> str:
        """Return what tells a line apart in measures and figures: its method, or its label if others have the same."""
        return line.method if [one.method for one in self.lines].count(line.method) == 1 else line.label


@dataclass(frozen=True)
class Check:
    """A comparison by which a claim holds, as items.yaml describes it."""

    line: str
    of: Sequence[str] = ()
    by: str = "best"
    panel: int | None = None
    than: Sequence[int] = ()
    over: str = ""


@dataclass(frozen=True)
class Claim:
    """What the paper says, and the checks that must hold for it to be so here; `why` it cannot be told without any."""

    says: str
    checks: Sequence[Check] = ()
    why: str = ""


@dataclass(frozen=True, eq=False)
class Item:
    """A table or a figure of the paper, or one of ours. `tree` is what varies in it."""

    name: str
    title: str
    tree: Tree
    draw: Sequence[str]
    source: str
    claims: Sequence[Claim]
    published: str
    remarks: Sequence[str]
    seeds: tuple[int, ...]

    @cache  # noqa: B019  # items live as long as the program
    def panels(self, scale: str) -> tuple[Panel, ...]:
        """Return the panels at a scale."""
        tree = _at_scale(self.tree, scale)
        panels = tree.get("panels", {"": {}})
        return tuple(
            _panel(tree, name, dict(changes), task)
            for name, changes in panels.items()
            for task in ([changes["task"]] if "task" in changes else tree["tasks"])
        )


def _at_scale(tree: Tree, scale: str) -> Tree:
    if isinstance(tree, dict) and tree.keys() == set(SCALES):
        return _at_scale(tree[scale], scale)
    if isinstance(tree, dict):
        return {key: _at_scale(value, scale) for key, value in tree.items()}
    return [_at_scale(one, scale) for one in tree] if isinstance(tree, list) else tree


def _filled(tree: Tree, words: Mapping[str, Any]) -> Tree:
    """Put parameters into every text."""
    if isinstance(tree, dict):
        return {key: _filled(value, words) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_filled(one, words) for one in tree]
    return tree.format_map(words) if isinstance(tree, str) else tree


def _panel(tree: Tree, name: str, changes: dict[str, Any], task: str) -> Panel:
    """Make a panel of an item from what it changes and from its task; all of `changes` that is left is settings."""
    about = _read()["tasks"][changes.pop("task", task)]
    words = {**about, "task": about["title"]}
    words |= _filled(_read()["plugins"], words)
    beside = _filled(changes.pop("beside", []), words)
    preset = _preset(changes.pop("preset", about["preset"]), about["scale"])
    target = tree.get("target", {})
    return Panel(
        title=f"{about['title']}, {name}" if name else about["title"],
        task=about["title"],
        base={**preset, **about.get("settings", {}), **changes},
        lines=tuple(line for one in tree["lines"] for line in _lines(one, words)),
        target=Target(**{**target, "fixed": about[target["fixed"]]} if "fixed" in target else target),
        beside=tuple(beside),
        input=tuple(about["input"]),
        classes=about["classes"],
    )


def _lines(tree: Tree, words: Mapping[str, Any]) -> list[Line]:
    """Return the lines of an entry: itself, one for each value, or a base alone and with each plugin."""
    if "plugins" in tree:
        base = tree["plugins"]
        method = _read()["bases"][base].format_map(words)
        before = "" if method == "fedavg" else f"{method}+"
        return [
            Line(base, method),
            *(Line(f"{base} + {name}", f"{before}{words[name]}") for name in _read()["plugins"]),
        ]
    values = tree.get("values", [""])
    plain = {key: value for key, value in tree.items() if key != "values"}
    return [
        Line(**_filled(plain, {**words, "value": value}), value=str(value))
        for value in (words[values] if isinstance(values, str) else values)
    ]


@cache
def _preset(name: str, scale: str) -> Mapping[str, Any]:
    return parse_settings(preset_text(name, scale), f"preset {name}")


@cache
def _read() -> Tree:
    return yaml.safe_load((HERE / "items.yaml").read_text(encoding="utf-8"))


def _item(name: str, tree: Tree) -> Item:
    claims = [Claim(**{**one, "checks": [Check(**check) for check in one.get("checks", [])]}) for one in tree["claims"]]
    return Item(
        name=name,
        title=tree["title"],
        tree={key: tree[key] for key in ("tasks", "panels", "lines", "target") if key in tree},
        draw=tree.get("draw", ["curves"]),
        source=tree.get("source", ""),
        claims=claims,
        published=tree.get("published", ""),
        remarks=tree.get("remarks", []),
        seeds=tuple(tree.get("seeds", SEEDS)),
    )


ITEMS: dict[str, Item] = {name: _item(name, {"claims": [], **tree}) for name, tree in _read()["items"].items()}
"""All items by name, in the paper's order."""
SAME_DATA: dict[str, str] = _read()["same_data"]
"""Results on the second data count for cells on the first."""


def images(scale: str) -> dict[str, Config]:
    """Return the settings of each image task of a scale, by the task's title."""
    return {panel.task: Config(**panel.base) for panel in ITEMS["table1"].panels(scale)}


# --------------------------------------------------------------------------------------------------------------------
# The numbers of the paper's tables as printed; its figures come without numbers.


@dataclass(frozen=True)
class Published:
    """A method in one setup: accuracy in percent and its standard deviation, rounds to the target ("258" or ">1000"),
    and the speed-up or the hours, where the table has them. `source` is the table's label in the paper."""

    source: str
    setup: str
    method: str
    accuracy: str
    std: str
    rounds: str
    speed_up: str
    hours: str

    @property
    def text(self) -> str:
        """Write it in one cell.

        >>> published("table2")["CIFAR-10, Dir 0.2", "SMoFi"].text
        '81.82 %, R 56, 29.02 h'
        """
        rest = [f"{self.speed_up}x"] if self.speed_up else [f"{self.hours} h"] if self.hours else []
        return ", ".join([f"{self.accuracy} %", f"R {self.rounds}", *rest])


@cache
def published(table: str) -> dict[tuple[str, str], Published]:
    """Return the rows of a table by setup and method.

    >>> published("table1")["Tiny-ImageNet, Dir 0.2", "FedNAR + SMoFi"].speed_up
    '10.25'
    """
    text = (HERE / "published" / f"{table}.csv").read_text(encoding="utf-8")
    rows = [Published(**row) for row in csv.DictReader(text.splitlines())]
    return {(row.setup, row.method): row for row in rows}
