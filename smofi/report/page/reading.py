"""The runs of the given folders, as the page shows them: without the machine's folders, judged, and as series."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from smofi.engine.metrics import is_share
from smofi.errors import InputError, refuse
from smofi.plural import plural
from smofi.report.history import History, Scale, band, finite
from smofi.report.measures import USUAL_BASELINE, Row, alike, compare
from smofi.report.numbers import time_unit
from smofi.report.setups import Setup, folders_at
from smofi.report.show import Snapshot
from smofi.runs import DamagedFile, RunFolder, folders_in

# --------------------------------------------------------------------------------------------------------------------
# Text for a page that is given to others: names of files stay, the folders of the machine they lie on do not.


# What comes before a file's name: a drive or a beginning such as ~ or .., and folders.
FOLDERS = re.compile(r"""(?:(?<![\w.])[A-Za-z]:(?=[\\/]))?(?:[^\s\\/:='"(,]*[\\/])+(?=[^\s\\/])""")


QUOTED = re.compile(r"""(['"])([^'"\n]*[\\/][^'"\n]*)\1""")


def without_folders(text: str, known: Iterable[str] = ()) -> str:
    """The text with each path in it reduced to its last name; `known` are paths that may be in it with spaces.

    >>> without_folders("csv:/far/away/patients.csv cannot be read"), without_folders("dirichlet(0.2)")
    ('csv:patients.csv cannot be read', 'dirichlet(0.2)')
    >>> without_folders("data='/my own/a b.csv' is missing"), without_folders("/my own/x is gone", known=["/my own/x"])
    ("data='a b.csv' is missing", 'x is gone')
    """
    for path in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(path, _last_name(path))
    text = QUOTED.sub(lambda found: f"{found[1]}{_last_name(found[2])}{found[1]}", text)
    return FOLDERS.sub("", text.rstrip("\\/") if len(text) > 1 else text)


def command_shown(command: str) -> str:
    """A command line, its paths as short.

    >>> command_shown("smofi run '/far away/a.yaml' --output=/far/runs/a --method 'fedprox(mu=0.1)'")
    "smofi run a.yaml --output=a --method 'fedprox(mu=0.1)'"
    """
    try:
        words = shlex.split(command)
    except ValueError:  # cut off inside a quotation
        words = command.split()
    return shlex.join(_last_name(word) for word in words)


def setting_shown(value: Any) -> str:
    """The value of a setting.

    >>> setting_shown(("fedavg", "smofi")), setting_shown(None), setting_shown("file:/far/runs/a"), setting_shown(True)
    ('fedavg, smofi', 'none', 'file:a', 'yes')
    """
    if isinstance(value, tuple):
        return ", ".join(map(setting_shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else _last_name(str(value))


def _last_name(word: str) -> str:
    """A single word, in which a path may have spaces.

    >>> _last_name("csv:/far away/a b.csv"), _last_name("--output=../x/"), _last_name("smofi")
    ('csv:a b.csv', '--output=x', 'smofi')
    """
    found = re.fullmatch(r"(-[^=]*=)?([A-Za-z][\w+.-]+:)?(.*)", word, re.DOTALL)
    if not found or not re.search(r"[\\/]", found[3]):
        return word
    return (found[1] or "") + (found[2] or "") + re.split(r"[\\/]", found[3].rstrip("\\/"))[-1]


# --------------------------------------------------------------------------------------------------------------------
# The runs of the given folders. One that cannot be read is listed with the reason, and the others are shown.

UNFINISHED = ("still going", "interrupted")


@dataclass(frozen=True)
class FoundRun:
    """A run by the `label` it has on the page: the folder that was given, and what is below that. `error` says why it
    cannot be read; then there is no `run`."""

    label: str
    run: Snapshot | None
    error: str = ""

    @property
    def state(self) -> str:
        """That of the run, or damaged if it cannot be read."""
        return self.run.state if self.run else "damaged"

    @property
    def damage(self) -> list[str]:
        """What is wrong with its files."""
        if self.run is None:
            return [self.error]
        return [_named(error.what, self.run.path, self.label) for error in self.run.damaged]


def find_runs(paths: Sequence[str | Path]) -> list[FoundRun]:
    """All runs in these folders, each once; a folder without any is refused.

    >>> find_runs(["no-such-folder"])
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    found: dict[Path, FoundRun] = {}
    for given in paths:
        for folder in folders_at(given):
            for one, run in _read(folder, given=Path(given)):
                found.setdefault(one.resolve(), run)
    if not any(one.run for one in found.values()):
        reasons = next((one.error for one in found.values()), "nothing was given")
        refuse("run", ", ".join(map(str, paths)), f"at least one run that can be read, but {reasons}")
    return list(found.values())


def _read(folder: Path, given: Path) -> Iterator[tuple[Path, FoundRun]]:
    """The run of a folder, or those of a comparison."""
    try:
        folders = folders_in(folder)
    except DamagedFile as error:
        yield folder, _unreadable(folder, given, error)
        return
    for one in folders:
        label = _label(one.path, given)
        try:
            yield one.path, FoundRun(label, Snapshot.read(RunFolder(one.path)))
        except InputError as error:
            yield one.path, _unreadable(one.path, given, error)


def _unreadable(path: Path, given: Path, error: InputError) -> FoundRun:
    label = _label(path, given)
    what = error.what if isinstance(error, DamagedFile) else str(error)
    return FoundRun(label, None, _named(what, path, label))


def _label(path: Path, given: Path) -> str:
    """The name of the folder that was given, and the way from there.

    >>> _label(Path("a/b/c/smofi"), given=Path("a/b"))
    'b/c/smofi'
    """
    name = given.name if given.name not in ("", "..") else given.resolve().name
    return (Path(name) / path.relative_to(given)).as_posix()


def _named(text: str, path: Path, label: str) -> str:
    """A sentence about a folder's files, without the way to it."""
    name = label.rpartition("/")[2]
    return without_folders(text.replace(f"{path}/", f"{name}: ").replace(str(path), name))


# --------------------------------------------------------------------------------------------------------------------
# The measures of a setup's runs, finished or not, and what must be said about runs that are not comparable.


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


# --------------------------------------------------------------------------------------------------------------------
# Curves with bands, as data for the page: for each method the mean over its seeds, and its spread.

MOST_POINTS = 400
"""Of a curve; of a longer one, the lowest and the highest of each stretch are kept."""

DIAGNOSTICS = {
    "update_divergence": "Divergence of the clients' updates",
    "momentum_alignment": "Alignment of the clients' momenta",
    "stale_share": "Stale share of the fused momentum",
    "gradient_norm": "Gradient norm, mean",
    "gradient_norm_max": "Gradient norm, largest",
}
LOSSES = {"loss": "test loss", "train_loss": "training loss"}

Values = list[float | None]
Measured = Callable[[Snapshot], Values]


def charts_of(runs: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """What was measured in each round, a chart each: the judged metric first, then further ones and the losses."""
    histories = [run.history for run in runs]
    charts = [_chart(Scale.of(histories), runs, lambda run: run.history.values)]
    for place, others in enumerate(zip(*(history.others for history in histories), strict=False)):
        charts.append(_chart(Scale.of(others), runs, _other(place)))
    charts += [_chart(Scale(title, share=False), runs, _field(name)) for name, title in LOSSES.items()]
    return [chart for chart in charts if chart["series"]]


def diagnostics_of(runs: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """A chart for each diagnostic that was recorded."""
    names = dict.fromkeys(name for run in runs for name in run.diagnostics)
    charts = [
        _chart(Scale(DIAGNOSTICS.get(name, name.replace("_", " ")), share=is_share(name)), runs, _diagnostic(name))
        for name in sorted(names, key=lambda name: [*DIAGNOSTICS, name].index(name))
    ]
    return [chart for chart in charts if chart["series"]]


def time_axis(runs: Sequence[Snapshot]) -> tuple[str, float] | None:
    """The unit of virtual time and its length in hours; None where no clock ran."""
    hours = [run.history.hours[-1] for run in runs if run.history.hours]
    if not hours or len(hours) < sum(bool(run.records) for run in runs):
        return None
    unit = time_unit(3600 * max(hours))
    return unit.name, unit.seconds / 3600


def _chart(scale: Scale, runs: Sequence[Snapshot], measured: Measured) -> dict[str, Any]:
    by_method: dict[str, list[Snapshot]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    axis = time_axis(runs)
    series = [_series(method, seeds, measured, axis) for method, seeds in by_method.items()]
    return {"title": scale.name, "share": scale.share, "series": [one for one in series if one["mean"]]}


def _series(
    method: str, runs: Sequence[Snapshot], measured: Measured, axis: tuple[str, float] | None
) -> dict[str, Any]:
    """The band of a method over the seeds that there are; `seeds` is how many of them have each point."""
    histories = [History(method, measured(run), hours=run.history.hours) for run in runs if run.records]
    if not histories:
        return {"mean": []}
    shown = band(histories, partial=True)
    means = {place: value for place, value in enumerate(shown.mean) if value is not None and math.isfinite(value)}
    kept = list(means)
    places = [kept[one] for one in kept_places(list(means.values()))]
    times: Values = [hours / axis[1] for hours in shown.hours] if axis else []
    mean, low, high = ([_short(column[place]) for place in places] for column in (shown.mean, shown.low, shown.high))
    drawn: dict[str, Any] = {"method": method, "round": [place + 1 for place in places], "mean": mean}
    drawn["seeds"] = [sum(len(finite(one.values[place : place + 1])) for one in histories) for place in places]
    if shown.seeds > 1:
        drawn |= {"low": low, "high": high}
    if axis:
        drawn["time"] = [_short(times[place]) for place in places]
    return drawn


def kept_places(values: Sequence[float], most: int = MOST_POINTS) -> list[int]:
    """The places of a curve that are drawn: all of a short one; of a long one the first, the last, and the lowest and
    the highest of each stretch.

    >>> kept_places([0.1, 0.2, 0.3]), kept_places([5, 1, 2, 9, 3, 4, 0, 7], most=4)
    ([0, 1, 2], [0, 1, 3, 6, 7])
    """
    if len(values) <= most:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    stretch = math.ceil(2 * len(values) / most)
    for start in range(0, len(values), stretch):
        places = range(start, min(start + stretch, len(values)))
        kept |= {min(places, key=values.__getitem__), max(places, key=values.__getitem__)}
    return sorted(kept)


def _other(place: int) -> Measured:
    return lambda run: run.history.others[place].values


def _field(name: str) -> Measured:
    return lambda run: [record.get(name) for record in run.records]


def _diagnostic(name: str) -> Measured:
    return lambda run: [(record.get("diagnostics") or {}).get(name) for record in run.records]


def _short(value: float | None) -> float:
    """Five significant digits, which is more than a picture shows."""
    assert value is not None
    return float(f"{value:.5g}")
