"""Clients that are lost in a round, against plain loops in float64, to 1e-10.

A lost client takes no further step. Where momenta are fused its last one counts on, with (age + 1)^alpha over all of
the round's clients (decision 1); its weights are not part of the average, whose shares are those of the others
(decision 3).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import nn

import reference
from reference import Client, Method, Replica, Result, Round, convnet, federation, perceptron
from smofi.engine.remote.messages import Activation, Finished, Returned
from smofi.engine.remote.stepper import NobodyLeft
from support.local_links import LocalLinks, remotely
from support.often import in_turn, often
from support.remote_sessions import distance, exact

SIZES = (8, 13, 21, 16)
"""With batches of 4, two epochs: 4, 6, 10 and 8 steps."""
SGD = "sgd(lr=0.05, momentum=0.9, weight_decay=0.02)"
SAME = reference.Optimizer("sgd", lr=0.05, momentum=0.9, weight_decay=0.02)

SMOFI = ("smofi(alpha=-0.5, global_momentum=0.3)", Method(alpha=-0.5, outer="momentum", outer_momentum=0.3))
AVG = ("fedavg", Method())
NAR = ("fednar(max_norm=0.4)", Method(nar=True, nar_norm=0.4))
NAR_SMOFI = ("fednar(max_norm=0.4)+smofi(global_momentum=0)", Method(nar=True, nar_norm=0.4, alpha=-0.1))
NAR_SFLV2 = ("fednar(max_norm=0.4)+sflv2", Method(nar=True, nar_norm=0.4, server="visits by client"))
NAG = ("fednag", Method(carry=True))
STEP = ("sflv1(period='step')", Method(share="step"))
EPOCH = ("sflv1(period='epoch')", Method(share="epoch"))
SFLV2 = ("sflv2", Method(server="visits by client"))
TURNS = ("sflv2(turns='step')", Method(server="visits by step"))
MERGED = ("mergesfl", Method(server="merged"))


@dataclass
class Losses:
    """For each lost client how many steps of its server side count, and whether the server had begun one more (U shape:
    its output was sent, and nothing came back)."""

    steps: dict[int, int]
    begun: set[int] = field(default_factory=set)

    def active(self, client: int, step: int) -> bool:
        return step < self.steps.get(client, step + 1)


def round_with_losses(
    model: nn.Sequential, data: reference.Data, method: Method, losses: Losses, cut: Any
) -> tuple[Result, Replica]:
    """One round of all clients, as `reference.train` has it, with some of them lost."""
    optimizer = replace(SAME, nesterov=method.carry)
    blocks = list(copy.deepcopy(model).train().named_children())
    world = Replica(
        {name: value.detach().clone() for name, value in model.named_parameters()},
        {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()},
        *({}, {}, {}),
    )
    world.reset_optimizer(world.weights)
    now = Round(blocks, method, optimizer, nn.functional.cross_entropy, 0, 5, 2, dict(world.weights))
    cuts = cut if isinstance(cut, list) else [cut] * len(data)
    clients = [reference.enter(now, world, one, j, cuts[j], 4) for j, one in enumerate(data)]
    if method.server == "surrogates":
        train_surrogates(now, clients, losses)
    else:
        train_one_server(now, clients, losses, world)
    left = [client for j, client in enumerate(clients) if j not in losses.steps]
    shares = reference.aggregation_weights(method, left)
    replicas = [client.replica for client in left]
    average = {name: reference.weighted(shares, [one.weights[name] for one in replicas]) for name in world.weights}
    buffer = {name: torch.zeros_like(value) for name, value in world.weights.items()}
    reference.update_globally(world.weights, average, buffer, method, now.eta)
    for name in world.statistics:
        world.statistics[name] = reference.weighted(shares, [one.statistics[name] for one in replicas])
    for name in world.weights:
        world.first[name] = reference.weighted(shares, [one.first[name] for one in replicas])
    return Result(world.weights, world.statistics, losses=now.losses), world


def schedule(now: Round, clients: list[Client], losses: Losses) -> Iterator[tuple[list[int], list[int]]]:
    """The clients that take each step; if an epoch ends with it, those that have taken all of its steps."""
    done = [0] * len(clients)
    for active, epoch_ends in reference.schedule(now, clients):
        left = [j for j in active if losses.active(j, done[j])]
        for j in active:
            done[j] += 1
        yield left, [j for j, count in enumerate(done) if losses.active(j, count - 1)] if epoch_ends else []


def train_surrogates(now: Round, clients: list[Client], losses: Losses) -> None:
    ages = [0] * len(clients)
    zeros = dict.fromkeys(clients[0].replica.weights, torch.zeros(()).double())
    last: list[list[reference.Tensors]] = [[zeros, zeros] for _ in clients]
    for active, whole_epoch in schedule(now, clients, losses):
        for j, client in enumerate(clients):
            if j in active:
                reference.train_one_batch(now, client)
                ages[j], last[j] = 0, [dict(client.replica.first), dict(client.replica.second)]
            else:
                ages[j] += 1
        if now.method.alpha is not None:
            reference.fuse(clients, ages, last, now.method.alpha)
        if now.method.share == "step" and active:
            reference.share(clients, active)
        elif now.method.share == "epoch" and whole_epoch:
            reference.share(clients, whole_epoch)


def train_one_server(now: Round, clients: list[Client], losses: Losses, world: Replica) -> None:
    names = clients[0].server_names
    server = Replica({}, {}, {}, {}, {})
    server.take(world, names)
    if now.method.server == "merged":
        for tau, (active, _) in enumerate(schedule(now, clients, losses)):
            begun = [j for j in losses.begun if losses.steps[j] == tau]
            merge(now, clients, active, begun, server)
    else:
        done = [0] * len(clients)
        for j in reference.visits(now, clients):
            if losses.active(j, done[j]):
                clients[j].replica.take(server, names)
                reference.train_one_batch(now, clients[j])
                server.take(clients[j].replica, names)
            done[j] += 1
    for client in clients:
        client.replica.take(server, names)


def merge(now: Round, clients: list[Client], active: list[int], begun: list[int], server: Replica) -> None:
    """A merged step. Of a client that was lost with the server's output, the gradient is zero: the samples of all are
    in the denominator, which the others were told."""
    if not active:
        return
    if not begun:
        reference.train_merged_batch(now, [clients[j] for j in active], server)
        return
    everyone = [clients[j] for j in sorted([*active, *begun])]
    factor = sum(clients[j].batch_size for j in active) / sum(client.batch_size for client in everyone)
    own = replace(now, loss=lambda output, target: nn.functional.cross_entropy(output, target))
    before = copy.deepcopy(server)
    reference.train_merged_batch(own, [clients[j] for j in active], server)
    # without statistics the samples do not see each other, so that only the factor of the gradient differs;
    # m = beta m + (g + lambda w) is repeated with it
    for name, old in before.weights.items():
        decay = now.optimizer.weight_decay * old
        gradient = server.first[name] - now.optimizer.momentum * before.first[name] - decay
        server.first[name] = now.optimizer.momentum * before.first[name] + factor * gradient + decay
        server.weights[name] = old - now.eta * server.first[name]


# What happens, as messages


def before_activation(client: int, step: int) -> Callable[[int, Any], bool]:
    return lambda who, message: who == client and isinstance(message, Activation) and message.step == step


def before_returned(client: int, step: int) -> Callable[[int, Any], bool]:
    return lambda who, message: who == client and isinstance(message, Returned) and message.step == step


def before_finished(client: int) -> Callable[[int, Any], bool]:
    return lambda who, message: who == client and isinstance(message, Finished)


def any_of(*losses: Callable[[int, Any], bool]) -> Callable[[int, Any], bool]:
    return lambda who, message: any(lost(who, message) for lost in losses)


def check(
    names: tuple[str, Method],
    loses: Callable[[int, Any], bool],
    losses: Losses,
    model: Any = perceptron,
    cut: Any = 1,
    seed: int = 0,
) -> LocalLinks:
    """A round behind links and in plain loops."""
    text, method = names
    session = exact(text, model, SIZES, rounds=1, participation=1.0, optimizer=SGD, cut=cut)
    links = remotely(session, loses=loses, seed=seed)
    got = session.train()
    expected, world = round_with_losses(
        model(), federation([1, 4, 4] if model is convnet else [3], SIZES), method, losses, cut
    )
    assert distance(got.model, expected) < 1e-10
    assert sorted(client for client, _ in links.rested) == sorted(losses.steps)
    if method.server == "surrogates" and not method.nar:  # otherwise a loss is known of steps that do not count
        assert got.history[0].train_loss == pytest.approx(sum(expected.losses) / len(expected.losses), abs=1e-10)
    if method.carry:
        carried = session.layout.columns(0, len(session.layout.blocks))
        first = torch.cat([world.first[one.name].flatten() for one in session.layout.parameters])
        assert torch.allclose(session.run.state.carried[0][carried], first, atol=1e-10, rtol=0)
    return links


def named(value: Any) -> str:
    """A case by the name of its method."""
    return str(value[0] if isinstance(value, tuple) else value)


EVERY = [SMOFI, AVG, NAG, STEP, EPOCH, SFLV2, TURNS, MERGED]


@pytest.mark.parametrize(
    ("names", "step"), often(in_turn(EVERY, [3, 0, 9], SMOFI, MERGED), EVERY, [3, 0, 9]), ids=named
)
def test_lost_before_an_activation(names: tuple[str, Method], step: int) -> None:
    """Client 2 has ten steps, more than any other: before its first, in the middle, before its last."""
    check(names, before_activation(2, step), Losses({2: step}), seed=step)


SOME = [SMOFI, AVG, NAG, STEP, EPOCH, SFLV2, MERGED]


@pytest.mark.parametrize(("names", "client"), often(in_turn(SOME, [0, 2], SMOFI), SOME, [0, 2]), ids=named)
def test_lost_after_its_last_step(names: tuple[str, Method], client: int) -> None:
    """Of client 0 that is the fourth step of ten, of client 2 the last."""
    check(names, before_finished(client), Losses({client: [4, 6, 10, 8][client]}))


@pytest.mark.parametrize("names", [SMOFI, STEP, EPOCH, SFLV2, MERGED], ids=named)
def test_statistics_of_the_lost(names: tuple[str, Method]) -> None:
    check(names, before_activation(1, 2), Losses({1: 2}), model=convnet)


RETURNING = [SMOFI, AVG, NAG, STEP, SFLV2, TURNS, MERGED]


@pytest.mark.parametrize(
    ("names", "step"), often(in_turn(RETURNING, [2, 0], SMOFI, MERGED), RETURNING, [2, 0]), ids=named
)
def test_the_u_shape(names: tuple[str, Method], step: int) -> None:
    """Lost between the server's output and what should come back for it."""
    check(names, before_returned(1, step), Losses({1: step}, {1}), cut=(1, 1))


@pytest.mark.parametrize("names", [NAR, NAR_SMOFI, NAR_SFLV2], ids=named)
@pytest.mark.parametrize("step", [1, 3])
def test_lost_while_its_norm_is_waited_for(names: tuple[str, Method], step: int) -> None:
    """|g|² of the step before comes with the activation: without it, the server's gradient comes to nothing."""
    check(names, before_activation(1, step), Losses({1: step - 1}))


def test_a_shared_model_has_no_statistics_of_a_step_that_comes_to_nothing() -> None:
    """What does not come is the norm of the client's gradient, or in the U shape that of the server's output."""
    check(NAR_SFLV2, before_activation(1, 3), Losses({1: 2}), model=convnet)
    check(SFLV2, before_returned(1, 3), Losses({1: 3}, {1}), model=convnet, cut=(1, 1))


@pytest.mark.parametrize("names", [NAR, NAR_SMOFI, NAR_SFLV2], ids=named)
def test_lost_while_its_last_norm_is_waited_for(names: tuple[str, Method]) -> None:
    check(names, before_finished(1), Losses({1: 5}))


@pytest.mark.parametrize("names", [SMOFI, STEP, EPOCH, MERGED, SFLV2], ids=named)
def test_several_are_lost(names: tuple[str, Method]) -> None:
    loses = any_of(before_activation(0, 2), before_activation(2, 5), before_finished(3))
    check(names, loses, Losses({0: 2, 2: 5, 3: 8}))


@pytest.mark.parametrize("names", [SMOFI, STEP], ids=named)
def test_lost_with_a_cut_of_its_own(names: tuple[str, Method]) -> None:
    """A column is fused among those whose server side holds it, the lost included (decision 19)."""
    check(names, before_activation(2, 3), Losses({2: 3}), cut=[0, 1, 0, 2])


def test_a_loss_that_is_known_early() -> None:
    """A client may be a step ahead when it is lost: then the step before does not count either, or does."""
    step, found = 2, set()
    for seed in range(12):
        session = exact(SMOFI[0], perceptron, SIZES, rounds=1, participation=1.0, optimizer=SGD)
        remotely(session, loses=before_activation(1, step), seed=seed, early=True)
        got = session.train()
        close = [
            steps
            for steps in (step - 1, step)
            if distance(
                got.model, round_with_losses(perceptron(), federation([3], SIZES), SMOFI[1], Losses({1: steps}), 1)[0]
            )
            < 1e-10
        ]
        assert len(close) == 1
        found.update(close)
    assert found == {step - 1, step}


@pytest.mark.parametrize("names", [SMOFI, STEP, SFLV2, MERGED, NAG], ids=named)
def test_all_are_lost(names: tuple[str, Method]) -> None:
    session = exact(names[0], perceptron, SIZES, rounds=1, participation=1.0, optimizer=SGD)
    remotely(session, loses=lambda client, message: isinstance(message, Activation) and message.step == client)
    before = {name: tensor.clone() for name, tensor in session.run.state.tensors().items()}
    with pytest.raises(NobodyLeft, match="no client is left in round 1: the last one was lost because it was switched"):
        session.train()
    assert all(torch.equal(before[name], tensor) for name, tensor in session.run.state.tensors().items())
    assert not session.run.history
