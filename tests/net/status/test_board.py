"""The board: what it keeps of a run, what it tells readers, and that it stays small and consistent."""

import json
import math
import threading

import pytest
import torch
from torch import nn

import smofi
from smofi.engine.events import Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.errors import InputError
from smofi.net.status import Board
from smofi.net.status.clients import MOST_CLIENTS
from smofi.net.status.curve import MOST_POINTS
from smofi.net.status.happened import MOST_EVENTS
from smofi.net.status.metrics import exposition, registry_of
from smofi.net.transport.notices import Refusal
from support.served_run import Feed


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(number: int, accuracy: float | None = 0.5, seconds: float = 2.0) -> Record:
    loss = None if accuracy is None else 1 - accuracy
    return Record(number, accuracy, loss, 1.5, seconds, [0, 1], [3, 2], 0.1, "1")


def started(rounds: int = 40, done: int = 0, method: str = "smofi") -> RunStarted:
    return RunStarted(method, rounds, clients=8, eligible=8, per_round=2, parameters=10, done=done)


def texts(board: Board) -> list[str]:
    return [one["text"] for one in board.snapshot()["events"]]


def test_a_run_from_its_first_round_to_its_end() -> None:
    clock = Clock()
    board = Board(clock=clock, timer=clock)
    assert board.snapshot()["headline"] == "Waiting to start: 0 clients are connected."
    board.callback(started(rounds=3))
    board.callback(RoundStarted(1, [0, 1], [3, 2]))
    board.callback(TickDone(0, 1))
    run = board.snapshot()["run"]
    assert (run["round"], run["done"], run["step"], run["steps"], run["state"]) == (1, 0, 2, 3, "running")
    assert run["per_round"] == 2
    board.callback(RoundStarted(1, [0, 1, 4], [3, 2, 3]))
    assert board.snapshot()["run"]["per_round"] == 3  # one more has come
    for number, accuracy in ((1, 0.5), (2, 0.8), (3, 0.7)):
        clock.now += 10
        board.callback(RoundDone(record(number, accuracy, seconds=float(number))))
    found = board.snapshot()
    assert found["headline"] == "smofi is in round 3 of 3. Accuracy 70.0% after round 3."
    assert [point["values"]["top1"] for point in found["history"]] == [0.5, 0.8, 0.7]
    assert (found["run"]["best"]["round"], found["run"]["latest"]["loss"]) == (2, pytest.approx(0.3))
    assert (found["run"]["seconds_per_round"], found["run"]["last_round_end"]) == (2.0, 1030.0)
    board.callback(Warned("it diverges"))
    board.callback(RunEnded(3, None))
    assert board.snapshot()["headline"] == "smofi has finished 3 rounds. Accuracy 70.0% after round 3."
    assert texts(board)[0] == "smofi starts: 3 rounds."
    assert (texts(board)[1], board.snapshot()["run"]["warnings"]) == ("it diverges", 1)


def test_time_left_is_the_recent_mean_times_the_rounds_to_come() -> None:
    board = Board()
    board.callback(started(rounds=30))
    for number in range(1, 13):  # the first two are no longer recent
        board.callback(RoundDone(record(number, seconds=100.0 if number < 3 else 4.0)))
    assert board.snapshot()["run"]["seconds_left"] == 18 * 4.0


def test_a_round_without_an_evaluation_is_no_point_of_the_metric() -> None:
    board = Board()
    board.callback(started())
    board.callback(RoundDone(record(1, 0.6)))
    board.callback(RoundDone(record(2, None)))
    found = board.snapshot()
    assert (found["run"]["latest"]["round"], found["history"][1]["values"]["top1"]) == (1, None)
    assert found["headline"].endswith("Accuracy 60.0% after round 1.")


def test_what_json_cannot_hold_is_left_out() -> None:
    board = Board()
    board.callback(started())
    board.callback(RoundDone(record(1, math.nan)))
    text = json.dumps(board.snapshot(), allow_nan=False)
    assert json.loads(text)["history"][0]["loss"] is None


def test_every_metric_has_its_heading() -> None:
    board = Board()
    metrics = {"macro_f1": "macro F1", "top1": "accuracy", "mine": "mine"}
    board.callback(RunStarted("smofi", 2, 8, 8, 2, 10, metrics=metrics))
    board.callback(RoundDone(Record(1, 0.5, 1.0, 1.0, 1.0, [0], [1], 0.1, "1", {"macro_f1": 0.25, "mine": 7.0})))
    found = board.snapshot()
    assert [(one["heading"], one["share"]) for one in found["run"]["metrics"]] == [
        ("macro F1", True),
        ("accuracy", True),
        ("mine", False),
    ]
    assert found["history"][0]["values"] == {"macro_f1": 0.25, "top1": 0.5, "mine": 7.0}
    assert found["headline"].endswith("Macro F1 25.0% after round 1.")


def test_speed_is_that_of_the_last_steps_and_waiting_between_rounds_does_not_count() -> None:
    clock = Clock()
    board = Board(clock=clock, timer=clock)

    def speed() -> float | None:
        value: float | None = board.snapshot()["clients"][0]["speed"]
        return value

    board.step("a", 1, 20)
    assert speed() is None
    for step in range(2, 11):
        clock.now += 0.5
        board.step("a", step, 20)
    assert speed() == pytest.approx(2.0)
    board.callback(RoundStarted(2, [0], [20]))
    clock.now += 1000
    board.step("a", 1, 20)
    clock.now += 0.5
    board.step("a", 2, 20)
    assert speed() == pytest.approx(2.0)
    for step in range(3, 60):  # now four times as fast
        clock.now += 0.125
        board.step("a", step, 60)
    assert speed() == pytest.approx(8.0, rel=0.02)
    board.away("a")
    assert speed() is None


def test_a_step_that_is_sent_again_counts_once() -> None:
    clock = Clock()
    board = Board(clock=clock, timer=clock)
    for step, now in ((1, 1.0), (2, 2.0), (2, 2.9), (1, 2.95), (3, 3.0)):
        clock.now = now
        board.step("a", step, 3)
    assert board.snapshot()["clients"][0]["speed"] == pytest.approx(1.0)
    clock.now = 500.0  # it was away
    board.joined("a", 0, 10, "")
    board.step("a", 4, 5)
    clock.now += 1
    board.step("a", 5, 5)
    assert board.snapshot()["clients"][0]["speed"] == pytest.approx(1.0)
    board.callback(RoundStarted(2, [0], [3]))
    board.step("a", 1, 3)
    (client,) = board.snapshot()["clients"]
    assert (client["step"], client["total_steps"]) == (1, 6)


def test_a_client_comes_goes_and_comes_back() -> None:
    clock = Clock()
    board = Board(clock=clock)
    board.joined("a", 0, 1200, "10.0.0.1:5000")
    board.bytes("a", 10, 20)
    clock.now += 5
    board.bytes("a", 10, 20)  # nothing new was heard
    board.left("a", "no step for 30 s")
    (client,) = board.snapshot()["clients"]
    assert (client["state"], client["reason"], client["last_seen"]) == ("left", "no step for 30 s", 1000.0)
    assert (client["bytes_up"], client["bytes_down"], client["samples"]) == (10, 20, 1200)
    board.joined("a", 0, 1200, "10.0.0.1:5001")
    (client,) = board.snapshot()["clients"]
    assert (client["state"], client["reason"], client["joins"]) == ("waiting", "", 2)
    assert texts(board) == ["a joined with 1,200 samples.", "a left: no step for 30 s", "a is back with 1,200 samples."]
    with pytest.raises(InputError, match="state='sleeping' is not accepted: expected one of waiting, training"):
        board.state("a", "sleeping")


def test_a_client_that_is_away_does_what_it_did_when_it_is_back() -> None:
    """What the transport knows and what the run says of it come from two threads, in any order."""
    clock = Clock()
    board = Board(clock=clock)

    def state() -> str:
        return str(board.snapshot()["clients"][0]["state"])

    board.joined("a", 0, 10, "")
    board.state("a", "training")
    board.away("a")
    board.away("a")
    board.step("a", 1, 5)  # sent before
    board.state("a", "evaluating")
    assert state() == "away"
    clock.now += 2.5
    board.back("a")
    board.back("a")
    assert state() == "evaluating"
    board.away("a")
    board.left("a", "it was away for 15 s")
    board.back("a")
    board.away("a")
    assert state() == "left"
    board.joined("a", 0, 10, "")
    assert state() == "waiting"
    assert texts(board)[1:4] == [
        "a is away: its connection is lost.",
        "a is back after 2.5 s.",
        "a is away: its connection is lost.",
    ]
    assert len(texts(board)) == 6


def test_whoever_has_not_joined_is_not_away() -> None:
    board = Board()
    board.away("a")
    board.back("a")
    assert (board.snapshot()["clients"], texts(board)) == ([], [])


def test_a_connection_that_is_refused() -> None:
    board = Board()
    board.joined("a", 0, 10, "")
    board.joined("b", 1, 10, "")
    board.left("b", "it said goodbye")
    for name in ("a", "b", "c", None):
        board.refused(Refusal(name, "10.0.0.9:5", "it is revoked", times=1 if name else 7))
    board.refused(None)
    found = board.snapshot()
    assert {one["name"]: (one["state"], one["reason"]) for one in found["clients"]} == {
        "a": ("waiting", ""),  # it was another process of that name
        "b": ("refused", "it is revoked"),
        "c": ("refused", "it is revoked"),
    }
    assert texts(board)[3:] == [
        *(f"Refused a connection of {name} (10.0.0.9:5): it is revoked" for name in "abc"),
        "Refused a connection of 10.0.0.9:5, 7 times since this was last said: it is revoked",
    ]
    assert "smofi_refused_connections_total 5.0" in exposition(registry_of(board), "")[0].decode()


def test_a_pause_says_why_and_how_long() -> None:
    clock = Clock()
    board = Board(clock=clock)
    board.callback(started())
    board.callback(RoundStarted(1, [0], [3]))
    board.paused("2 of 3 clients are connected")
    clock.now += 7
    board.paused("1 of 3 clients is connected")
    found = board.snapshot()
    assert found["headline"] == "smofi is paused in round 1 of 40: 1 of 3 clients is connected."
    assert (found["run"]["state"], found["run"]["paused_since"]) == ("paused", 1000.0)
    board.resumed()
    board.resumed()
    run = board.snapshot()["run"]
    assert (run["state"], run["paused"], run["paused_seconds"]) == ("running", None, 7.0)
    assert texts(board)[-3:] == [
        "Paused: 2 of 3 clients are connected",
        "Paused: 1 of 3 clients is connected",
        "Going on.",
    ]


def test_the_first_wait_is_no_pause() -> None:
    """Neither before a run has begun, nor before one that is resumed goes on."""
    clock = Clock()
    board = Board(clock=clock)
    board.waiting("1 of 3 clients is connected")
    board.waiting("2 of 3 clients are connected")
    clock.now += 7
    assert board.snapshot()["headline"] == "Waiting to start: 2 of 3 clients are connected."
    board.resumed()
    assert texts(board) == [
        "Waiting: 1 of 3 clients is connected",
        "Waiting: 2 of 3 clients are connected",
        "Enough clients are here.",
    ]
    board.callback(started(done=2))
    board.waiting("nobody is connected")
    found = board.snapshot()
    assert found["headline"] == "smofi waits to go on after round 2 of 40: nobody is connected."
    assert (found["run"]["state"], found["run"]["paused"]) == ("waiting", None)
    metrics = exposition(registry_of(board), "")[0].decode()
    assert 'smofi_run_state{state="waiting"} 1.0' in metrics
    assert "smofi_paused 0.0" in metrics
    board.resumed()
    run = board.snapshot()["run"]
    assert (run["state"], run["waiting"], run["paused_seconds"]) == ("running", None, 0.0)


def test_a_resumed_run_keeps_its_curve_and_another_run_begins_a_new_one() -> None:
    board = Board()
    board.callback(started(done=2))
    board.recall([record(1, 0.9), record(2, 0.4)])
    board.callback(RoundDone(record(3, 0.5)))
    found = board.snapshot()
    assert [point["round"] for point in found["history"]] == [1, 2, 3]
    assert (found["run"]["best"]["round"], found["run"]["rounds_timed"]) == (1, 1)
    board.callback(started(method="fedavg"))
    found = board.snapshot()
    assert (found["history"], found["run"]["best"], found["run"]["method"]) == ([], None, "fedavg")


def test_a_reader_is_told_what_changed() -> None:
    board = Board()
    board.joined("a", 0, 10, "")
    board.joined("b", 1, 10, "")
    board.callback(started())
    seen = board.snapshot()
    assert seen["whole"] == ["history", "clients", "events"]
    board.step("b", 1, 5)
    changes = board.changes(seen["version"])
    assert [one["name"] for one in changes["clients"]] == ["b"]
    assert (changes["whole"], changes["history"], changes["events"]) == ([], [], [])
    assert board.changes(changes["version"])["clients"] == []
    assert board.changes(10**6)["whole"], "a version that never was"


def test_whoever_follows_the_changes_has_the_whole_picture() -> None:
    """Whatever is removed meanwhile."""
    board, kept, since = Board(), dict[int, float](), 0
    board.callback(started(rounds=9000))
    for number in range(1, 2 * MOST_POINTS + 50):
        board.callback(RoundDone(record(number, number / 9000)))
        if number % 37 == 0:
            changes = board.changes(since)
            since = changes["version"]
            if "history" in changes["whole"]:
                kept.clear()
            kept |= {point["round"]: point["values"]["top1"] for point in changes["history"]}
    board_now = board.changes(since)
    kept |= {point["round"]: point["values"]["top1"] for point in board_now["history"]}
    whole = board.snapshot()["history"]
    assert kept == {point["round"]: point["values"]["top1"] for point in whole}
    assert len(whole) <= MOST_POINTS
    assert {point["round"] % 4 for point in whole} == {0}


def test_it_stays_small() -> None:
    board = Board()
    for number in range(MOST_EVENTS + 10):
        board.event(f"event {number}")
    assert (len(texts(board)), texts(board)[-1]) == (MOST_EVENTS, f"event {MOST_EVENTS + 9}")
    board.joined("here", 0, 1, "")
    for number in range(MOST_CLIENTS + 10):
        board.left(f"stranger {number}", "it is not wanted", refused=True)
    names = {one["name"] for one in board.snapshot()["clients"]}
    assert len(names) <= MOST_CLIENTS
    assert {"here", f"stranger {MOST_CLIENTS + 9}"} <= names
    board.left("x" * 5000, "y" * 5000)
    last = board.snapshot()["clients"][-1]
    assert max(len(last["name"]), len(last["reason"])) < 320


def test_several_threads_may_feed_and_read_it() -> None:
    board, failed = Board(), list[BaseException]()

    def feed(name: str) -> None:
        for step in range(1, 301):
            board.step(name, step, 300)
            board.bytes(name, step, 2 * step)

    def read() -> None:
        since = 0
        try:
            while since < 2400:
                changes = board.changes(since)
                since = changes["version"]
                for one in changes["clients"]:
                    assert one["bytes_up"] <= one["total_steps"] <= one["bytes_up"] + 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=feed, args=(f"client {number}",)) for number in range(4)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failed
    assert [one["total_steps"] for one in board.snapshot()["clients"]] == [300] * 4


def test_a_real_run_feeds_it() -> None:
    board, sizes = Board(), [16, 24, 40]
    inputs, targets = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 2))
    clients = [(inputs[:size], targets[:size]) for size in sizes]
    how = dict(participation=1.0, local_epochs=1, batch_size=8, metrics=["top1", "macro_f1"])
    result = smofi.train(model, clients, (inputs, targets), rounds=2, callback=Feed(board, sizes), **how)
    found = board.snapshot()
    assert (found["run"]["state"], found["run"]["done"], found["run"]["step"]) == ("ended", 2, 5)
    assert [point["values"]["top1"] for point in found["history"]] == [one.accuracy for one in result.history]
    assert [point["values"]["macro_f1"] for point in found["history"]] == [
        one.metrics["macro_f1"] for one in result.history
    ]
    assert [(one["samples"], one["total_steps"]) for one in found["clients"]] == [(16, 4), (24, 6), (40, 10)]
