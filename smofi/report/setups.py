"""Finished runs from their folders, and the setups they form: what was trained, apart from the method and the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smofi.config import Config
from smofi.errors import check_path, refuse
from smofi.report.history import History
from smofi.report.show.snapshot import Snapshot, snapshots_in
from smofi.runs import runs_below
from smofi.settings import COMPUTING

VARIED = frozenset({"method", "seed"})
"""What may differ within a setup."""


@dataclass(frozen=True)
class Setup:
    """Runs that differ in method and seed alone; `name` says what sets them apart from the other setups."""

    name: str
    runs: tuple[Snapshot, ...]

    @property
    def config(self) -> Config:
        """The configuration of the first run, which all share but for method and seed."""
        return self.runs[0].config

    @property
    def histories(self) -> list[History]:
        """What each run measured."""
        return [run.history for run in self.runs]


def read_runs(paths: Sequence[str | Path]) -> list[Snapshot]:
    """The runs of these folders, each a run, a comparison, or a folder with runs below it at any depth; each run once,
    in the order in which it is found."""
    found: dict[Path, Snapshot] = {}
    for path in paths:
        for run in _runs_in(check_path("run", path)):
            found.setdefault(run.path.resolve(), run)
    return list(found.values())


def _runs_in(path: Path) -> list[Snapshot]:
    if inside := folders_below(path):
        return [run for folder in inside for run in snapshots_in(folder)]
    if path.is_dir() and not any(path.iterdir()):
        refuse("run", str(path), "the folder of a run, or one with runs below it, but it is empty")
    return snapshots_in(path)


def folders_below(path: Path) -> list[Path]:
    """The folders of runs and comparisons below one that is none itself, at any depth, by name.

    >>> folders_below(Path("no-such-folder"))
    []
    """
    own = runs_below(path)
    others = [] if not path.is_dir() or (path / "config.yaml").exists() else sorted(path.iterdir())
    nested = [one for folder in others if folder.is_dir() and folder not in own for one in folders_below(folder)]
    return sorted([*own, *nested])


def setups_of(runs: Sequence[Snapshot]) -> list[Setup]:
    """The runs by what was trained, in the order in which the first of each is found."""
    together: dict[tuple[tuple[str, Any], ...], list[Snapshot]] = {}
    for run in runs:
        together.setdefault(_trained(run.config), []).append(run)
    apart = {name for name, _ in set().union(*together) if len({dict(key)[name] for key in together}) > 1}
    return [Setup(_name(key, apart), tuple(members)) for key, members in together.items()]


def _trained(config: Config) -> tuple[tuple[str, Any], ...]:
    """All settings that decide what a run learns, but for the method and the seed."""
    settings = config.model_dump(exclude=set(COMPUTING | VARIED))
    return tuple(sorted(settings.items()))


def _name(trained: tuple[tuple[str, Any], ...], apart: set[str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in trained if name in apart)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
