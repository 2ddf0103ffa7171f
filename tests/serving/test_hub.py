"""Which answer belongs to which question, whatever was left out, asked anew or sent too late in between."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
import torch

from smofi.engine.remote.links import Expected, Lost
from smofi.engine.remote.messages import Evaluate, Evaluated, Rest
from smofi.net.frames import read
from smofi.net.messages import pack, read_rest
from smofi.net.status import Board
from smofi.net.transport.dialer import Dialer
from smofi.net.transport.events import Dismissed
from smofi.serving.hub import Hub
from smofi.serving.offer import Accepted, Offer
from smofi.serving.roster import Roster
from smofi.serving.told import NOTICE, OVER, read_told
from support.deployed import PATIENT, SOON
from support.ends import Ends, Received, Waiting, Welcomed, eventually, heard
from support.proxy import Proxy


def offer(layout: str) -> Offer:
    return Offer({}, {}, layout)


def a_hub(ends: Ends) -> Hub:
    hub = Hub(ends.listen(times=PATIENT), Roster(), Board())
    hub.begin(offer("first"), None)
    return hub


def until(hub: Hub, condition: Any) -> None:
    hub.wait_for(lambda: None if condition() else "it has not happened yet")


def joined(ends: Ends) -> tuple[Hub, Dialer]:
    """A hub, and a client with the number 0."""
    hub, client = a_hub(ends), ends.dial("a", times=PATIENT)
    client.send(Accepted(10, 10, "first").pack())
    until(hub, lambda: "a" in hub.here)
    hub.roster.close()
    return hub, client


def ask(hub: Hub, round: int) -> None:
    hub.send(0, Evaluate(round, torch.zeros(2), torch.zeros(0)), Expected(Evaluated, round, most=10))


def answer(client: Dialer, round: int) -> None:
    client.send(pack(Evaluated(round, 10, 5)))


def ending(hub: Hub, patience: float) -> threading.Thread:
    thread = threading.Thread(target=hub.end, args=("the run is finished", patience))
    thread.start()
    return thread


def over_for(client: Dialer) -> str:
    """What a client hears last."""
    while True:
        event = client.receive(SOON)
        if isinstance(event, Welcomed | Received) and (parsed := read(event.payload)).kind == OVER:
            return read_told(parsed)


def test_an_offer_that_is_out_of_date_is_not_taken_for_accepted(ends: Ends) -> None:
    """The client answers to both; that its first answer is to another model's offer is no fault of its own."""
    hub, client = a_hub(ends), ends.dial("a", times=PATIENT)
    until(hub, lambda: "a" in hub.owed)
    hub.begin(offer("second"), None)
    client.send(Accepted(10, 10, "first").pack())
    client.send(Accepted(11, 10, "second").pack())
    until(hub, lambda: "a" in hub.here)
    assert hub.roster.waiting == {"a": (11, 10)}
    assert not hub.owed["a"]


def test_an_answer_that_comes_too_late_is_ignored(ends: Ends) -> None:
    hub, client = joined(ends)
    ask(hub, 0)
    hub.forget(0)
    ask(hub, 0)  # the same round, begun anew
    answer(client, 0)
    client.send(pack(Evaluated(0, 9, 4)))
    assert hub.receive(SOON) == (0, Evaluated(0, 9, 4))


def test_an_answer_of_the_run_before_is_ignored(ends: Ends) -> None:
    hub, client = joined(ends)
    ask(hub, 3)
    hub.begin(offer("second"), None)
    answer(client, 3)
    client.send(Accepted(10, 10, "second").pack())
    until(hub, lambda: "a" in hub.here)
    assert hub.listener.peers()["a"].connected


def test_what_nobody_asked_for_is_an_offence(ends: Ends) -> None:
    hub, client = joined(ends)
    answer(client, 0)
    found = hub.receive(SOON)
    assert found is not None
    assert isinstance(found[1], Lost)
    assert "nothing is expected now" in found[1].reason
    assert not hub.here


def test_who_offends_again_and_again_is_kept_out(ends: Ends) -> None:
    """Also where its client does not listen, and begins anew."""
    hub, others = a_hub(ends), ends.dial("b", times=PATIENT)
    others.send(Accepted(10, 10, "first").pack())
    said = []
    for _ in range(4):
        client = ends.dial("a", times=PATIENT)
        with suppress(Dismissed):
            client.send(pack(Evaluated(0, 10, 5)))
        said.append(refusal(hub, client))
        client.close()
        until(hub, lambda: "a" not in hub.owed)
    assert [one.count("its message was not accepted: kind is evaluated: expected accepted first") for one in said] == [
        1
    ] * 4
    assert ["is kept out until the server starts again" in one for one in said] == [False, False, True, True]
    until(hub, lambda: hub.here == {"b"})


def refusal(hub: Hub, client: Dialer) -> str:
    """The sentence that a client is sent away with."""
    found = list[str]()

    def has_come() -> bool:
        try:
            event = client.receive(0.0)
        except Dismissed as dismissed:
            found.append(str(dismissed))
        except queue.Empty:
            return False
        else:
            if isinstance(event, Waiting) and " says: " in event.sentence:
                found.append(event.sentence)
        return bool(found)

    until(hub, has_come)
    return found[0]


def test_what_has_come_is_seen_when_there_is_no_time_left(ends: Ends) -> None:
    """A server that was too busy to look for longer than the deadline must not take its clients for late."""
    hub, client = joined(ends)
    ask(hub, 0)
    answer(client, 0)
    found: list[Any] = []
    assert eventually(lambda: found.append(hub.receive(0.0)) or found[-1], SOON)  # type: ignore[func-returns-value]
    assert found[-1] == (0, Evaluated(0, 10, 5))


def test_a_run_that_pauses_says_so(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    """Not while it gathers its clients: that it waits for them was said."""
    caplog.set_level("INFO", "smofi.serving")
    hub, said, here = a_hub(ends), list[str](), iter(["nobody is here", None, "one is gone", "two are gone", None])
    hub.say = said.append
    hub.wait_for(lambda: next(here))
    assert not said
    assert [record.message for record in caplog.records] == ["waiting", "ready"]
    caplog.clear()
    hub.wait_for(lambda: next(here))
    assert [record.message for record in caplog.records] == ["paused", "paused", "resumed"]
    assert said == ["Paused: one is gone", "Going on"]


def test_clients_are_told_of_a_pause(ends: Ends) -> None:
    """Without an answer being due: what comes next is taken for the answer to the next question."""
    (hub, client), here = joined(ends), iter(["one is gone", "two are gone", None])
    hub.wait_for(lambda: next(here))
    ask(hub, 0)
    heard(client, Welcomed, SOON)
    told = [read(heard(client, Received, SOON).payload) for _ in range(3)]
    assert [one.kind for one in told] == [NOTICE, NOTICE, "evaluate"]
    assert [read_told(one) for one in told[:2]] == ["the run is paused: one is gone", "the run goes on"]
    answer(client, 0)
    assert hub.receive(SOON) == (0, Evaluated(0, 10, 5))


def test_all_who_are_there_are_told_that_it_is_over(ends: Ends) -> None:
    """Also one that has come and has not accepted yet, and one that nobody has noticed so far."""
    hub, clients = a_hub(ends), [ends.dial(name, times=PATIENT) for name in "ab"]
    until(hub, lambda: hub.owed)
    assert eventually(lambda: len(hub.listener.peers()) == 2, SOON)
    hub.end("the run is finished")
    assert [over_for(client) for client in clients] == ["the run is finished"] * 2


def test_one_that_comes_while_the_run_ends_is_told_and_not_asked(ends: Ends) -> None:
    hub, client = joined(ends)
    client.close(goodbye=False)
    assert eventually(lambda: not hub.listener.peers()["a"].connected, SOON)
    thread = ending(hub, SOON)  # it waits for the one that is away
    again = ends.dial("a", times=PATIENT)
    assert read_told(read(heard(again, Welcomed, SOON).payload)) == "the run is finished"
    thread.join(SOON)
    assert not thread.is_alive()


def test_one_whose_lost_connection_nobody_has_noticed_is_waited_for(ends: Ends) -> None:
    hub, said = a_hub(ends), list[str]()
    with Proxy(ends.port) as proxy:
        client = ends.dial("a", port=proxy.port, times=PATIENT)
        client.send(Accepted(10, 10, "first").pack())
        until(hub, lambda: "a" in hub.here)
        hub.say = said.append
        proxy.stall()
        thread = ending(hub, SOON)
        assert eventually(lambda: said, SOON)
        assert said == [f"Waiting up to {SOON:g} s to tell a that the run is over"]
        proxy.cut()
        proxy.flow()
        assert over_for(client) == "the run is finished"
        thread.join(SOON)
        assert not thread.is_alive()


def test_one_that_does_not_come_back_is_waited_for_no_longer_than_said(ends: Ends) -> None:
    hub, client = joined(ends)
    client.close(goodbye=False)
    assert eventually(lambda: not hub.listener.peers()["a"].connected, SOON)
    began = time.monotonic()
    hub.end("the run is finished", 0.5, awaited=["a", "b"])
    assert time.monotonic() - began >= 0.5
    hub.stopping = True
    hub.end("the run is finished", SOON)  # a signal ends it


def test_a_round_that_is_void_does_not_void_the_offer_to_one_that_has_come_back(ends: Ends) -> None:
    """Or it would never be counted as here, and a run that needs it would pause for ever."""
    hub, client = joined(ends)
    client.close(reason="its machine was restarted")
    again = ends.dial("a", times=PATIENT)
    while "a" in hub.here or "a" not in hub.owed:
        hub.receive(0.1)
    hub.send(0, Rest(0, "most clients have failed"))
    again.send(Accepted(10, 10, "first").pack())
    until(hub, lambda: "a" in hub.here)


def test_a_reason_is_no_longer_than_clients_take(ends: Ends) -> None:
    hub, client = joined(ends)
    hub.send(0, Rest(0, 1000 * "x"))
    heard(client, Welcomed, SOON)
    assert read_rest(read(heard(client, Received, SOON).payload)).reason == 500 * "x"


def test_a_client_that_does_not_fit_is_told(ends: Ends) -> None:
    hub, client = a_hub(ends), ends.dial("a", times=PATIENT)
    hub.fits = lambda name, samples: f"{name} has no cut"
    client.send(Accepted(10, 10, "first").pack())
    until(hub, lambda: "a" in hub.owed)
    until(hub, lambda: "a" not in hub.owed)
    assert not hub.here


def test_what_a_client_does_and_sends_is_on_the_board_at_once(ends: Ends) -> None:
    hub, client = joined(ends)
    ask(hub, 0)
    (shown,) = hub.board.snapshot()["clients"]
    assert (shown["state"], shown["bytes_up"]) == ("evaluating", 0)
    answer(client, 0)
    assert hub.receive(SOON)
    (shown,) = hub.board.snapshot()["clients"]
    assert shown["state"] == "waiting"
    assert (shown["bytes_up"], shown["bytes_down"]) == (hub.up["a"], hub.down["a"])
    assert min(shown["bytes_up"], shown["bytes_down"]) > 0


def test_the_board_is_told_of_a_lost_connection_while_the_run_is_busy(ends: Ends) -> None:
    hub, client = joined(ends)
    client.close(goodbye=False)
    assert eventually(lambda: hub.board.snapshot()["clients"][0]["state"] == "away")


def test_a_client_that_does_not_fit_is_refused_once(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "smofi")
    hub, client = a_hub(ends), ends.dial("a", times=PATIENT)
    client.send(Accepted(10, 10, "another").pack())
    until(hub, lambda: hub.board.snapshot()["clients"])
    (shown,) = hub.board.snapshot()["clients"]
    assert shown["state"] == "refused"
    assert "its model has other tensors" in shown["reason"]
    until(hub, lambda: not hub.listener.peers())
    assert [record.message for record in caplog.records if record.name == "smofi.serving"].count("refused") == 1
    assert "away" not in [record.message for record in caplog.records]


def test_a_client_that_goes_without_joining_says_why(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "smofi.serving")
    hub, client = a_hub(ends), ends.dial("a", times=PATIENT)
    until(hub, lambda: "a" in hub.owed)
    client.close(reason="it has no such classes")
    until(hub, lambda: "a" not in hub.owed)
    (left,) = [record for record in caplog.records if record.message == "left"]
    assert vars(left)["fields"] == {"reason": "it has no such classes", "joined": False}
    assert hub.board.snapshot()["events"][-2]["text"] == "a left without joining: it has no such classes"
    assert hub.board.snapshot()["clients"] == []


def test_it_says_who_comes_while_it_waits(ends: Ends) -> None:
    hub, said = a_hub(ends), list[str]()
    hub.say = said.append
    for name in "ab":
        ends.dial(name, times=PATIENT).send(Accepted(10, 10, "first").pack())
    hub.wait_for(lambda: None if len(hub.here) == 2 else f"{len(hub.here)} of 2")
    assert said[-1].endswith(" joined: enough clients are here")
    assert len(said) <= 2
    assert sorted(letter for letter in "".join(line.split(" joined: ")[0] for line in said) if letter in "ab") == [
        "a",
        "b",
    ]
