"""A round's virtual time, bytes and waiting on hand-made devices, for every method, and runs that keep time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor

import smofi
from reference import federation, perceptron
from smofi import Device, Timing
from smofi.clock.devices import Presence
from smofi.engine.checkpoint import Checkpoint
from smofi.engine.events import Event, Record, Warned
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.workers import Workers
from smofi.experiment.opening import stored
from smofi.runs import read_checkpoint
from smofi.seeds import generator
from smofi.training import Session
from support.processes import in_each

METHODS = ["fedavg", "fednag", "smofi", "sflv1", "sflv1('epoch')", "sflv1('round')", "sflv2", "sflv2('step')"]
SIZES = (5, 9, 3, 17, 13, 8)  # of the federation, the third of whose clients has less than a batch
SEEN = (0, 1, 3, 4, 5)
BATCH, EPOCHS, SEED = 4, 2, 5

# The perceptron's layers have 3 x 6, 6 x 6, 6 x 6 and 6 x 3 weights; cut after two of them, a client computes half of
# the products, sends six numbers of eight bytes, and holds 3 x 6 + 6 + 6 x 6 + 6 parameters.
SHARE, CROSSING, CLIENT = 0.5, 6 * 8, (3 * 6 + 6 + 6 * 6 + 6) * 8

DEVICES = [
    Device(seconds=0.10, up=400.0, down=800.0, rtt=0.05),
    Device(seconds=0.02, up=300.0, down=300.0, rtt=1.7),
    Device(seconds=0.50, up=100.0, down=100.0),
    Device(seconds=0.05, up=2000.0, down=3000.0, rtt=0.6),
    Device(seconds=0.03, up=600.0, down=900.0, rtt=0.2),
    Device(seconds=0.20, up=900.0, down=900.0),
]
SERVER = fmean(device.seconds for device in DEVICES) / 100


def settings(**changes: Any) -> dict[str, Any]:
    fixed = {"rounds": 1, "participation": 1.0, "local_epochs": EPOCHS, "batch_size": BATCH, "seed": SEED, "cut": 1}
    return {**fixed, "clock": Timing("paper", devices=DEVICES), **changes}


def prepared(method: str = "smofi", **changes: Any) -> Session:
    return smofi.prepare(perceptron(), federation([3], SIZES), method=method, **settings(**changes))


def planned(method: str, clock: str = "paper", **changes: Any) -> RoundPlan:
    return prepared(method, clock=Timing(clock, devices=DEVICES), **changes).run.planner.plan(0)


# ---------------------------------------------------------------------------------------------------- seconds, by hand


class Client:
    """What one client does in the first round, from notes.md: its parts of a step, in seconds. Where it sends weights,
    each message also takes half a round trip."""

    def __init__(self, number: int, batch: int = BATCH, weights: int = 0) -> None:
        device = DEVICES[number]
        trip = device.rtt / 2 if weights else 0.0
        self.before = batch * (device.seconds * SHARE + CROSSING / device.up) + trip
        self.server = 3 * batch * SERVER * (1 - SHARE)
        self.after = trip + batch * (CROSSING / device.down + 2 * device.seconds * SHARE)
        self.step = self.before + self.server + self.after
        self.epoch = SIZES[number] // batch
        self.steps = EPOCHS * self.epoch
        self.fetch, self.give = weights / device.down + trip, weights / device.up + trip
        self.busy = self.fetch + self.steps * self.step + self.give


def first(client: Client, tick: int) -> float:
    return client.fetch if tick == 0 else 0.0


def by_step(clients: Sequence[Client]) -> float:
    now, ends = 0.0, []
    for tick in range(max(client.steps for client in clients)):
        active = [client for client in clients if tick < client.steps]
        ends += [now + first(one, tick) + one.step + one.give for one in active if tick == one.steps - 1]
        now += max(first(one, tick) + one.step for one in active)
    return max(ends)


def by_epoch(clients: Sequence[Client]) -> float:
    now = 0.0
    for epoch in range(EPOCHS):
        last = epoch == EPOCHS - 1
        now += max(first(one, epoch) + one.epoch * one.step + (one.give if last else 0.0) for one in clients)
    return now


def by_round(clients: Sequence[Client]) -> float:
    return max(client.busy for client in clients)


def server_turns(clients: Sequence[Client]) -> float:
    now, ends = 0.0, list[float]()
    for tick in range(max(client.steps for client in clients)):
        active = [row for row, client in enumerate(clients) if tick < client.steps]
        free, done = 0.0, []
        for row in generator(SEED, "visits", 0, tick).permutation(active):
            one = clients[row]
            # start_k = max(arrival_k, end_{k-1})
            free = max(now + first(one, tick) + one.before, free) + one.server
            done.append(free + one.after)
            ends += [done[-1] + one.give] if tick == one.steps - 1 else []
        now = max(done)
    return max(ends)


def client_turns(clients: Sequence[Client]) -> float:
    now, ends = 0.0, list[float]()
    for row in generator(SEED, "visits", 0, 0).permutation(len(clients)):
        now += clients[row].busy - clients[row].give
        ends.append(now + clients[row].give)
    return max(ends)


def merged_server(clients: Sequence[Client]) -> float:
    now, ends = 0.0, []
    for tick in range(max(client.steps for client in clients)):
        active = [client for client in clients if tick < client.steps]
        ready = now + max(first(one, tick) + one.before for one in active) + max(one.server for one in active)
        ends += [ready + one.after + one.give for one in active if tick == one.steps - 1]
        now = ready + max(one.after for one in active)
    return max(ends)


EXPECTED = {
    "fedavg": by_round,
    "fednag": by_round,
    "smofi": by_step,
    "sflv1": by_step,
    "sflv1('epoch')": by_epoch,
    "sflv1('round')": by_round,
    "sflv2": client_turns,
    "sflv2('step')": server_turns,
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clock", ["paper", "full"])
def test_seconds_bytes_and_waiting_of_a_round(method: str, clock: str) -> None:
    plan = planned(method, clock)
    weights = CLIENT * (2 if method == "fednag" else 1) if clock == "full" else 0
    clients = [Client(number, weights=weights) for number in SEEN]
    expected = EXPECTED[method](clients)
    assert plan.time is not None
    assert plan.steps == [client.steps for client in clients] == [2, 4, 8, 6, 4]
    assert (plan.time.began, plan.time.left_out, plan.landed) == (0.0, [], None)
    assert plan.time.ended == pytest.approx(expected, rel=1e-12)
    assert plan.time.idle == pytest.approx([1 - client.busy / expected for client in clients], abs=1e-12)
    sent = [client.steps * BATCH * CROSSING + weights for client in clients]
    assert plan.time.bytes_up == plan.time.bytes_down == sent


def speed_of(number: int) -> float:
    """s_i = 1 / (per-sample compute + transfer time)"""
    device = DEVICES[number]
    return 1 / (3 * device.seconds * SHARE + CROSSING / device.up + CROSSING / device.down)


@pytest.mark.parametrize(("clock", "formula"), [("paper", by_step), ("full", merged_server)])
@pytest.mark.parametrize(("reference", "speed"), [("fastest", max), ("slowest", min)])
def test_mergesfl_sizes_batches_by_speed_and_waits_for_all(
    reference: str, speed: Any, clock: str, formula: Any
) -> None:
    """B_i = clamp(round(B s_i / s_ref), 1, |D_i|)"""
    plan = planned(f"mergesfl(reference='{reference}')", clock, batch_size=8)
    seen = [number for number in SEEN if SIZES[number] >= 8]
    unit = speed(map(speed_of, seen))
    sizes = [min(max(round(8 * speed_of(number) / unit), 1), SIZES[number]) for number in seen]
    assert sizes == plan.batch_sizes
    assert len(set(sizes)) > 2
    clients = [
        Client(number, batch, CLIENT if clock == "full" else 0) for number, batch in zip(seen, sizes, strict=True)
    ]
    assert plan.time is not None
    assert plan.steps == [client.steps for client in clients]
    assert plan.shares == pytest.approx([size / sum(sizes) for size in sizes])
    assert plan.time.ended == pytest.approx(formula(clients), rel=1e-12)
    each = [client.steps * size * CROSSING for client, size in zip(clients, sizes, strict=True)]
    assert plan.time.bytes_up == [sent + (CLIENT if clock == "full" else 0) for sent in each]


# ------------------------------------------------------------------------------------------- late, gone, and not there


def test_those_with_half_of_their_steps_share_what_the_others_leave() -> None:
    """Steps of 1, 1, 2.5 and 1.5 s, 1.2 s to be on time, and 4 steps each: as in test_replay, but for the last row,
    whose steps are done in the ticks 1 (at 1.5), 3 (at 3.7) and, since that is the last one, none more."""
    lengths = [1.0, 1.0, 2.5, 1.5]
    devices = [Device(length / (3 * BATCH * SHARE), 1e12, 1e12) for length in lengths]
    data = federation([3], [16, 18, 16, 17])
    timing = Timing("paper", devices=devices, server_speedup=1e12, step_deadline=1.2)
    session = smofi.prepare(perceptron(), data, method="smofi", **settings(local_epochs=1, clock=timing))
    plan = session.run.planner.plan(0)
    assert plan.time is not None
    assert plan.landed == ((0, 1), (0, 1, 3), (0, 1, 2), (0, 1, 3))
    assert plan.steps == [4, 4, 1, 2]
    assert plan.shares == pytest.approx([16 / 51, 18 / 51, 0, 17 / 51])
    assert plan.time.left_out == [2]
    assert plan.time.bytes_up == [steps * BATCH * CROSSING for steps in plan.steps]


def test_a_client_that_leaves_is_left_out_and_idle_for_the_time_it_was_there() -> None:
    """Two clients with 4 steps of 1 and 2 s; the slow one leaves at 5, in its third step."""
    gone = Presence([(0.0, 5.0)], 1000.0)
    devices = [
        Device(1 / (3 * BATCH * SHARE), 1e12, 1e12),
        Device(2 / (3 * BATCH * SHARE), 1e12, 1e12, gone),
    ]
    timing = Timing("paper", devices=devices, server_speedup=1e12)
    data = federation([3], [16, 16])
    how = settings(local_epochs=1, clock=timing)
    plan = smofi.prepare(perceptron(), data, method="smofi", **how).run.planner.plan(0)
    assert plan.time is not None
    assert (plan.steps, plan.shares, plan.time.left_out) == ([4, 2], [1.0, 0.0], [1])
    assert plan.time.ended == pytest.approx(6.0)  # ticks of 2, 2, 1 (the slow one leaves as the other is done) and 1 s
    assert plan.time.idle == pytest.approx([1 - 4 / 6, 0.0], abs=1e-9)
    plan = smofi.prepare(perceptron(), data, method="fedavg", **how).run.planner.plan(0)
    assert plan.time is not None
    assert (plan.steps, plan.shares) == ([4, 2], [1.0, 0.0])
    assert plan.time.ended == pytest.approx(5.0)


def at(*intervals: tuple[float, float], period: float = 100.0) -> list[Device]:
    """A device for each interval, there from then to then, again and again; a second a step."""
    return [Device(1 / (3 * BATCH * SHARE), 1e12, 1e12, Presence([one], period)) for one in intervals]


def only(devices: list[Device], sizes: Sequence[int], **changes: Any) -> Session:
    timing = Timing("paper", devices=devices, server_speedup=1e12)
    return smofi.prepare(perceptron(), federation([3], sizes), **settings(clock=timing, local_epochs=1, **changes))


def test_only_those_that_are_there_take_part_and_a_round_waits_for_the_first() -> None:
    session = only(at((0.0, 20.0), (5.0, 30.0), (60.0, 90.0)), [8, 8, 8], rounds=4, method="fedavg")
    planner = session.run.planner
    assert planner.plan(0, 0.0).clients == [0]
    assert planner.plan(0, 5.0).clients == [0, 1]
    later = planner.plan(0, 40.0)
    assert later.time is not None
    assert (later.clients, later.time.began) == ([2], 60.0)
    assert later.time.ended == pytest.approx(62.0)
    history = session.train().history
    assert [record.selected for record in history] == [[0], [0], [0], [0, 1]]
    assert [record.virtual_end for record in history] == pytest.approx([2.0, 4.0, 6.0, 8.0])


@pytest.mark.parametrize("method", ["fedavg", "fednag", "smofi", "sflv2('step')", "mergesfl"])
def test_a_round_that_all_leave_changes_nothing(method: str) -> None:
    """Three clients with four steps of a second, all of which leave at 2.5."""
    session = only(at((0.0, 2.5), (0.0, 2.5), (0.0, 2.5)), [16, 16, 16], method=method)
    before = [tensor.clone() for tensor in session.run.state.tensors().values()]
    result = session.train()
    assert result.stopped is None
    (record,) = result.history
    assert record.left_out == [0, 1, 2]
    assert sum(record.steps) > 0
    after = session.run.state.tensors().values()
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


# ----------------------------------------------------------------------------------------------------------- whole runs


def bits(model: torch.nn.Module) -> Tensor:
    return torch.cat([t.flatten() for t in model.state_dict().values() if t.is_floating_point()])


def numbers(history: Sequence[Record]) -> list[dict[str, Any]]:
    return [{name: value for name, value in asdict(record).items() if name != "seconds"} for record in history]


VIRTUAL = ("virtual_seconds", "virtual_end", "bytes_up", "bytes_down", "idle", "left_out")


@pytest.mark.parametrize("method", ["fednag", "smofi", "sflv1('epoch')", "sflv2"])
def test_a_clock_only_watches(method: str) -> None:
    timed, plain, full = (
        prepared(method, rounds=2, participation=0.5, clock=clock).train()
        for clock in (Timing("paper", devices=DEVICES), "none", Timing("full", devices=DEVICES))
    )
    assert torch.equal(bits(timed.model), bits(plain.model))
    assert torch.equal(bits(full.model), bits(plain.model))
    for seen, other in zip(numbers(timed.history), numbers(plain.history), strict=True):
        assert {name: other[name] if name in VIRTUAL else value for name, value in seen.items()} == other
    assert all(record.virtual_seconds is None and not record.idle for record in plain.history)


COMING_AND_GOING = [
    replace(device, presence=Presence([(start, start + 37.3)], 60.7))
    for device, start in zip(DEVICES, (0.0, 3.1, 20.9, 11.7, 0.0, 7.7), strict=True)
]


@pytest.mark.parametrize(
    ("method", "deadline"),
    [("smofi", 1.5), ("sflv2('step')", None), ("mergesfl", None)],
)
def test_two_processes_keep_the_time_of_one(method: str, deadline: float | None, tmp_path: Path) -> None:
    timing = Timing("full", devices=COMING_AND_GOING, step_deadline=deadline)

    def train_with(workers: Workers | None) -> dict[str, Tensor]:
        result = prepared(method, rounds=5, participation=0.6, clock=timing, workers=workers).train()
        rounds = {f"{name} {one.round}": getattr(one, name) for one in result.history for name in (*VIRTUAL, "steps")}
        times = {name: torch.tensor(value, dtype=torch.float64) for name, value in rounds.items()}
        return {**times, "weights": bits(result.model)}

    alone = train_with(None)
    assert any(len(times) for name, times in alone.items() if name.startswith("left_out"))
    for one in in_each(2, tmp_path, train_with):
        torch.testing.assert_close(one.pop("weights"), alone["weights"], rtol=0, atol=1e-10)
        assert all(torch.equal(times, alone[name]) for name, times in one.items())


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_a_run_that_goes_on_from_a_checkpoint_keeps_the_same_time(method: str, tmp_path: Path) -> None:
    timing = Timing("full", devices=COMING_AND_GOING)
    straight, stopped, resumed = (
        prepared(method, rounds=rounds, participation=0.6, clock=timing) for rounds in (6, 3, 6)
    )
    straight.train()
    stopped.train()
    half = tmp_path / "half.safetensors"
    half.write_bytes(stored(stopped.run).encode())
    state = read_checkpoint(half)
    resumed.run.restore(Checkpoint(state.tensors, stopped.run.history, state.notes))
    resumed.train()
    assert any(record.left_out for record in straight.run.history)
    assert numbers(resumed.run.history) == numbers(straight.run.history)
    assert torch.equal(bits(resumed.result().model), bits(straight.result().model))


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("method", ["sflv1('epoch')", "sflv2('step')"])
def test_a_deadline_is_for_methods_that_wait_for_each_clients_step(method: str) -> None:
    """For others it changes nothing, and they say so."""
    events: list[Event] = []
    timing = Timing("paper", devices=DEVICES, step_deadline=1e-6)
    session = prepared(method, clock=timing, callback=events.append)
    without = prepared(method, clock=Timing("paper", devices=DEVICES))
    assert session.run.planner.plan(0) == without.run.planner.plan(0)
    session.train()
    told = [event.message for event in events if isinstance(event, Warned)]
    assert [text.partition(" for ")[0] for text in told] == ["step_deadline changes nothing"]


def test_a_deadline_that_leaves_out_half_of_them_is_told_once() -> None:
    events: list[Event] = []
    devices = [Device(1e-3, 1e6, 1e6), *[Device(10.0, 1e6, 1e6)] * (len(DEVICES) - 1)]
    timing = Timing("paper", devices=devices, step_deadline=1.0)
    history = prepared("smofi", clock=timing, callback=events.append, participation=1.0, rounds=3).train().history
    (told,) = [event.message for event in events if isinstance(event, Warned)]
    left_out, selected = len(history[0].left_out), len(history[0].selected)
    assert left_out == selected - 1
    assert told.startswith(f"{left_out} of {selected} clients are not part of round 1's model")
