"""What each run is, and how the runs' configurations differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from smofi.plural import plural
from smofi.report.numbers import UNKNOWN
from smofi.report.page.elements import Html, element
from smofi.report.page.private import command_shown, setting_shown
from smofi.report.page.reading import FoundRun
from smofi.report.page.table import Cell, Column, breakable, table
from smofi.report.show import Snapshot
from smofi.settings import SETTINGS

VERSIONS = ("smofi", "torch", "numpy", "python")
KINDS = {"finished": "good", "still going": "warning", "interrupted": "warning", "diverged": "bad", "damaged": "bad"}


def badge(state: str) -> Html:
    """The state of a run, in words and a colour."""
    return element("span", state, class_=f"badge {KINDS.get(state, 'warning')}")


def runs_table(found: Sequence[FoundRun]) -> Html:
    """A row for each run: folder, state, what it is, when it was started, with which versions, by which command."""
    read = [(one.label, one.run) for one in found if one.run]
    own = [name for name in _differing(read) if name not in ("method", "seed")]
    columns = [
        Column("folder", [Cell(element("span", one.label, class_="folder")) for one in found], numeric=False),
        Column("state", [_state(one) for one in found], numeric=False),
        Column("rounds", [_rounds(one.run) for one in found]),
        Column("method", [Cell(breakable(one.run.method) if one.run else UNKNOWN) for one in found], numeric=False),
        Column("seed", [_number(one.run.config.seed if one.run else None) for one in found]),
        *(Column(_words(name), [Cell(_setting(one.run, name)) for one in found], numeric=False) for name in own),
        Column("started", [Cell(element("span", _started(one.run), class_="when")) for one in found], numeric=False),
        Column("command and versions", [_command(one.run) for one in found], numeric=False),
    ]
    return table("What each run is", columns)


def _state(one: FoundRun) -> Cell:
    stopped = one.run.stopped if one.run else ""
    notes = [*([stopped] if stopped else []), *one.damage]
    damaged = [" ", badge("damaged")] if one.run and one.damage else []
    return Cell(element("span", badge(one.state), *damaged, [element("small", note) for note in notes]))


def _rounds(run: Snapshot | None) -> Cell:
    return Cell(f"{len(run.records)}/{run.progress.rounds}", float(len(run.records))) if run else Cell(UNKNOWN)


def _number(value: int | None) -> Cell:
    return Cell(UNKNOWN) if value is None else Cell(str(value), float(value))


def _started(run: Snapshot | None) -> str:
    return str(run.about.get("started") or UNKNOWN)[:16].replace("T", " ") if run else UNKNOWN


def _versions(run: Snapshot | None) -> str:
    about = run.about if run else {}
    known = [f"{name} {about[name]}" for name in VERSIONS if about.get(name)]
    git = about.get("git")
    if isinstance(git, dict) and git.get("commit"):
        known.append(f"commit {str(git['commit'])[:10]}{', changed since' if git.get('dirty') else ''}")
    return ", ".join(known) or UNKNOWN


def _command(run: Snapshot | None) -> Cell:
    command = str(run.about.get("command") or "") if run else ""
    shown = [element("code", command_shown(command))] if command else []
    return Cell(element("div", shown, element("small", _versions(run)), class_="command"))


def settings_tables(found: Sequence[FoundRun]) -> tuple[Html | None, Html]:
    """The settings in which runs differ, with all values of each, if there are any; and those that all share."""
    runs = [(one.label, one.run) for one in found if one.run]
    differing = _differing(runs)
    columns = [
        Column("setting", [Cell(_words(name)) for name in differing], numeric=False),
        Column("values", [Cell(_values(runs, texts)) for texts in differing.values()], numeric=False),
    ]
    shared = [name for name in SETTINGS if name not in differing]
    pairs = [element("div", element("dt", _words(name)), element("dd", _setting(runs[0][1], name))) for name in shared]
    return table("Settings that differ", columns) if differing else None, element("dl", pairs, class_="settings")


def _differing(runs: Sequence[tuple[str, Snapshot]]) -> dict[str, list[str]]:
    """The settings of which not all runs have the same value, with that of each run."""
    values = {name: [_setting(run, name) for _, run in runs] for name in SETTINGS}
    return {name: texts for name, texts in values.items() if len(set(texts)) > 1}


def _values(runs: Sequence[tuple[str, Snapshot]], texts: Sequence[str]) -> Html:
    """Each value with the number of its runs, or with the run that alone has it."""
    counts = Counter(texts)
    labels = {text: label for text, (label, _) in zip(texts, runs, strict=True)}
    whose = {text: plural(number, "run") if number > 1 else labels[text] for text, number in counts.items()}
    return element("ul", [element("li", f"{text} ", element("small", whose[text])) for text in counts], class_="values")


def _setting(run: Snapshot | None, name: str) -> str:
    return setting_shown(getattr(run.config, name)) if run else UNKNOWN


def _words(setting: str) -> str:
    return setting.replace("_", " ")
