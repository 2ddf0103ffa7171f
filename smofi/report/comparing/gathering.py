"""Runs that belong in one table, and those that do not: two of the same are refused, unfinished ones left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from smofi.errors import InputError
from smofi.report.setups import Setup, read_runs, setups_of
from smofi.report.show.snapshot import Snapshot
from smofi.runs import DamagedFile

SAME = {
    "data_sha256": "on other data",
    "partition_sha256": "with another partition",
    "devices_sha256": "with other devices",
}
"""What runs of one setup share if their seed is the same, and what to say if they do not."""


@dataclass(frozen=True)
class LeftOut:
    """A run that counts for nothing, and why."""

    run: Snapshot
    why: str

    @property
    def sentence(self) -> str:
        """What is said below the table."""
        return f"{self.run.method} with seed {self.run.config.seed} is left out: {self.why} ({self.run.path})"


@dataclass(frozen=True)
class Gathered:
    """The setups of finished runs, the runs left out of each, and the sentences of those that cannot be read."""

    setups: list[Setup]
    left_out: dict[str, list[LeftOut]]
    unreadable: list[str]

    @property
    def counted(self) -> list[Setup]:
        """The setups with the runs that count alone; refused if there is none."""
        gone = {id(one.run) for left_out in self.left_out.values() for one in left_out}
        counted = [
            replace(setup, runs=runs)
            for setup in self.setups
            if (runs := tuple(run for run in setup.runs if id(run) not in gone))
        ]
        if not counted:
            first = next(one for left_out in self.left_out.values() for one in left_out)
            raise InputError(f"no run counts: expected a finished one, but {first.sentence}")
        return counted


def gather(paths: Sequence[str | Path]) -> Gathered:
    """The runs of these folders by setup; refused if two of them are the same, or should be comparable and are not."""
    errors: list[DamagedFile] = []
    runs = read_runs(paths, errors)
    setups = setups_of(runs)
    for setup in setups:
        _check_once(setup)
        _check_comparable(setup)
    if not setups:
        raise InputError(str(errors[0]))
    left_out = {setup.name: [LeftOut(run, why) for run in setup.runs if (why := why_not(run))] for setup in setups}
    return Gathered(setups, left_out, [str(error) for error in errors])


def why_not(run: Snapshot) -> str:
    """Why a run is left out of averages; empty if it is not."""
    if run.damaged:
        return f"damaged: {run.damaged[0].what}"
    done = f"round {run.history.rounds} of {run.progress.rounds}"
    if run.state == "diverged":
        return f"it diverged after {done}, so the mean of the other seeds flatters the method"
    if run.state != "finished":
        return f"it is {run.state}, {done}"
    return "" if run.history.measured else "it was never evaluated"


def _check_once(setup: Setup) -> None:
    found: dict[tuple[str, int], Snapshot] = {}
    for run in setup.runs:
        first = found.setdefault((run.method, run.config.seed), run)
        if first is not run:
            raise InputError(
                f"{first.path} and {run.path} are the same run, {run.method} with seed {run.config.seed} and the same "
                "settings: expected each once; leave one of them out"
            )


def _check_comparable(setup: Setup) -> None:
    """The same settings should mean the same data, and with the same seed the same partition and devices."""
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
