"""A client sends numbers that are finite, and too large to compute with: it is left out of the round, and the others
have the bits that they would have if it had been lost at that moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import nn

import smofi
from smofi.engine.passes import direct
from smofi.engine.remote.messages import Activation, Finished, Returned, Up
from smofi.engine.remote.one_server import OneServer
from smofi.engine.remote.row import RemoteRow
from smofi.engine.remote.stepper import RemoteStepper
from smofi.net import messages
from support.local_links import LocalLinks, remotely
from support.often import often
from support.remote_sessions import SGD, on_digits

SPOILER = 2
METHODS = [
    "fedavg",
    "smofi",
    "sflv1(period='step')",
    "fednar(max_norm=0.5)",
    "sflv2",
    "sflv2(turns='step')",
    "mergesfl",
]
LARGE = {"squares overflow": 1e20, "all overflows": 3e38}
"""The first spoils nothing but the running variance of a normalisation, which would be infinite for good."""
OUT_OF_RANGE = "tensors.{} has numbers that are not finite, or larger than 1e+06"


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of any size cross the cut, so that it is the server's pass in which they overflow, as smaller ones can
    in a larger model."""
    monkeypatch.setattr(messages, "LARGEST", torch.finfo(torch.float32).max)


def session_with(method: str, cut: Any, optimizer: str = SGD, **options: Any) -> tuple[smofi.Session, LocalLinks]:
    session = on_digits(method, cut=cut, participation=1.0, rounds=2, optimizer=optimizer)
    return session, remotely(session, **options)


def check(method: str, cut: Any, chosen: Callable[[Up], bool], spoil: Callable[[Any], Up], why: str) -> None:
    """A spoilt message is as good as one that never comes because its client is lost."""

    def forge(client: int, message: Up) -> Up:
        return spoil(message) if client == SPOILER and chosen(message) else message

    spoilt, links = session_with(method, cut, forge=forge)
    lost, _ = session_with(method, cut, loses=lambda client, message: client == SPOILER and chosen(message), early=True)
    result = spoilt.train()
    assert not result.diverged
    assert {client for client, _ in links.rested} == {SPOILER}
    assert all(why in reason for _, reason in links.rested)
    lost.train()
    theirs = lost.run.state.tensors()
    for name, mine in spoilt.run.state.tensors().items():
        assert torch.equal(mine, theirs[name]), name
    assert bool(torch.isfinite(spoilt.run.state.weights).all())


@pytest.mark.parametrize(
    ("method", "large"), often(lambda method, large: method in ("smofi", "sflv2", "mergesfl"), METHODS, LARGE)
)
@pytest.mark.usefixtures("unbounded")
def test_activations(method: str, large: str) -> None:
    def spoil(message: Activation) -> Up:
        return replace(message, activation=torch.full_like(message.activation, LARGE[large]))

    check(method, 1, lambda message: isinstance(message, Activation) and message.step == 0, spoil, "non-finite")


@pytest.mark.parametrize("method", ["smofi", "sflv2", "sflv2(turns='step')", "mergesfl"])
def test_activations_that_are_finite_everywhere_and_enormous(method: str) -> None:
    """A normalisation makes nothing of their size, but its running statistics have it for good."""

    def spoil(message: Activation) -> Up:
        return replace(message, activation=torch.full_like(message.activation, -1e12))

    why = OUT_OF_RANGE.format("activation")
    check(method, 1, lambda message: isinstance(message, Activation) and message.step == 0, spoil, why)


@pytest.mark.parametrize("method", often(lambda method: method in ("smofi", "sflv2", "mergesfl"), METHODS))
@pytest.mark.usefixtures("unbounded")
def test_gradients_of_the_servers_output(method: str) -> None:
    """U shape: what a client returns is spoilt, after its activations took part in the pass."""

    def spoil(message: Returned) -> Up:
        return replace(message, gradient=torch.full_like(message.gradient, 3e38))

    check(method, (1, 1), lambda message: isinstance(message, Returned) and message.step == 0, spoil, "non-finite")


@pytest.mark.parametrize("method", ["smofi", "sflv2", "mergesfl"])
def test_gradients_of_the_servers_output_that_are_enormous(method: str) -> None:
    def spoil(message: Returned) -> Up:
        return replace(message, gradient=torch.full_like(message.gradient, 1e12))

    why = OUT_OF_RANGE.format("gradient")
    check(method, (1, 1), lambda message: isinstance(message, Returned) and message.step == 0, spoil, why)


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_a_loss_that_no_one_has(method: str) -> None:
    session, links = session_with(
        method, (1, 1), forge=lambda c, m: replace(m, loss=1e300) if c == SPOILER and isinstance(m, Returned) else m
    )
    assert not session.train().diverged
    assert links.rested == [(SPOILER, "fields.loss is 1e+300: expected -1e+30 to 1e+30")] * 2


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_a_weight_that_has_become_infinite(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a round, of one client's row: the others' are averaged."""
    session, links = session_with(method, 1)
    moved = RemoteRow.moved
    infinite = {"weights": math.inf}
    monkeypatch.setattr(RemoteRow, "moved", lambda row: moved(row) | (infinite if row.client == SPOILER else {}))
    assert not session.train().diverged
    assert [(client, reason[:24]) for client, reason in links.rested] == [(SPOILER, "its weights moved by inf")] * 2


def finished(**spoilt: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[int, Up], Up]:
    """The columns that the spoiler sends after its last step are others."""

    def forge(client: int, message: Up) -> Up:
        if client != SPOILER or not isinstance(message, Finished):
            return message
        return replace(message, **{name: change(getattr(message, name)) for name, change in spoilt.items()})

    return forge


@pytest.mark.parametrize("large", [1e30, pytest.param(3.4e38, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *product(["fedavg", "smofi", "mergesfl"], ["weights", "statistics"]),
        *product(["fednag", "fednag+sflv2"], ["moments"]),
    ],
)
def test_columns_out_of_all_proportion(method: str, kind: str, large: float) -> None:
    """They would be finite, and the average of all worth nothing."""
    session, links = session_with(method, 1, forge=finished(**{kind: lambda t: torch.full_like(t, large)}))
    lost, _ = session_with(method, 1, loses=lambda client, m: client == SPOILER and isinstance(m, Finished))
    assert not session.train().diverged
    assert {client for client, _ in links.rested} == {SPOILER}
    assert all(reason.startswith(f"its {kind} moved by ") for _, reason in links.rested)
    lost.train()
    for name, mine in session.run.state.tensors().items():
        assert torch.equal(mine, lost.run.state.tensors()[name]), name


class Masked(nn.BatchNorm1d):
    """With a mask among its statistics."""

    def __init__(self, least: float) -> None:
        super().__init__(3)
        self.register_buffer("mask", torch.tensor([0.0, least]))


@pytest.mark.parametrize("spoilt", ["running_mean", "mask"])
def test_constants_among_the_statistics_do_not_hide_what_is_out_of_proportion(spoilt: str) -> None:
    torch.manual_seed(0)
    theirs, ours = Masked(torch.finfo(torch.float32).min), Masked(-torch.inf)
    model = nn.Sequential(theirs, nn.Sequential(nn.Linear(3, 3), ours), nn.Linear(3, 3))
    clients = [(torch.randn(8, 3), torch.randint(3, (8,))) for _ in range(4)]
    session = smofi.prepare(
        model, clients, clients[0], method="fedavg", wire=direct, cut=0, rounds=2, participation=1.0, batch_size=4
    )
    (columns,) = (place.columns for place in session.layout.statistics if place.name == f"0.{spoilt}")

    def change(statistics: torch.Tensor) -> torch.Tensor:
        return statistics.index_fill(0, torch.arange(columns.start, columns.stop), 1e30)

    links = remotely(session, forge=finished(statistics=change))
    assert not session.train().diverged
    assert [client for client, _ in links.rested] == [SPOILER] * 2


@pytest.mark.parametrize("method", ["sflv2", "mergesfl", "fedavg"])
def test_whoever_does_not_move_is_no_measure_for_the_others(method: str) -> None:
    """Half of the clients send back the statistics that they were given."""
    session, links = session_with(method, 1)

    def forge(client: int, message: Up) -> Up:
        if client % 2 or not isinstance(message, Finished):
            return message
        agreed = links.clients[client].agreed
        (crossing,) = agreed.crossings.values()
        return replace(message, statistics=crossing.columns.statistics_of(agreed.device.state.statistics))

    links.forge = forge
    session.train()
    assert not links.rested


@pytest.mark.parametrize("clients", [2, 3])
def test_the_momentum_of_a_client_with_new_data_is_in_proportion(clients: int) -> None:
    """Fine-tuning with FedNAG: the others' gradients are next to nothing, and so is the momentum they start with."""
    torch.manual_seed(0)
    inputs = torch.randn(48, 6)
    known, new = (inputs, (inputs[:, 0] > 0).long()), (inputs, 2 + (inputs[:, 1] > 0).long())
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    learner = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(300):
        learner.zero_grad()
        loss = nn.functional.cross_entropy(model(known[0]), known[1])
        loss.backward()
        learner.step()
    assert loss < 1e-3
    session = smofi.prepare(
        model,
        [known] * (clients - 1) + [new],
        known,
        method="fednag",
        wire=direct,
        cut=1,
        rounds=2,
        participation=1.0,
        batch_size=8,
        optimizer="sgd(lr=0.01, momentum=0.9)",
    )
    links = remotely(session)
    assert not session.train().diverged
    assert not links.rested


def test_a_variance_and_a_second_moment_are_not_negative() -> None:
    session, links = session_with("fedavg", 1, forge=finished(statistics=lambda s: s - 1e3))
    session.train()
    assert links.rested == [(SPOILER, "a running variance is negative")] * 2
    session, links = session_with("fednag", 1, "adam(lr=0.01)", forge=finished(moments=torch.neg))
    session.train()
    assert links.rested == [(SPOILER, "a second moment is negative")] * 2


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
@pytest.mark.usefixtures("unbounded")
def test_no_gradient_becomes_infinite_on_its_way(method: str) -> None:
    """What is finite in float32 may not be in float16: others would refuse a server that sends it."""

    def forge(client: int, message: Up) -> Up:
        large = client == SPOILER and isinstance(message, Returned)
        return replace(message, gradient=message.gradient * 1e10) if large else message  # type: ignore[union-attr]

    session = on_digits(method, cut=(1, 1), participation=1.0, rounds=2, wire="fp16")
    links = remotely(session, forge=forge)
    assert not session.train().diverged
    assert {client for client, _ in links.rested} == {SPOILER}


@pytest.mark.usefixtures("unbounded")
def test_nobody_else_is_blamed() -> None:
    """Its activations are as small as can be, and what it returns is not."""

    def forge(client: int, message: Up) -> Up:
        if client == SPOILER and isinstance(message, Activation):
            return replace(message, activation=torch.zeros_like(message.activation))
        if client == SPOILER and isinstance(message, Returned):
            return replace(message, gradient=torch.full_like(message.gradient, 3e38))
        return message

    session, links = session_with("mergesfl", (1, 1), forge=forge)
    assert not session.train().diverged
    assert {client for client, _ in links.rested} == {SPOILER}


@pytest.mark.parametrize("method", ["smofi", "sflv2"])
def test_a_pass_that_fails_on_a_client(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session, links = session_with(method, 1)
    forward, reasons, closing = RemoteStepper._forward, list[str](), RemoteStepper.collect
    fault = "view size is not compatible with input tensor's size and stride"

    def fails(stepper: RemoteStepper, group: Any, *rest: Any) -> Any:
        if group[0].client == SPOILER:
            raise RuntimeError(fault)
        return forward(stepper, group, *rest)

    def collect(stepper: RemoteStepper) -> None:
        reasons.extend(stepper.reasons.values())
        closing(stepper)

    monkeypatch.setattr(RemoteStepper, "_forward", fails)
    monkeypatch.setattr(RemoteStepper, "collect", collect)
    assert not session.train().diverged
    assert links.rested == [(SPOILER, "the server's pass failed on its numbers")] * 2
    assert reasons == [
        f"the server's pass failed on its numbers (client {SPOILER} failed in round {number}, step 1: {fault})"
        for number in (1, 2)
    ]


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", ["sflv2", "mergesfl"])
def test_a_gradient_of_a_shared_model_that_is_known_too_late(
    method: str, cut: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients have their answers: the server's step comes to nothing, and the one with the largest numbers goes."""

    def forge(client: int, message: Up) -> Up:
        large = client == SPOILER and isinstance(message, Activation)
        return replace(message, activation=message.activation * 1e3) if large else message  # type: ignore[union-attr]

    session, links = session_with(method, cut, forge=forge)
    computed, failed = RemoteRow.compute_weights, list[int]()
    visit = OneServer._visit

    def compute(row: RemoteRow) -> bool:
        if not failed and (method == "mergesfl" or row.client == SPOILER):
            failed.append(row.client)
            return False
        return computed(row)

    def watched(stepper: OneServer, group: list[RemoteRow]) -> None:
        server, already = group[0], bool(failed)
        before = server.server_statistics.clone(), [one.weights.clone() for one in server.server.columns]
        visit(stepper, group)
        if failed and not already:  # this very step came to nothing
            after = server.server_statistics, [one.weights for one in server.server.columns]
            assert torch.equal(before[0], after[0])
            assert all(map(torch.equal, before[1], after[1]))

    monkeypatch.setattr(RemoteRow, "compute_weights", compute)
    monkeypatch.setattr(OneServer, "_visit", watched)
    assert not session.train().diverged
    assert failed
    assert (SPOILER, "the gradient became larger than 1e+06, or non-finite") in links.rested
    assert {client for client, _ in links.rested} == {SPOILER}
