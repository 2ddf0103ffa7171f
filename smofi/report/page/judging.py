"""The measures of a setup's runs, finished or not, and what must be said about runs that are not comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from smofi.errors import InputError
from smofi.plural import plural
from smofi.report.history import History
from smofi.report.measures import USUAL_BASELINE, Row, alike, compare
from smofi.report.page.reading import UNFINISHED
from smofi.report.setups import Setup
from smofi.report.show import Snapshot


@dataclass(frozen=True)
class Judged:
    """A setup's methods: the rows of its table, `marks` beside a method whose runs are not all finished, and `notes` on
    runs that are left out of the table."""

    rows: list[Row]
    marks: dict[str, str]
    notes: list[str]
    runs: list[Snapshot]

    @property
    def alike(self) -> list[Row]:
        """The finished methods with as many seeds and rounds as most others, which alone can be ranked."""
        return alike([row for row in self.rows if row.name not in self.marks])

    @property
    def winner(self) -> Row | None:
        """Of several that can be ranked, the one with the highest mean over rounds."""
        return max(self.alike, key=lambda row: row.mean) if len(self.alike) > 1 else None

    def row(self, name: str | None) -> Row | None:
        """That of a method, if it is in the table."""
        return next((row for row in self.rows if row.name == name), None)


def judge(setup: Setup) -> Judged:
    """Measure what can be compared."""
    runs, notes = _each_once(setup.runs)
    histories = [run.history for run in runs if run.history.measured]
    names = {history.name for history in histories}
    baseline = USUAL_BASELINE if USUAL_BASELINE in names or not histories else histories[0].name
    seeds = {history.seed for history in histories if history.name == baseline}
    known = [history for history in histories if history.seed in seeds]
    notes += _without_baseline([history for history in histories if history.seed not in seeds], baseline)
    try:
        rows = compare(known)
    except InputError as error:  # for example runs with different metrics
        rows, notes = [], [*notes, f"These runs cannot be compared: {error}."]
    empty = [run for run in runs if not run.history.measured]
    notes += [f"{run.method}, seed {run.config.seed}, has no result: {run.state}." for run in empty]
    return Judged(rows, _marks(runs), notes, runs)


def _each_once(runs: Sequence[Snapshot]) -> tuple[list[Snapshot], list[str]]:
    """A run for each method and seed: of several, a finished one, or the one that has come furthest."""
    best: dict[tuple[str, int], Snapshot] = {}
    for run in runs:
        key = (run.method, run.config.seed)
        if key not in best or _rank(run) > _rank(best[key]):
            best[key] = run
    again = len(runs) - len(best)
    note = f"{plural(again, 'run')} left out: the same method and seed ran more than once with this setup."
    return list(best.values()), [note] if again else []


def _rank(run: Snapshot) -> tuple[bool, int]:
    return run.state not in UNFINISHED, len(run.records)


def _without_baseline(histories: Sequence[History], baseline: str) -> list[str]:
    if not histories:
        return []
    left_out = ", ".join(f"{history.name} (seed {history.seed})" for history in histories)
    return [f"Left out of the table, since {baseline} has no result with the same seed: {left_out}."]


def _marks(runs: Sequence[Snapshot]) -> dict[str, str]:
    """What is said beside the name of a method: how many of its runs diverged or are unfinished."""
    marks = {}
    for method in dict.fromkeys(run.method for run in runs):
        own = [run for run in runs if run.method == method]
        diverged = [run for run in own if run.state == "diverged"]
        going = [run for run in own if run.state in UNFINISHED]
        said = []
        if diverged:
            said.append("diverged" if len(own) == 1 else f"{len(diverged)} of {len(own)} seeds diverged")
        if going:
            share = fmean(run.progress.done for run in own)
            said.append(f"unfinished, {share:.0%} done")
        if said:
            marks[method] = "; ".join(said)
    return marks
