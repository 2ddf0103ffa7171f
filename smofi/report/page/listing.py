"""What each run is, and how the runs' configurations differ."""

from __future__ import annotations

from collections.abc import Sequence

from smofi.report.page.elements import Html, element
from smofi.report.page.private import command_shown, setting_shown
from smofi.report.page.reading import FoundRun
from smofi.report.page.table import Cell, Column, table
from smofi.report.show import Snapshot
from smofi.settings import SETTINGS

VERSIONS = ("smofi", "torch", "numpy", "python")
KINDS = {"finished": "good", "still going": "warning", "interrupted": "warning", "diverged": "bad", "damaged": "bad"}


def badge(state: str) -> Html:
    """The state of a run, in words and a colour."""
    return element("span", state, class_=f"badge {KINDS.get(state, 'warning')}")


def runs_table(found: Sequence[FoundRun]) -> Html:
    """A row for each run: folder, state, rounds, seed, when it was started, with which versions, by which command."""
    columns = [
        Column("folder", [Cell(one.label) for one in found], numeric=False),
        Column("state", [_state(one) for one in found], numeric=False),
        Column("rounds", [_rounds(one.run) for one in found]),
        Column("method", [Cell(one.run.method if one.run else "-") for one in found], numeric=False),
        Column("seed", [_number(one.run.config.seed if one.run else None) for one in found]),
        Column("started", [Cell(_about(one.run, "started")) for one in found], numeric=False),
        Column("versions", [Cell(_versions(one.run)) for one in found], numeric=False),
        Column("command", [_command(one.run) for one in found], numeric=False),
    ]
    return table("What each run is", columns)


def _state(one: FoundRun) -> Cell:
    stopped = one.run.stopped if one.run else ""
    notes = [*([stopped] if stopped else []), *one.damage]
    damaged = [" ", badge("damaged")] if one.run and one.damage else []
    return Cell(element("span", badge(one.state), *damaged, [element("small", note) for note in notes]))


def _rounds(run: Snapshot | None) -> Cell:
    return Cell(f"{len(run.records)}/{run.progress.rounds}", float(len(run.records))) if run else Cell("-")


def _number(value: int | None) -> Cell:
    return Cell("-") if value is None else Cell(str(value), float(value))


def _about(run: Snapshot | None, name: str) -> str:
    return str(run.about.get(name) or "-") if run else "-"


def _versions(run: Snapshot | None) -> str:
    known = [f"{name} {run.about[name]}" for name in VERSIONS if run.about.get(name)] if run else []
    if run and run.about.get("git"):
        known.append(f"commit {str(run.about['git'])[:12]}")
    return ", ".join(known) or "-"


def _command(run: Snapshot | None) -> Cell:
    command = str(run.about.get("command") or "") if run else ""
    return Cell(element("code", command_shown(command)) if command else "-")


def settings_tables(found: Sequence[FoundRun]) -> tuple[Html | None, Html]:
    """The settings in which runs differ, a column each, if there are any; and those that all share, as a list."""
    runs = [(one.label, one.run) for one in found if one.run]
    values = {name: [setting_shown(getattr(run.config, name)) for _, run in runs] for name in SETTINGS}
    differing = {name: texts for name, texts in values.items() if len(set(texts)) > 1}
    columns = [Column("folder", [Cell(label) for label, _ in runs], numeric=False)]
    columns += [
        Column(_words(name), [Cell(text) for text in texts], numeric=False) for name, texts in differing.items()
    ]
    shared = [(name, texts[0]) for name, texts in values.items() if name not in differing]
    pairs = [element("div", element("dt", _words(name)), element("dd", text)) for name, text in shared]
    return table("Settings that differ", columns) if differing else None, element("dl", pairs, class_="settings")


def _words(setting: str) -> str:
    return setting.replace("_", " ")
