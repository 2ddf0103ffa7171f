"""Who is away, back or refused is told at once, and a crowd at the door floods nothing."""

from __future__ import annotations

import pytest

from smofi.net.transport.notices import AT_ONCE, LONGEST_PAUSE, REMEMBERED, Refusal, Refusals
from support.ends import Ends, Left, Waiting, eventually, heard, told, welcome
from support.proxy import Proxy


class Told:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.moves: list[str] = []
        self.refusals: list[Refusal | None] = []

    def away(self, name: str) -> None:
        self.moves.append(f"{name} is away")

    def back(self, name: str) -> None:
        self.moves.append(f"{name} is back")

    def refused(self, refusal: Refusal | None) -> None:
        self.refusals.append(refusal)


def test_a_client_is_away_back_and_gone(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "smofi.net")
    listener, seen = ends.listen(), Told()
    listener.observer = seen
    with Proxy(ends.port) as proxy:
        dialer = ends.dial("a", port=proxy.port)
        welcome(listener, "a")
        assert eventually(lambda: proxy.passed > 0)
        proxy.cut()
        assert eventually(lambda: "a is back" in seen.moves)
        dialer.close(goodbye=False)
        assert told(listener, Left) == Left("a", "it was away for 1.5 s")
    assert seen.moves == ["a is away", "a is back", "a is away"]
    of_a = [(one.message, "address" in vars(one)["fields"]) for one in caplog.records if vars(one)["client"] == "a"]
    assert of_a == [(event, True) for event in ("connected", "away", "back", "away")]


def test_a_goodbye_is_no_absence(ends: Ends) -> None:
    listener, seen = ends.listen(), Told()
    listener.observer = seen
    dialer = ends.dial("a")
    welcome(listener, "a")
    dialer.close(reason="the night is over")
    assert told(listener, Left) == Left("a", "the night is over")
    assert (seen.moves, seen.refusals) == ([], [])


def test_a_second_process_is_refused_again_and_again_and_told_of_once(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "smofi.net")
    listener, seen = ends.listen(), Told()
    listener.observer = seen
    ends.dial("a")
    welcome(listener, "a")
    second = ends.dial("a")
    assert "another process is connected as a" in heard(second, Waiting).sentence
    assert eventually(lambda: len(seen.refusals) >= 3)
    first, *others = seen.refusals
    assert isinstance(first, Refusal)
    assert (first.name, first.reason, first.times) == ("a", "another process is connected as a", 1)
    assert set(others) == {None}
    (line,) = [one for one in caplog.records if one.message == "refused"]
    assert (vars(line)["client"], vars(line)["fields"]["reason"]) == ("a", first.reason)


def test_the_same_is_told_of_again_after_twice_the_time() -> None:
    refusals, times = Refusals(now=0.0), list[tuple[int, int]]()
    for second in range(40_000):
        if found := refusals.note("a", f"10.0.0.7:{second}", "it is revoked", now=float(second)):
            times.append((second, found.times))
    pauses = [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert times[0] == (0, 1)
    assert [count for _, count in times[1:9]] == pauses
    quiet = 40_000 + 2 * LONGEST_PAUSE + 1
    assert [refusals.note("a", "x", "it is revoked", now=quiet + later) is None for later in (0, 59, 60)] == [
        False,
        True,
        False,
    ]


def test_a_crowd_is_told_of_now_and_then_and_little_is_remembered() -> None:
    """A minute of a thousand a second, each with a name, an address and a reason of its own."""
    refusals = Refusals(now=0.0)
    made = [
        refusals.note(f"n{one}", f"10.0.{one}.1:5", f"reason {one} {'x' * 9000}", now=one / 1000)
        for one in range(60_000)
    ]
    found = [one for one in made if one]
    assert AT_ONCE <= len(found) <= AT_ONCE + 10
    assert len(refusals._known) == REMEMBERED
    assert max(len(one.reason) for one in found) < 400
