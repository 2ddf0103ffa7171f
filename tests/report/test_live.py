"""Displays of runs as they go: on a terminal, in lines, for programs; whatever is behind them, at the same cost."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pytest
import torch
from rich.console import Console

import smofi
from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.report.live import Live
from smofi.report.results import History, RunProgress
from support.work import instructions_of_third_round

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@pytest.fixture(autouse=True)
def able_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever terminal the tests themselves run in."""
    monkeypatch.setenv("TERM", "xterm-256color")


def record(round: int, accuracy: float | None, seconds: float = 1.0, train_loss: float = 0.5) -> Record:
    return Record(round, accuracy, 1.0, train_loss, seconds, [0, 1], [4, 2], 0.05, "1")


def events(
    method: str, accuracies: Sequence[float | None], *, rounds: int | None = None, first: int = 1
) -> list[Event]:
    """A run with two clients of 4 and 2 steps; it has `first - 1` rounds behind it."""
    found: list[Event] = [RunStarted(method, rounds or len(accuracies), 50, 48, 10, 1234, done=first - 1)]
    for number, accuracy in enumerate(accuracies, start=first):
        found.append(RoundStarted(number, [0, 1], [4, 2]))
        found += [TickDone(number, tick) for tick in range(4)]
        found.append(RoundDone(record(number, accuracy)))
    return [*found, RunEnded(first - 1 + len(accuracies), None)]


class Clock:
    """Time that passes only when told to, and a fixed amount at every look."""

    def __init__(self, step: float = 0.0) -> None:
        self.time, self.step, self.looks = 0.0, step, 0

    def __call__(self) -> float:
        self.time += self.step
        self.looks += 1
        return self.time


def watched(mode: str, runs: list[list[Event]], *, width: int = 100, terminal: bool = False, step: float = 0.0) -> str:
    """All that is written about these runs."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, height=30, legacy_windows=False)
    names = [event.method for run in runs for event in run if isinstance(event, RunStarted)]
    with Live(console, names, 3, mode, now=Clock(step)) as live:
        for run in runs:
            for event in run:
                live(event)
    return file.getvalue()


def last_frame(text: str) -> list[str]:
    """What is left on the terminal: an emulator of the few codes that rich's Live uses."""
    lines, row = [""], 0
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif piece.startswith("\x1b") and piece.endswith("A"):
            row -= int(piece[2:-1] or 1)
        elif not piece.startswith("\x1b") and piece != "\r":
            lines[row] += piece
    return lines


def test_plain_lines_are_aligned_and_free_of_control_codes() -> None:
    runs = [events("fedavg", [0.5, 0.7, 0.65]), events("fedprox(mu=0.01)+smofi", [0.6, 0.7, 1.0])]
    out = watched("plain", runs, terminal=True, width=40, step=10)
    assert not CONTROL.search(out)
    head, *lines = out.splitlines()
    assert head == "50 clients, 10 a round, 1,234 parameters; 2 clients have less than a batch and never take part"
    assert len(lines) == 6
    assert [re.search(r"round (\d/\d)  accuracy +([\d.]+%)  best +([\d.]+%)", line).groups() for line in lines] == [  # type: ignore[union-attr]
        ("1/3", "50.0%", "50.0%"),
        ("2/3", "70.0%", "70.0%"),
        ("3/3", "65.0%", "70.0%"),
        ("1/3", "60.0%", "60.0%"),
        ("2/3", "70.0%", "70.0%"),
        ("3/3", "100.0%", "100.0%"),
    ]
    assert len({line.index(" left") for line in lines}) == 1
    assert "0:02 left" in lines[0]
    assert "0:00 left" in lines[2]


def test_plain_waits_two_seconds_between_lines() -> None:
    file, clock = io.StringIO(), Clock()
    live = Live(Console(file=file), ["smofi"], 6, "plain", now=clock)
    started, *rest = events("smofi", [0.1] * 6)
    live(started)
    for event in rest:
        live(event)
        if isinstance(event, RoundDone):
            clock.time += 0.9  # seen at 0, 0.9, 1.8, 2.7, 3.6, 4.5
    assert re.findall(r"round (\d)/6", file.getvalue()) == ["1", "4", "6"]


def timed(method: str, ends: Sequence[float]) -> list[Event]:
    """A run with a clock, whose rounds end at these times."""
    begins, found = [0.0, *ends], list[Event]()
    for event in events(method, [0.5] * len(ends)):
        if isinstance(event, RoundDone):
            begin, end = begins[event.record.round - 1 : event.record.round + 1]
            event = RoundDone(replace(event.record, virtual_seconds=end - begin, virtual_end=end))
        found.append(event)
    return found


def test_plain_says_virtual_time_where_there_is_a_clock() -> None:
    out = watched("plain", [timed("smofi", [52.3, 3720.0])], step=10)
    assert re.findall(r"left  virtual +([\d:]+) \(\+([\d.]+) s\)", out) == [("0:52", "52.3"), ("1:02:00", "3668")]
    assert "virtual" not in watched("plain", [events("smofi", [0.5])])


def test_quiet_says_warnings_only() -> None:
    start, *rest = events("smofi", [0.1, 0.2])
    out = watched("quiet", [[start, Warned("the loss [climbs]"), *rest]])
    assert out == "warning: smofi: the loss [climbs]\n"


def test_json_lines_are_the_events() -> None:
    start, *rest = events("smofi", [0.5, math.nan])
    out = watched("jsonl", [[start, Warned("careful"), *rest], events("fedavg", [0.25])], width=20)
    lines = [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]
    assert [(line["event"], line["method"]) for line in lines] == [
        ("RunStarted", "smofi"),
        ("Warned", "smofi"),
        *[("RoundStarted", "smofi"), ("RoundDone", "smofi")] * 2,
        ("RunEnded", "smofi"),
        ("RunStarted", "fedavg"),
        ("RoundStarted", "fedavg"),
        ("RoundDone", "fedavg"),
        ("RunEnded", "fedavg"),
    ]
    done = [line for line in lines if line["event"] == "RoundDone"]
    assert [(line["round"], line["accuracy"], line["selected"]) for line in done] == [
        (1, 0.5, [0, 1]),
        (2, None, [0, 1]),
        (1, 0.25, [0, 1]),
    ]
    assert lines[0]["parameters"] == 1234
    assert lines[1]["message"] == "careful"


@pytest.mark.parametrize("width", [60, 200])
def test_the_last_frame_stays_and_fits(width: int) -> None:
    names = ["fedavg", "fedprox(mu=0.01)+smofi(alpha=-0.5, global_momentum=0.3)"]
    runs = [events(names[0], [0.5, 0.7, 0.65]), events(names[1], [0.6, 0.7, 0.9])]
    frame = last_frame(watched("live", runs, terminal=True, width=width))
    assert max(map(len, frame)) < width or not frame[0].startswith("method")
    rows = [line for line in frame if " done" in line]
    assert [line.split()[1][:7] for line in rows] == ["fedavg", "fedprox"]
    for glyph in (line.split()[0] for line in rows):  # the rows are the curves' legend
        assert len(glyph) == 1
        assert any(glyph in line for line in frame if "┤" in line or "│" in line)
    assert "3/3     65.0%   70.0%" in rows[0]
    assert "3/3     90.0%   90.0%" in rows[1]
    assert sum(line.startswith("accuracy") for line in frame) == 1  # above the curves
    assert any("⠤" in line or "⠒" in line or "⣀" in line for line in frame)
    assert any("peak memory" in line for line in frame)
    assert all(len(line) < width for line in frame[1:])


def test_frames_come_four_times_a_second_at_most() -> None:
    """In a time that stands still there are only the frames that begin and end a run, and the last one."""
    still = watched("live", [events("smofi", [0.1] * 50)], terminal=True)
    moving = watched("live", [events("smofi", [0.1] * 50)], terminal=True, step=0.3)
    assert still.count("peak memory") <= 4
    assert moving.count("peak memory") > 50


def test_what_is_said_while_drawing_waits() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=80, height=30, legacy_windows=False)
    live = Live(console, ["smofi"], 3, "live")

    class Interrupting(Clock):
        def __call__(self) -> float:
            live.say("a signal came")  # as its handler would, in the middle of a frame
            return super().__call__()

    with live:
        live.view.now = Interrupting()  # type: ignore[attr-defined]
        live(events("smofi", [])[0])
        live.view.now = Clock()  # type: ignore[attr-defined]
    frame = last_frame(file.getvalue())
    assert any("a signal came" in line for line in frame)
    assert frame.index(next(line for line in frame if line.startswith("method"))) > max(
        number for number, line in enumerate(frame) if "a signal came" in line
    )


def test_a_resumed_run_goes_on_where_it_was() -> None:
    out = watched("plain", [events("smofi", [0.5, 0.6], rounds=4, first=3)], step=10)
    assert re.findall(r"round (\d/\d) .*? best +([\d.]+%)", out) == [("3/4", "50.0%"), ("4/4", "60.0%")]
    file = io.StringIO()
    live = Live(Console(file=file), ["smofi"], 4, "plain", now=Clock(10))
    live.recall(0, History("smofi", [0.3, 0.9], seconds=[100.0, 100.0]))
    for event in events("smofi", [0.5, 0.6], rounds=4, first=3):
        live(event)
    assert re.findall(r"round (\d/\d) .*? best +([\d.]+%)", file.getvalue()) == [("3/4", "90.0%"), ("4/4", "90.0%")]


def test_time_left_knows_that_some_rounds_are_evaluated() -> None:
    """Rounds of one second, every third with nine more for the evaluation: four seconds a round."""
    accuracies, seconds = [None, None, 0.5] * 4, [1.0, 1.0, 10.0] * 4
    assert RunProgress(History("smofi", accuracies, seconds), 30).seconds_per_round == pytest.approx(4.0)
    assert RunProgress(History("smofi", [None, None], [1.0, 1.0]), 30).seconds_per_round == 1.0
    resumed = RunProgress(History("smofi", accuracies, [1.0, 1.0, 10.0]), 30)
    assert resumed.seconds_per_round == pytest.approx(4.0)


def judged(method: str) -> list[Event]:
    """A run by its macro F1, with two further metrics."""
    start, *rest = events(method, [None, None])
    metrics = {"macro_f1": "macro F1", "worst_client": "worst client (on training data)", "gain": "gain"}
    measured = {"macro_f1": 0.625, "worst_client": 0.25, "gain": 7.5}
    return [
        replace(start, metrics=metrics),  # type: ignore[type-var]
        *(RoundDone(replace(one.record, metrics=measured)) if isinstance(one, RoundDone) else one for one in rest),
    ]


def test_displays_name_the_metric_that_is_judged_and_show_the_others() -> None:
    out = watched("plain", [judged("smofi")], step=10)
    assert "macro F1  62.5%  best  62.5%  worst client  25.0%  gain    7.5  train loss" in out
    frame = last_frame(watched("live", [judged("smofi")], terminal=True, width=100))
    heading, row = (line.split() for line in frame if line.startswith(("method", "smofi")))
    assert heading == ["method", "round", "macro", "F1", "best", "s/round", "left", "worst", "client", "gain"]
    assert row[2:] == ["2/2", "62.5%", "62.5%", "1", "done", "25.0%", "7.5"]
    assert any(line.startswith("macro F1") for line in frame)
    narrow = last_frame(watched("live", [judged("smofi")], terminal=True, width=50))
    heading = next(line for line in narrow if line.startswith("method"))
    assert "macro F1" in heading
    assert "gain" not in heading


# ---------------------------------------------------------------------------------------------------- several seeds


def watched_seeds(mode: str, most: int) -> str:
    """Two methods with two seeds, as far as these many runs; a round takes a second."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=mode == "live", width=100, height=30, legacy_windows=False)
    with Live(console, ["fedavg", "smofi"], 2, mode, seeds=(0, 7), now=lambda: 0.0) as live:
        for number, method in enumerate(["fedavg", "smofi"] * 2):
            for event in events(method, [0.5 + number / 10] * 2)[: None if number < most else 0]:
                live(replace(event, computed="alone") if isinstance(event, RunStarted) else event)
        live(Warned("careful"))
    return file.getvalue()


def test_displays_of_several_seeds_name_the_seed_and_the_time_left_over_all() -> None:
    lines = watched_seeds("plain", most=4).splitlines()
    assert [line for line in lines if line.startswith("run ")] == [
        "run 1 of 4: fedavg, seed 0",
        "run 2 of 4: smofi, seed 0, about 0:06 left in all",
        "run 3 of 4: fedavg, seed 7, about 0:04 left in all",
        "run 4 of 4: smofi, seed 7, about 0:02 left in all",
    ]
    assert lines.count("fedavg: alone") == 1
    assert "fedavg, seed 7  round 1/2  accuracy  70.0%" in "\n".join(lines)
    assert lines[-1] == "warning: smofi, seed 7: careful"
    shown = watched_seeds("live", most=3)
    last = shown[shown.rindex("seed 7") :]
    assert ("70.0%" in last, "50.0%" in last) == (True, False)  # of fedavg with seed 7, and not with seed 0
    assert "3 of 4 runs done, 0:00 gone, about 0:02 left in all" in last
    found = [json.loads(line) for line in watched_seeds("jsonl", most=4).splitlines()]
    ended = [(line["method"], line["seed"]) for line in found if line["event"] == "RunEnded"]
    assert ended == [("fedavg", 0), ("smofi", 0), ("fedavg", 7), ("smofi", 7)]


# -------------------------------------------------------------------------------------------------------- a long run


def measured(number: int, accuracy: float | None = None, validation: float | None = None) -> Record:
    return Record(
        number, accuracy, 1.0, 0.5, 0.1, [0, 1], [2, 2], 0.05, "1", validation=validation, virtual_end=5.0 * number
    )


def session(**changes: object) -> smofi.Session:
    draw = torch.Generator().manual_seed(0)
    data = [(torch.randn(16, 3, generator=draw), torch.arange(16) % 2) for _ in range(4)]
    layers = [torch.nn.Linear(3, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)]
    arguments = dict(test=data[0], validation=data[1], participation=0.5, local_epochs=1, batch_size=8, patience=10**6)
    return smofi.prepare(torch.nn.Sequential(*layers), data, **(arguments | changes))  # type: ignore[arg-type]


def instructions(display: str, done: int) -> int:
    """Of a round with so many behind it, which are four fifths of the run."""
    run = session(rounds=done * 5 // 4, clock="full", cut="0-1").run
    run.history = [measured(number, number % 2, 0.5 * (number % 2)) for number in range(1, done + 1)]
    console = Console(file=io.StringIO(), force_terminal=display == "live", width=100, height=40)
    ticks = count()
    with Live(console, ["smofi"], run.rounds, display, now=lambda: 0.05 * next(ticks)) as live:
        live.recall(0, History.of("smofi", run.history))
        return instructions_of_third_round(run, live)


@pytest.mark.parametrize("display", ["quiet", "jsonl", "plain", "live"])
def test_a_round_takes_the_same_work_with_thousands_behind_it(display: str) -> None:
    few, many = instructions(display, 600), instructions(display, 6000)
    assert 1000 < many < 1.05 * few
