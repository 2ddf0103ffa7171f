"""A round costs what it costs, however many are behind it: the loop, the clock and the displays look at each once."""

import io
from collections.abc import Callable
from itertools import count

import pytest
import torch
from rich.console import Console

import smofi
from smofi.engine.events import Record
from smofi.engine.stopping import BestRound
from smofi.report import History
from smofi.report.curves import COLUMNS, Thinned
from smofi.report.live import Live
from support.work import instructions_of_third_round


def record(number: int, accuracy: float | None = None, validation: float | None = None) -> Record:
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
    run.history = [record(number, number % 2, 0.5 * (number % 2)) for number in range(1, done + 1)]
    console = Console(file=io.StringIO(), force_terminal=display == "live", width=100, height=40)
    ticks = count()
    with Live(console, ["smofi"], run.rounds, display, now=lambda: 0.05 * next(ticks)) as live:
        live.recall(0, History.of("smofi", run.history))
        return instructions_of_third_round(run, live)


@pytest.mark.parametrize("display", ["quiet", "jsonl", "plain", "live"])
def test_a_round_takes_the_same_work_with_thousands_behind_it(display: str) -> None:
    few, many = instructions(display, 600), instructions(display, 6000)
    assert 1000 < many < 1.05 * few


HISTORIES: list[Callable[[int], float | None]] = [
    lambda number: None,
    lambda number: number / 100,
    lambda number: -number / 100,
    lambda number: [0.5, None, 0.7, 0.7, 0.6][number % 5],
]


@pytest.mark.parametrize("validation", HISTORIES)
def test_the_best_round_is_followed_as_it_would_be_found(validation: Callable[[int], float | None]) -> None:
    history, best = list[Record](), BestRound()
    for number in range(1, 21):
        history.append(record(number))
        best.of(history)
        history[-1] = record(number, validation=validation(number))  # evaluated after all
        accuracies = [one.validation for one in history]
        found = max((a for a in accuracies if a is not None), default=None)
        expected = None if found is None else 1 + accuracies.index(found)
        assert best.of(history) == BestRound().of(history) == expected


def test_the_best_round_of_another_history_is_its_own() -> None:
    best = BestRound()
    assert best.of([record(1, validation=0.9), record(2, validation=0.1)]) == 1
    assert best.of([record(1, validation=0.2), record(2, validation=0.3)]) == 2
    assert best.of([]) is None


def test_a_history_knows_its_best_and_last_as_rounds_are_added() -> None:
    history = History("smofi")
    for number in range(1, 30):
        history.add(record(number, [0.5, None, 0.75, float("nan"), 0.25][number % 5]))
        anew = History("smofi", list(history.values))
        assert (history.best, repr(history.last)) == (anew.best, repr(anew.last))


def test_a_short_curve_is_drawn_as_it_is() -> None:
    history = History("smofi", [0.5, None, float("nan")])
    thinned = Thinned(history, COLUMNS)
    assert repr(thinned.values()) == repr([0.5, None, float("nan")] + [None] * (COLUMNS - 3))
    history.add(record(4, 0.75))
    assert thinned.values()[:4:3] == [0.5, 0.75]


def test_a_long_curve_keeps_the_lowest_and_the_highest_of_each_column() -> None:
    rounds, history = 10 * COLUMNS, History("smofi")
    thinned = Thinned(history, rounds)
    for number in range(1, rounds + 1):
        history.add(record(number, number * 37 % 101 / 100))
        if number % 7 == 0:
            thinned.values()
    places = thinned.values()
    assert len(places) == 2 * COLUMNS
    for column in range(COLUMNS):
        own = history.values[10 * column : 10 * column + 10]
        lowest, highest = min(own), max(own)  # type: ignore[type-var]
        in_order = [lowest, highest] if own.index(lowest) < own.index(highest) else [highest, lowest]
        assert places[2 * column : 2 * column + 2] == in_order
