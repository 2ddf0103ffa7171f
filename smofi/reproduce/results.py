"""What finished runs measured, from a folder of runs or from the project's files of results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smofi.config import Config
from smofi.errors import InputError
from smofi.report.history import History
from smofi.report.show.snapshot import Snapshot
from smofi.reproduce.asked import Asked
from smofi.reproduce.items import ITEMS
from smofi.reproduce.items.tasks import Task
from smofi.sweep.cells import Cell, deciding
from smofi.sweep.store import Store


@dataclass(frozen=True)
class Recorded:
    """A finished run: its settings, what it measured, and the version of smofi that ran it."""

    config: Config
    history: History
    version: str = ""

    @classmethod
    def of(cls, run: Snapshot) -> Recorded:
        """The run in a folder."""
        about: Mapping[str, Any] = run.about
        return cls(without_folder(run.config), run.history, str(about.get("smofi") or ""))


def without_folder(config: Config) -> Config:
    """The user's own data by its name alone: where it lies is no part of a result.

    >>> without_folder(Config(method="fedavg", data="npz:/data/words.npz")).data
    'npz:words.npz'
    """
    scheme, colon, path = config.data.partition(":")
    if not colon or scheme == "python":
        return config
    return config.model_copy(update={"data": f"{scheme}:{Path(path).name}"})


class Results:
    """Finished runs, found by the cell they belong to; `unreadable` says what is wrong with those left out."""

    def __init__(self, runs: Iterable[Recorded] = (), unreadable: Iterable[str] = ()) -> None:
        self.runs = {Cell(run.config).key: run for run in runs}
        self.unreadable = list(unreadable)

    def of(self, cell: Cell) -> Recorded | None:
        """The run of a cell, None if it is not there."""
        if found := self.runs.get(cell.key):
            return found
        if cell.config.executor != ("auto",):
            return None
        able = (run for run in self.runs.values() if run.config.rounds == cell.config.rounds)
        return next((run for run in able if cell.is_run_of(deciding(run.config))), None)

    def standing_in(self, task: Task) -> Results:
        """The same, with those that stand in for the task's own data taken for it."""
        if not task.stand_in:
            return self
        own = task.config({})
        taken = [
            replace(run, config=run.config.model_copy(update={name: getattr(own, name) for name in task.stand_in}))
            for run in self.runs.values()
            if all(getattr(run.config, name) == value for name, value in task.stand_in.items())
        ]
        return Results([*taken, *self.runs.values()])

    def besides(self, other: Results) -> Results:
        """These and others; of a run that both have, this one."""
        return Results([*other.runs.values(), *self.runs.values()], [*self.unreadable, *other.unreadable])

    def __contains__(self, cell: Cell) -> bool:
        return self.of(cell) is not None


def results_in(folder: str | Path, cells: Iterable[Cell] | None = None) -> Results:
    """Those of the finished runs below a folder; with `cells`, of these alone."""
    store = Store(folder)
    wrong = [str(error) for error in store.unreadable.values()]
    found = []
    for cell in [Cell(run.config) for run in store.runs.values()] if cells is None else cells:
        try:
            if run := store.finished(cell):
                found.append(Recorded.of(Snapshot.read(run)))
        except InputError as error:
            wrong.append(str(error))
    return Results(found, wrong)


def without(results: Results, names: Iterable[str], asked: Asked) -> list[Cell]:
    """The runs of these items that results do not have. Where other data stands in for a task's own, its runs count."""
    done = {
        cell.key
        for name in names
        if name in ITEMS
        for panel in ITEMS[name].at(asked.scale).panels
        if (own := results.standing_in(panel.task)).runs
        for cell in panel.cells(asked.seeds or ITEMS[name].seeds).values()
        if cell in own
    }
    return [cell for cell in asked.cells(list(names)) if cell.key not in done]
