"""Finished runs from their folders, and the setups they form: what was trained, apart from the method and the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smofi.config import Config
from smofi.config.settings import COMPUTING
from smofi.errors import check_path, refuse
from smofi.report.history import History
from smofi.report.show import Snapshot, snapshots_in
from smofi.runs import DamagedFile, RunFolder, folders_in, runs_below

VARIED = frozenset({"method", "seed"})
"""What may differ within a setup."""


@dataclass(frozen=True)
class Setup:
    """Runs that differ in method and seed alone; `name` says what sets them apart from the other setups, `settings` has
    the values of those settings."""

    name: str
    runs: tuple[Snapshot, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The configuration of the first run, which all share but for method and seed."""
        return self.runs[0].config

    @property
    def histories(self) -> list[History]:
        """What each run measured."""
        return [run.history for run in self.runs]


def read_runs(paths: Sequence[str | Path], damaged: list[DamagedFile] | None = None) -> list[Snapshot]:
    """The runs of these folders, each a run, a comparison, or a folder with runs below it at any depth; each run once,
    in the order in which it is found. Those that cannot be read are refused, or added to `damaged` if it is given."""
    found: dict[Path, Snapshot] = {}
    for path in paths:
        for folder in folders_at(path):
            for run in snapshots_in(folder) if damaged is None else _readable(folder, damaged):
                found.setdefault(run.path.resolve(), run)
    return list(found.values())


def _readable(path: Path, damaged: list[DamagedFile]) -> list[Snapshot]:
    """The runs in a folder that can be read; what is wrong with the others is added to `damaged`."""
    found = []
    try:
        folders = folders_in(path)
    except DamagedFile as error:
        damaged.append(error)
        return []
    for folder in folders:
        try:
            found.append(Snapshot.read(folder))
        except DamagedFile as error:
            damaged.append(error)
    return found


def folders_at(path: str | Path) -> list[Path]:
    """The folder itself if it is that of a run or a comparison, else those below it; refused if there is none."""
    here = check_path("run", path)
    inside = folders_below(here)
    if not inside and here.is_dir() and not RunFolder(here).has_run:
        refuse("run", str(here), "the folder of a run, or one with runs below it, but it has none")
    return inside or [here]


def folders_below(path: Path) -> list[Path]:
    """The folders of runs and comparisons below one that is none itself, at any depth, by name.

    >>> folders_below(Path("no-such-folder"))
    []
    """
    own = runs_below(path)
    others = [] if not path.is_dir() or RunFolder(path).has_run else sorted(path.iterdir())
    nested = [one for folder in others if folder.is_dir() and folder not in own for one in folders_below(folder)]
    return sorted([*own, *nested])


def setups_of(runs: Sequence[Snapshot]) -> list[Setup]:
    """The runs by what was trained, in the order in which the first of each is found."""
    together: dict[tuple[tuple[str, Any], ...], list[Snapshot]] = {}
    for run in runs:
        together.setdefault(_trained(run.config), []).append(run)
    apart = {name for name, _ in set().union(*together) if len({dict(key)[name] for key in together}) > 1}
    own = {key: {name: _text(value) for name, value in key if name in apart} for key in together}
    return [Setup(_name(own[key]), tuple(members), own[key]) for key, members in together.items()]


def _trained(config: Config) -> tuple[tuple[str, Any], ...]:
    """All settings that decide what a run learns, but for the method and the seed."""
    settings = config.model_dump(exclude=set(COMPUTING | VARIED))
    return tuple(sorted(settings.items()))


def _name(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)
