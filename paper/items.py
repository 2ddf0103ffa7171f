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
TREE: Tree = yaml.safe_load((HERE / "items.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Target:
    """A share of the baseline's best with the same seed; or `fixed`, one accuracy for all; or, with `rounded`, that
    share of its mean best over seeds, rounded down to a whole percent.
    """

    share: float = 0.9
    fixed: float | None = None
    rounded: bool = False

    def given(self, bests: Sequence[float]) -> float | None:
        """Return the accuracy where it is one for all seeds, None otherwise; `bests` are the baseline's."""
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
    """Hold a sentence of the paper and the checks that decide it. Without checks, `why` says why none can."""

    says: str
    checks: Sequence[Check] = ()
    why: str = ""


@dataclass(frozen=True, eq=False)
class Item:
    """A table or a figure of the paper, or one of ours. What varies in it is as items.yaml has it."""

    name: str
    title: str
    lines: list[Tree]
    tasks: Tree = None
    panels: Tree = field(default_factory=lambda: {"": {}})
    target: Tree = field(default_factory=dict)
    source: str = ""
    published: str = ""
    draw: Sequence[str] = ("curves",)
    claims: Sequence[Claim] = ()
    remarks: Sequence[str] = ()
    seeds: Sequence[int] = SEEDS

    @cache  # noqa: B019  # items live as long as the program
    def at(self, scale: str) -> tuple[Panel, ...]:
        """Return the panels at a scale."""
        tasks, panels, lines, target = _at_scale([self.tasks, self.panels, self.lines, self.target], scale)
        return tuple(
            _panel(name, changes, task, lines, target)
            for name, changes in panels.items()
            for task in ([changes["task"]] if "task" in changes else tasks)
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


def _panel(name: str, changes: Tree, task: str, lines: list[Tree], target: Tree) -> Panel:
    """Make a panel of an item from what it changes, which is settings but for a few keys, and from its task."""
    about = TREE["tasks"][task]
    words = {**about, "task": about["title"]}
    words |= _filled(TREE["plugins"], words)
    settings = {key: value for key, value in changes.items() if key not in ("task", "preset", "beside")}
    return Panel(
        title=f"{about['title']}, {name}" if name else about["title"],
        task=about["title"],
        base={
            **_preset(changes.get("preset", about["preset"]), about["scale"]),
            **about.get("settings", {}),
            **settings,
        },
        lines=tuple(line for one in lines for line in _lines(one, words)),
        target=Target(**{**target, "fixed": about[target["fixed"]]} if "fixed" in target else target),
        beside=tuple(_filled(changes.get("beside", []), words)),
        input=tuple(about["input"]),
        classes=about["classes"],
    )


def _lines(tree: Tree, words: Mapping[str, Any]) -> list[Line]:
    """Return the lines of an entry: itself, one for each value, or a base alone and with each plugin."""
    if "plugins" in tree:
        base = tree["plugins"]
        method = TREE["bases"][base].format_map(words)
        before = "" if method == "fedavg" else f"{method}+"
        return [
            Line(base, method),
            *(Line(f"{base} + {name}", f"{before}{words[name]}") for name in TREE["plugins"]),
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


def _item(name: str, tree: Tree) -> Item:
    claims = [
        Claim(**{**one, "checks": [Check(**check) for check in one.get("checks", [])]})
        for one in tree.get("claims", [])
    ]
    return Item(name, **{**tree, "claims": claims})


ITEMS: dict[str, Item] = {name: _item(name, tree) for name, tree in TREE["items"].items()}
"""All items by name, in the paper's order."""
SAME_DATA: dict[str, str] = TREE["same_data"]
"""Results on the second data count for cells on the first."""


def images(scale: str) -> dict[str, Config]:
    """Return the settings of each image task of a scale, by the task's title."""
    return {panel.task: Config(**panel.base) for panel in ITEMS["table1"].at(scale)}


@cache
def published(table: str) -> dict[tuple[str, str], str]:
    """Return the numbers of a table of the paper by setup and method; its figures come without numbers."""
    found = {}
    with (HERE / "published" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            last = f", {row['speed_up']}x" if row["speed_up"] else f", {row['hours']} h"
            found[row["setup"], row["method"]] = f"{row['accuracy']} %, R {row['rounds']}{last}"
    return found
