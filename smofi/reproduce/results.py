"""What finished runs measured: found by their settings in a folder of runs, or in the project's files of results.

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

from smofi.config import Config, sentence_of
from smofi.config.reading import as_begun, value_as_yaml, written_out
from smofi.errors import InputError, check_seed
from smofi.files import write_atomically
from smofi.plain_yaml import parse_settings, read_text
from smofi.report.results import History, Row, measure
from smofi.report.snapshots import Snapshot
from smofi.reproduce.items import ITEMS, Line, Panel, Task
from smofi.settings import SETTINGS
from smofi.sweep.store import WITHOUT_EFFECT, Cell, Store, deciding

# --------------------------------------------------------------------------------------------------------------------
# What `smofi reproduce` is asked for.


@dataclass(frozen=True)
class Asked:
    """The scale, the seeds (None: those of each item), and the folder of the runs; how many run at a time (None: as
    many as there are cores), on which device; and a folder of files with results that count as done."""

    scale: str
    seeds: tuple[int, ...] | None
    store: Path
    jobs: int | None = None
    device: str = "cpu"
    known: Path | None = None

    def cells(self, names: Sequence[str]) -> list[Cell]:
        """The runs of these items, each once; an item without any is passed over."""
        items = [ITEMS[name] for name in names if name in ITEMS]
        every = [cell for item in items for cell in item.at(self.scale).cells(self.seeds or item.seeds)]
        found = {cell.key: cell for cell in every}
        return [Cell(cell.config.model_copy(update={"device": self.device}), cell.label) for cell in found.values()]


# --------------------------------------------------------------------------------------------------------------------
# What finished runs measured, from a folder of runs or from the project's files of results.


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


# --------------------------------------------------------------------------------------------------------------------
# Results as files that are kept with the project: a CSV with a row per run, and the settings they all share as YAML.

KEPT = tuple(name for name in SETTINGS if name not in WITHOUT_EFFECT - {"rounds"})
"""The settings that decide the numbers."""
OWN = ("version", "seconds", "accuracy", "virtual_seconds")
"""Of a run: the version of smofi, seconds that its rounds took, and after every round accuracy and virtual time."""
SEED, NOT_EVALUATED = "seed", "-"
FILES = "CSV files that smofi reproduce --collect makes"


def collect(folder: Path, runs: Iterable[Recorded]) -> list[Path]:
    """Add runs to the files of a folder, a file for each data set; a run that is there already is replaced."""
    if not (added := Results(runs).runs):
        return []
    known = read_results(folder).runs if folder.exists() else {}
    together = known | added
    by_data: dict[str, list[Recorded]] = {}
    for run in together.values():
        by_data.setdefault(Path(run.config.data.rpartition(":")[2]).stem, []).append(run)
    folder.mkdir(parents=True, exist_ok=True)
    return [path for data, runs in sorted(by_data.items()) for path in _write(folder / f"{data}.csv", runs)]


def _write(path: Path, runs: Sequence[Recorded]) -> list[Path]:
    settings = [
        {name: value_as_yaml(name, getattr(run.config, name)) for name in KEPT}
        | {"partition": written_out(run.config)["partition"]}
        for run in runs
    ]
    differ = [name for name in KEPT if len({one[name] for one in settings}) > 1 or name in ("method", "seed")]
    rows = [[*(one[name] for name in differ), *_own(run)] for one, run in zip(settings, runs, strict=True)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([[*differ, *OWN], *sorted(rows)])
    common = "".join(f"{name}: {settings[0][name]}\n" for name in KEPT if name not in differ)
    for file, content in ((path, text.getvalue()), (path.with_suffix(".yaml"), common)):
        write_atomically(file, content.encode())
    return [path, path.with_suffix(".yaml")]


def _own(run: Recorded) -> list[str]:
    history = run.history
    hours = " ".join(f"{3600 * hour:.6g}" for hour in history.hours)
    return [run.version, f"{history.total_seconds:.0f}", " ".join(map(_value, history.values)), hours]


def _value(value: float | None) -> str:
    """An accuracy, exact for test sets of up to a million samples in round numbers.

    >>> _value(0.1715), _value(0.5), _value(None)
    ('0.1715', '0.5', '-')
    """
    return NOT_EVALUATED if value is None else f"{value:.6g}"


def read_results(folder: Path) -> Results:
    """All runs in the files of a folder."""
    if not folder.is_dir():
        wrong = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {wrong}: expected a folder with {FILES}")
    return Results(run for path in sorted(folder.glob("*.csv")) for run in _read(path))


def known_results(folder: Path | None) -> Results:
    """The same of a folder that is expected to have some; none without a folder."""
    if folder is None:
        return Results()
    if not (found := read_results(folder)).runs:
        raise InputError(f"{folder} has no results: expected a folder with {FILES}")
    return found


def _read(path: Path) -> list[Recorded]:
    """The runs of a file; none if it is another kind of file."""
    rows = list(csv.DictReader(io.StringIO(read_text(path))))
    if not rows or not set(OWN) <= set(rows[0]):
        return []
    shared = path.with_suffix(".yaml")
    common = parse_settings(read_text(shared), str(shared))
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
    history = History(Cell(config).method, values, seconds, hours, config.seed)
    return Recorded(config, history, row["version"])


# --------------------------------------------------------------------------------------------------------------------
# A panel with its numbers: a row for each line that has runs, and which runs are missing.


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
