"""Find what finished runs measured, by their settings: in a folder of runs, or in the project's files of results.

docs/results/fashion-mnist.csv    settings that differ, method, seed, version, and values round by round
docs/results/fashion-mnist.yaml   settings that are the same in all these runs
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paper.items import SAME_DATA, Line, Panel
from smofi.config import Config, sentence_of
from smofi.config.reading import as_begun, value_as_yaml, written_out
from smofi.config.settings import SETTINGS
from smofi.errors import InputError, check_seed
from smofi.files import write_atomically
from smofi.plain_yaml import parse_settings
from smofi.report.results import History, Row, measure
from smofi.report.snapshots import Snapshot
from smofi.sweep.store import WITHOUT_EFFECT, Cell, Store, deciding


@dataclass(frozen=True)
class Recorded:
    """A finished run: its settings, what it measured, and the version of smofi that ran it."""

    config: Config
    history: History
    version: str = ""


class Results:
    """Finished runs, found by the cell they belong to; `unreadable` says what is wrong with those left out."""

    def __init__(self, runs: Iterable[Recorded] = (), unreadable: Iterable[str] = ()) -> None:
        self.runs = {Cell(run.config).key: run for run in runs}
        self.unreadable = list(unreadable)

    def of(self, cell: Cell) -> Recorded | None:
        """Return the run of a cell, or else one on data that counts as the same; None if there is neither."""
        if found := self.runs.get(cell.key):
            return found
        if cell.config.executor == ("auto",):
            for run in self.runs.values():
                alike = (run.config.data, run.config.rounds) == (cell.config.data, cell.config.rounds)
                if alike and cell.is_run_of(deciding(run.config)):
                    return run
        if same := SAME_DATA.get(cell.config.data):
            return self.of(Cell(cell.config.model_copy(update={"data": same})))
        return None

    def besides(self, other: Results) -> Results:
        """Join these and others; of a run that both have, take this one."""
        return Results([*other.runs.values(), *self.runs.values()], [*self.unreadable, *other.unreadable])

    def __contains__(self, cell: Cell) -> bool:
        return self.of(cell) is not None


def results_in(folder: Path) -> Results:
    """Read the finished runs below a folder."""
    store = Store(folder)
    found, wrong = [], [str(error) for error in store.unreadable.values()]
    for stored in store.runs.values():
        try:
            if stored.has_ended():
                run = Snapshot.read(stored.folder)
                version = str(run.about.get("smofi") or "")
                found.append(Recorded(_without_folder(stored.config), run.history, version))
        except InputError as error:
            wrong.append(str(error))
    return Results(found, wrong)


def _without_folder(config: Config) -> Config:
    """Name the user's own data without its folder: where it lies is no part of a result."""
    scheme, colon, path = config.data.partition(":")
    if not colon or scheme == "python":
        return config
    return config.model_copy(update={"data": f"{scheme}:{Path(path).name}"})


# --------------------------------------------------------------------------------------------------------------------
# Results as files that are kept with the project: a CSV with a row per run, and the settings they all share as YAML.

KEPT = tuple(name for name in SETTINGS if name not in WITHOUT_EFFECT - {"rounds"})
"""The settings that decide the numbers."""
OWN = ("version", "seconds", "accuracy", "virtual_seconds")
"""A run's own columns: smofi's version, the seconds of its rounds, and accuracy and virtual time after every round."""
SEED, NOT_EVALUATED = "seed", "-"


def collect(folder: Path, runs: Iterable[Recorded]) -> list[Path]:
    """Add runs to the files of a folder, a file for each data set; a run that is there already is replaced."""
    if not (added := Results(runs)).runs:
        return []
    together = added.besides(read_results(folder)) if folder.exists() else added
    by_data: dict[str, list[Recorded]] = {}
    for run in together.runs.values():
        by_data.setdefault(Path(run.config.data.rpartition(":")[2]).stem, []).append(run)
    folder.mkdir(parents=True, exist_ok=True)
    return [path for data, own in sorted(by_data.items()) for path in _write(folder / f"{data}.csv", own)]


def _write(path: Path, runs: Sequence[Recorded]) -> list[Path]:
    settings = [
        {name: value_as_yaml(name, getattr(run.config, name)) for name in KEPT}
        | {"partition": written_out(run.config)["partition"]}
        for run in runs
    ]
    differ = [name for name in KEPT if len({one[name] for one in settings}) > 1 or name in ("method", SEED)]
    rows = []
    for one, run in zip(settings, runs, strict=True):
        accuracy = " ".join(NOT_EVALUATED if value is None else f"{value:.6g}" for value in run.history.values)
        virtual = " ".join(f"{3600 * hour:.6g}" for hour in run.history.hours)
        own = [run.version, f"{run.history.total_seconds:.0f}", accuracy, virtual]
        rows.append([*(one[name] for name in differ), *own])
    common = "".join(f"{name}: {settings[0][name]}\n" for name in KEPT if name not in differ)
    write_atomically(path.with_suffix(".yaml"), common.encode())
    return [write_csv(path, [*differ, *OWN], sorted(rows)), path.with_suffix(".yaml")]


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """Write a CSV file, all of it or nothing."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    write_atomically(path, text.getvalue().encode())
    return path


def read_results(folder: Path | None) -> Results:
    """Read all runs in the files of a folder; without a folder, there are none."""
    if folder is not None and not folder.is_dir():
        wrong = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {wrong}: expected a folder with CSV files that --collect makes")
    return Results(run for path in sorted(folder.glob("*.csv") if folder else []) for run in _read(path))


def _read(path: Path) -> list[Recorded]:
    """Return the runs of a file; none if it is another kind of file."""
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    if not rows or not set(OWN) <= set(rows[0]):
        return []
    shared = path.with_suffix(".yaml")
    common = parse_settings(shared.read_text(encoding="utf-8"), str(shared))
    configs: dict[str, Config] = {}  # of runs that differ in the seed alone: to check all anew would take seconds
    return [_recorded(common, row, configs, f"{path}, line {number}") for number, row in enumerate(rows, start=2)]


def _recorded(common: Mapping[str, Any], row: Mapping[str, str], configs: dict[str, Config], where: str) -> Recorded:
    given = "".join(f"{name}: {text}\n" for name, text in row.items() if name not in (*OWN, SEED))
    try:
        if given not in configs:
            settings = {**common, **parse_settings(given, where)}
            # Files from before the balance rule say dirichlet(0.2), and mean it without.
            meant = as_begun({name: value for name, value in settings.items() if name == "partition"})
            configs[given] = Config(**settings | meant)
        config = configs[given].model_copy(update={SEED: check_seed(SEED, int(row[SEED]))})
        values = [None if text == NOT_EVALUATED else float(text) for text in row["accuracy"].split()]
        hours = [float(text) / 3600 for text in row["virtual_seconds"].split()]
        seconds = [float(row["seconds"] or 0)]
    except ValidationError as error:
        raise InputError(f"{where}: {sentence_of(error)}") from None
    except (ValueError, KeyError) as error:
        raise InputError(f"{where}: {error}") from None
    return Recorded(config, History(Cell(config).method, values, seconds, hours, config.seed), row["version"])


# --------------------------------------------------------------------------------------------------------------------
# A panel with its numbers: a row for each line that has runs, and which runs are missing.


@dataclass(frozen=True)
class Measured:
    """The histories of a panel's lines. `seeds` are those of `every_seed` that can be used: without the baseline, a
    seed has no target. A run that ended before its last round has diverged: it is in no number, but named."""

    panel: Panel
    seeds: tuple[int, ...]
    every_seed: tuple[int, ...]
    histories: dict[Line, list[History]]
    missing: tuple[tuple[Line, int], ...]
    diverged: tuple[tuple[Line, int], ...]

    @classmethod
    def of(cls, panel: Panel, seeds: Sequence[int], results: Results) -> Measured:
        """Take what the results have of a panel."""
        cells = panel.cells(seeds)
        found = {key: run.history for key, cell in cells.items() if (run := results.of(cell)) and run.history.measured}
        whole = {key: history for key, history in found.items() if history.rounds >= cells[key].config.rounds}
        usable = tuple(seed for seed in seeds if (panel.baseline, seed) in whole)
        histories = {
            line: [
                replace(whole[line, seed], name=panel.name_of(line), seed=seed)
                for seed in usable
                if (line, seed) in whole
            ]
            for line in panel.lines
        }
        missing = tuple(key for key in cells if key not in found)
        return cls(panel, usable, tuple(seeds), histories, missing, tuple(key for key in found if key not in whole))

    @property
    def all_histories(self) -> list[History]:
        return [history for line in self.panel.lines for history in self.histories[line]]

    @cached_property
    def target(self) -> float | None:
        """The accuracy to reach, where it is one for all seeds."""
        return self.panel.target.given([max(history.measured) for history in self.histories[self.panel.baseline]])

    @cached_property
    def rows(self) -> dict[Line, Row]:
        """The measures of each line that has runs."""
        if not self.all_histories:
            return {}
        baseline, share = self.panel.name_of(self.panel.baseline), self.panel.target.share
        rows = {row.name: row for row in measure(self.all_histories, baseline, share=share, target=self.target)}
        return {line: rows[self.panel.name_of(line)] for line in self.panel.lines if self.histories[line]}

    def history(self, line: Line, seed: int) -> History:
        """Return the history of a line with a seed that it has."""
        return next(history for history in self.histories[line] if history.seed == seed)

    def target_of(self, seed: int) -> float:
        """Return the accuracy to reach with this seed."""
        if self.target is not None:
            return self.target
        return self.panel.target.share * max(self.history(self.panel.baseline, seed).measured)

    def rounds_by_seed(self, line: Line) -> dict[int, int | None]:
        """Return the rounds to the target with each seed, None where it is missed."""
        return {one.seed: one.rounds_to(self.target_of(one.seed)) for one in self.histories[line]}
