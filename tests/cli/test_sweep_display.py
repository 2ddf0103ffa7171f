"""How a sweep is shown while it runs."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from smofi.cli.arguments import Display
from smofi.cli.sweeping import SweepDisplay
from smofi.sweep.running import Advanced, CellEvent, Ended, Outcome, Pace, Started, Stopping
from smofi.sweep.store import Cell
from support.cells import tiny

CELLS = [Cell(tiny(seed=seed, rounds=4), f"fedavg, seed {seed}") for seed in range(3)]
EVENTS: list[CellEvent] = [
    Ended(Outcome(CELLS[0], "finished", Path("a"))),
    Started(CELLS[1], Path("b"), resumed=False),
    Advanced(CELLS[1], 0),
    Advanced(CELLS[1], 1, seconds=2.0, value=0.25),
    Advanced(CELLS[1], 2, seconds=2.0, value=0.75),
    Stopping(2),
    Advanced(CELLS[1], 3, seconds=2.0, value=0.5),
    Ended(Outcome(CELLS[1], "interrupted", Path("b"), ran=True, seconds=9.0)),
    Ended(Outcome(CELLS[2], "failed", words="no room")),
]


def shown(mode: Display, terminal: bool = False, every: float = 0.0, events: Sequence[CellEvent] = EVENTS) -> str:
    file, clock = io.StringIO(), iter(range(1000))
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    with SweepDisplay(console, Pace(CELLS), mode, now=lambda: every * next(clock)) as display:
        display.say("3 cells")
        display.say("odd", warning=True)
        for event in events:
            display(event)
    return file.getvalue()


def test_plain_lines() -> None:
    assert shown("plain").splitlines() == [
        "3 cells",
        "warning: odd",
        "1 cell done before",
        "finishing the rounds that are running, then stopping; interrupt again to quit at once",
        "fedavg, seed 1: interrupted in 0:09, best 75.0%; 1 of 3 done, about 0:14 left",
        "fedavg, seed 2: failed; 2 of 3 done, 1 failed, about 0:00 left",
    ]


def test_cells_that_were_all_done_before_are_counted_too() -> None:
    ended = [Ended(Outcome(cell, "finished", Path("a"))) for cell in CELLS]
    assert shown("plain", events=ended).splitlines()[2:] == ["3 cells done before"]


def test_a_line_now_and_then_tells_how_far_cells_are() -> None:
    assert "1 of 3 done; running: fedavg, seed 1 2/4; about 0:18 left" in shown("plain", every=31.0).splitlines()


def test_bars_on_a_terminal() -> None:
    text = shown("live", terminal=True)
    assert "all cells" in text
    assert "2/3" in text
    assert "about 0:00 left" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_auto_is_live_on_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERM", raising=False)
    assert ("all cells" in shown("auto", terminal)) == terminal


def test_quiet_warns_only() -> None:
    assert shown("quiet") == "warning: odd\n"


def test_json_lines() -> None:
    events = [json.loads(line) for line in shown("jsonl").splitlines()]
    assert [event["event"] for event in events] == [f"Cell{type(event).__name__}" for event in EVENTS]
    assert events[4] | {"time": ""} == {
        "event": "CellAdvanced",
        "time": "",
        "cell": "fedavg, seed 1",
        "key": CELLS[1].key,
        "done": 2,
        "seconds": 2.0,
        "value": 0.75,
    }
    assert events[-1]["words"] == "no room"
