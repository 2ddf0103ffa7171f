"""Runs read from their folders: found at any depth, each once; the setups they form; those that count in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from smofi.config import Config, run_config
from smofi.config.settings import COMPUTING
from smofi.engine.metrics import headings
from smofi.errors import InputError, check_path, refuse
from smofi.report.results import History, RunProgress, finite
from smofi.runs import DamagedFile, Participant, RunFolder, folders_in, participants_in, runs_below, writer_of

# --------------------------------------------------------------------------------------------------------------------
# What the files of a run folder say at this moment.


@dataclass(frozen=True)
class Snapshot:
    """A run folder at the time it was read; `damaged` are files that are not shown and not what the run saved
    them. `clients` are those of a served run."""

    folder: RunFolder
    config: Config
    about: Mapping[str, Any]
    records: list[dict[str, Any]]
    result: Mapping[str, Any] | None
    writer: str | None
    damaged: list[DamagedFile]
    clients: list[Participant] | None = None

    @classmethod
    def read(cls, folder: RunFolder) -> Snapshot:
        """Read a folder. The writer is looked for first: if it ends meanwhile, its result is read."""
        writer, damaged, clients = writer_of(folder.path), folder.damaged(), None
        try:
            clients = participants_in(folder)
        except DamagedFile as error:
            damaged, clients = [*damaged, error], []
        return cls(
            folder,
            config=run_config(folder) or Config(),
            about=folder.about() or {},
            records=folder.records(),
            result=folder.result(),
            writer=writer,
            damaged=damaged,
            clients=clients,
        )

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def method(self) -> str:
        return " ".join(self.config.method)

    @property
    def called(self) -> str:
        return f"{self.method} with seed {self.config.seed}"

    @cached_property
    def history(self) -> History:
        metrics = self.about.get("metrics") or headings(self.config.metrics)  # earlier versions kept none
        chance = self.about.get("chance")
        return History.of(self.method, self.records, seed=self.config.seed, metrics=metrics, chance=chance)

    @property
    def progress(self) -> RunProgress:
        return RunProgress(self.history, self.config.rounds)

    @property
    def evaluated(self) -> list[int]:
        """The rounds after which anything was measured."""
        return [
            number
            for number, record in enumerate(self.records, start=1)
            if record.get("metrics") or any(record.get(name) is not None for name in ("accuracy", "loss", "validation"))
        ]

    @property
    def state(self) -> str:
        """Finished, still going, interrupted or diverged. A result from before a resume does not count."""
        if self.writer:
            return "still going"
        if self.result and self.result.get("rounds") == len(self.records):
            if self.result.get("diverged"):
                return "diverged"
            if self.result.get("stopped") or len(self.records) >= self.progress.rounds:
                return "finished"
        return "interrupted"

    @property
    def stopped(self) -> str:
        return str((self.result or {}).get("stopped") or "")

    @cached_property
    def uncounted(self) -> str:
        """Why the run is left out of averages; empty if it is not."""
        done = f"round {self.history.rounds} of {self.progress.rounds}"
        if self.damaged:
            return f"damaged: {self.damaged[0].what}"
        if self.state == "diverged":
            return f"it diverged after {done}, so the mean of the other seeds flatters the method"
        if self.state != "finished":
            return f"it is {self.state}, {done}"
        return "" if self.history.measured else "it was never evaluated"

    def values(self, name: str) -> list[Any]:
        """Return the values of a field that is a list in each record, of all rounds."""
        return [value for record in self.records for value in record.get(name) or ()]

    @cached_property
    def diagnostics(self) -> dict[str, list[float]]:
        """The values of each measure in the rounds that have it."""
        found: dict[str, list[float]] = {}
        for record in self.records:
            for name, value in (record.get("diagnostics") or {}).items():
                found.setdefault(name, []).extend(finite([value]))
        return {name: values for name, values in found.items() if values}


# --------------------------------------------------------------------------------------------------------------------
# The runs in folders.


@dataclass(frozen=True)
class Found:
    """The folder of a run, found in one that was `given`: the run, or why it cannot be read."""

    path: Path
    given: Path
    run: Snapshot | None = None
    error: InputError | None = None


def snapshots_in(folder: str | Path) -> list[Snapshot]:
    """Return the run of this folder, or the runs of a comparison in the order of its configuration."""
    path = Path(folder)
    runs = [Snapshot.read(one) for one in folders_in(path)]
    if runs[0].path != path:
        run_config(RunFolder(path))  # refused if it is not as it was saved
    return runs


def find_runs(paths: Sequence[str | Path]) -> list[Found]:
    """Find the runs in these folders, each a run, a comparison, or a folder with runs below it at any depth; each run
    once, in the order in which it is found. A folder without any is refused."""
    found: dict[Path, Found] = {}
    for path in paths:
        given = check_path("run", path)
        inside = runs_below(given, deep=True)
        if not inside and given.is_dir() and not RunFolder(given).has_run:
            refuse("run", str(given), "the folder of a run, or one with runs below it, but it has none")
        for folder in inside or [given]:
            try:
                folders = folders_in(folder)
            except DamagedFile as error:
                found.setdefault(folder.resolve(), Found(folder, given, error=error))
                continue
            for path in (one.path for one in folders):
                try:
                    one = Found(path, given, Snapshot.read(RunFolder(path)))
                except InputError as error:
                    one = Found(path, given, error=error)
                found.setdefault(path.resolve(), one)
    return list(found.values())


def read_runs(paths: Sequence[str | Path]) -> list[Snapshot]:
    """Read the runs in these folders; one that cannot be read is refused."""
    runs = []
    for one in find_runs(paths):
        if one.error:
            raise one.error
        runs += [one.run] if one.run else []
    return runs


# --------------------------------------------------------------------------------------------------------------------
# Setups: what was trained, apart from the method and the seed.

VARIED = frozenset({"method", "seed"})
"""Settings that may differ within a setup."""


@dataclass(frozen=True)
class Setup:
    """Runs that differ in method and seed alone; `name` says what sets them apart from the other setups, `settings` has
    the values of those settings."""

    name: str
    runs: tuple[Snapshot, ...]
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        return self.runs[0].config

    @property
    def counted(self) -> Setup:
        """The setup without the runs that are left out of averages."""
        return replace(self, runs=tuple(run for run in self.runs if not run.uncounted))

    @property
    def left_out(self) -> list[str]:
        """A sentence for each run that is left out of averages."""
        return [f"{run.called} is left out: {run.uncounted} ({run.path})" for run in self.runs if run.uncounted]

    @property
    def histories(self) -> list[History]:
        return [run.history for run in self.runs]


def setups_of(runs: Sequence[Snapshot]) -> list[Setup]:
    """Group runs by what was trained, in the order in which the first of each is found."""

    def text(value: Any) -> str:
        return ", ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)

    together: dict[tuple[tuple[str, Any], ...], list[Snapshot]] = {}
    for run in runs:
        trained = run.config.model_dump(exclude=set(COMPUTING | VARIED))
        together.setdefault(tuple(sorted(trained.items())), []).append(run)
    apart = {name for name, _ in set().union(*together) if len({dict(key)[name] for key in together}) > 1}
    setups = []
    for key, members in together.items():
        own = {name: text(value) for name, value in key if name in apart}
        name = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in own.items())
        setups.append(Setup(name, tuple(members), own))
    return setups


# --------------------------------------------------------------------------------------------------------------------
# Runs that belong in one table, and those that do not: two of the same are refused, unfinished ones left out.

SAME = {
    "data_sha256": "on other data",
    "partition_sha256": "with another partition",
    "devices_sha256": "with other devices",
}
"""Checksums that runs of one setup and seed share, and what to say if they do not."""


def gather(paths: Sequence[str | Path]) -> tuple[list[Setup], list[str]]:
    """Gather the runs of these folders by setup, and what is wrong with those that cannot be read; refused if two are
    the same, or should be comparable and are not."""
    found = find_runs(paths)
    errors = [one.error for one in found if one.error]
    setups = setups_of([one.run for one in found if one.run])
    if wrong := [error for error in errors if not setups or not isinstance(error, DamagedFile)]:
        raise InputError(str(wrong[0]))
    for setup in setups:
        once: dict[str, Snapshot] = {}
        for run in setup.runs:
            if (first := once.setdefault(run.called, run)) is not run:
                raise InputError(
                    f"{first.path} and {run.path} are the same run, {run.called} and the same settings: expected each "
                    "once; leave one of them out"
                )
        _check_comparable(setup)
    return setups, [str(error) for error in errors]


def counted(setups: Sequence[Setup]) -> list[Setup]:
    """Return the setups with the runs that count alone; refused if there is none."""
    found = [setup.counted for setup in setups if setup.counted.runs]
    if not found:
        first = next(sentence for setup in setups for sentence in setup.left_out)
        raise InputError(f"no run counts: expected a finished one, but {first}")
    return found


def _check_comparable(setup: Setup) -> None:
    """Refuse runs of the same settings on other data, or of the same seed with another partition or other devices."""
    for name, words in SAME.items():
        first: dict[int | None, Snapshot] = {}
        for run in setup.runs:
            if name not in run.about:  # earlier versions kept fewer
                continue
            other = first.setdefault(None if name == "data_sha256" else run.config.seed, run)
            if other.about[name] != run.about[name]:
                raise InputError(
                    f"{other.path} and {run.path} cannot be compared: they have the same settings, but the second ran "
                    f"{words} ({name} {str(run.about[name])[:12]} instead of {str(other.about[name])[:12]})"
                )
