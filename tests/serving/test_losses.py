"""Clients that die, hang and come back in the middle of a served run."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from smofi.engine.events import RoundDone, TickDone, Warned
from support.deployed import HASTY, Clients, Serve, small
from support.ports import free_port

DEADLINE = 15.0
"""Seconds: a client that is well answers in time, however busy the machine."""

CONFIG = small(clients=3, partition="iid", participation=1.0, local_epochs=2, rounds=2)
"""All have 20 steps a round: none is done when the first tick is."""


def at_the_first_step(act: Any) -> Any:
    """Called with events: acts once, when the first step of the first round is done."""
    return lambda event: act() if event == TickDone(1, 0) else None


def pause(server: Serve) -> str:
    """Why the server pauses at this moment."""
    return str(server.server.board.snapshot()["run"]["paused"] or "") if server.server else ""


def test_killed_missed_and_back(tmp_path: Path) -> None:
    port = free_port()
    with Clients(port, 3, HASTY) as clients, Serve(CONFIG, tmp_path / "run", port, times=HASTY) as server:
        server.on_event = at_the_first_step(lambda: clients.kill("site-1"))
        server.wait_for(lambda: len(server.history) == 1 and pause(server))
        assert pause(server) == "2 clients of the 3 that a round needs are here"
        said = lambda sentence: all(sentence in clients.said(name) for name in ("site-0", "site-2"))  # noqa: E731
        server.wait_for(lambda: said("the run is paused: 2 clients of the 3 that a round needs are here"))
        clients.start(1)
        server.result()
        assert clients.all_ended() == [0, 0, 0]
        assert said("the run goes on")
    assert [record.left_out for record in server.history] == [[1], []]
    assert [record.selected for record in server.history] == [[0, 1, 2]] * 2
    warnings = [event.message for event in server.events if isinstance(event, Warned)]
    assert any(text.startswith("site-1 is not part of round 1: ") for text in warnings)


def test_a_server_that_is_to_stop_does_not_begin_a_round_anew(tmp_path: Path) -> None:
    """All of its clients are there, and none answers."""
    port = free_port()
    with Clients(port, 3) as clients, Serve(CONFIG, tmp_path / "run", port, step_deadline=2.0) as server:

        def act(event: Any) -> None:
            if event == TickDone(1, 0):
                for number in range(3):
                    clients.signal(f"site-{number}", signal.SIGSTOP)
                server.stop()

        server.on_event = act
        server.result()
        assert not server.history
        assert "no client is left in round 1" in str(server.results[0].stopped)


@pytest.mark.slow  # it waits for the deadline
def test_hangs_until_the_deadline(tmp_path: Path) -> None:
    """What it sends too late is not taken for an answer of the next round."""
    port = free_port()
    with Clients(port, 3) as clients, Serve(CONFIG, tmp_path / "run", port, step_deadline=DEADLINE) as server:

        def act(event: Any) -> None:
            if event == TickDone(1, 0):
                clients.signal("site-2", signal.SIGSTOP)
            elif isinstance(event, RoundDone) and event.record.round == 1:
                clients.signal("site-2", signal.SIGCONT)

        server.on_event = act
        server.result()
        assert clients.all_ended() == [0, 0, 0]
        warnings = [event.message for event in server.events if isinstance(event, Warned)]
        assert [record.left_out for record in server.history] == [[2], []], warnings
        assert "site-2 is not part of round 1: it did not answer within 15 s" in warnings
