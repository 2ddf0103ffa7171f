"""What a served run logs: short events with fields, in the order in which they happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.net.journal import LeftOut, ended, journal


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[Any, ...]]]:
    caplog.set_level("DEBUG", "smofi.serving")

    def found() -> list[tuple[Any, ...]]:
        records = [(one.levelname, one.message, vars(one)["client"], vars(one)["fields"]) for one in caplog.records]
        caplog.clear()
        return records

    return found


def test_a_run_as_events_with_fields(logged: Callable[[], list[tuple[Any, ...]]]) -> None:
    passed: list[Event] = []
    note = journal(7, passed.append)
    happens: list[Event] = [
        RunStarted("smofi", 40, clients=8, eligible=8, per_round=2, parameters=10, done=3),
        RoundStarted(4, [0, 1], [3, 2]),
        TickDone(4, 0),
        LeftOut("b is not part of round 4: it left", "b", 4, "it left"),
        RoundDone(Record(4, 0.5, 0.25, 1.5, 2.00049, [0, 1], [3, 2], 0.1, "1", left_out=[1])),
        Warned("careful"),
        RoundDone(Record(5, None, None, 1.5, 2.0, [0], [3], 0.1, "1")),
        RunEnded(5, None),
    ]
    for event in happens:
        note(event)
    assert passed == happens
    of_both = {"train_loss": 1.5, "seconds": 2.0}
    assert logged() == [
        (
            "INFO",
            "run_started",
            None,
            {"method": "smofi", "seed": 7, "rounds": 40, "done": 3, "clients": 8, "parameters": 10},
        ),
        ("WARNING", "left_out", "b", {"round": 4, "reason": "it left"}),
        (
            "INFO",
            "round_done",
            None,
            {"round": 4, "accuracy": 0.5, "loss": 0.25, **of_both, "clients": 2, "left_out": 1},
        ),
        ("WARNING", "warning", None, {"reason": "careful"}),
        ("INFO", "round_done", None, {"round": 5, **of_both, "clients": 1, "left_out": 0}),
    ]


@pytest.mark.parametrize(
    ("diverged", "cut_short", "level", "event"),
    [(False, False, "INFO", "ended"), (True, False, "ERROR", "diverged"), (False, True, "WARNING", "interrupted")],
)
def test_how_it_ended(
    logged: Callable[[], list[tuple[Any, ...]]], diverged: bool, cut_short: bool, level: str, event: str
) -> None:
    ended("smofi", 7, 5, "a reason" if event != "ended" else None, diverged=diverged, cut_short=cut_short)
    ((found_level, found, _, fields),) = logged()
    assert (found_level, found, fields["rounds"], fields.get("reason")) == (
        level,
        event,
        5,
        "a reason" if event != "ended" else None,
    )
