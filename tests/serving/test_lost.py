"""Clients and servers that are lost: a round without a client against plain loops to 1e-10, and a killed server that
goes on to the bits of a run without accidents."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import reference
from reference import Client, Method, Replica, Round
from smofi.data import batch_order
from support.chaos import Nursery, rounds_in, until
from support.ports import free_port
from support.served import SOON, Served

# ------------------------------------------------------------------------------------------------ a client that is lost

DYING = """
import os, signal
from pathlib import Path
import torch
from torch import nn

armed = []

class Front(nn.Module):
    def __init__(self, first):
        super().__init__()
        self.layers = first
    def forward(self, x):
        if os.environ.get("DIE") and self.training:
            fatal = torch.load(os.environ["BATCH"], weights_only=True)
            if x.shape == fatal.shape and torch.allclose(x.float(), fatal.float()):
                armed.append(1)
                if os.environ["DIE"] == "front":
                    os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(x.flatten(1))

class Back(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.layers = last
    def forward(self, x):
        if armed and self.training:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(x)

def network(input_shape, classes, norm=True):
    torch.manual_seed(3)
    def hidden(inputs):
        return nn.Sequential(nn.Linear(inputs, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.Tanh())
    return nn.Sequential(Front(hidden(torch.Size(input_shape).numel())), hidden(8), hidden(8),
                         Back(nn.Linear(8, classes))).double()

def with_norm(input_shape, classes, **_):
    return network(input_shape, classes)

def without_norm(input_shape, classes, **_):
    return network(input_shape, classes, norm=False)
"""
SAME = reference.Optimizer("sgd", lr=0.05, momentum=0.9, weight_decay=0.02)
OPTIMIZER = "sgd(lr=0.05, momentum=0.9, weight_decay=0.02)"
SMOFI = "smofi(alpha=-0.5, global_momentum=0.3)"
METHODS = {
    SMOFI: Method(alpha=-0.5, outer="momentum", outer_momentum=0.3),
    "fednag": Method(carry=True),
    "fednar(max_norm=0.4)": Method(nar=True, nar_norm=0.4),
    "sflv1(period='step')": Method(share="step"),
    "sflv1(period='epoch')": Method(share="epoch"),
    "sflv2": Method(server="visits by client"),
    "mergesfl": Method(server="merged"),
}
STEP = 3
"""The step at which the client with the most of them dies, before it sends its activation, or in the U shape when it
has the server's output."""


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
) -> dict[str, torch.Tensor]:
    """One round of all clients, as `reference.train` has it. A lost client takes no further step. Where momenta are
    fused its last one counts on, with (age + 1)^alpha over all of the round's clients (decision 1); its weights are not
    part of the average, whose shares are those of the others (decision 3)."""
    optimizer = replace(SAME, nesterov=method.carry)
    blocks = list(copy.deepcopy(model).train().named_children())
    world = Replica(
        {name: value.detach().clone() for name, value in model.named_parameters()},
        {name: value.clone() for name, value in model.named_buffers() if value.is_floating_point()},
        *({}, {}, {}),
    )
    world.reset_optimizer(world.weights)
    now = Round(blocks, method, optimizer, nn.functional.cross_entropy, 0, 0, 2, dict(world.weights))
    clients = [reference.enter(now, world, one, j, cut, 8) for j, one in enumerate(data)]
    if method.server == "surrogates":
        train_surrogates(now, clients, losses)
    else:
        train_one_server(now, clients, losses, world)
    left = [client for j, client in enumerate(clients) if j not in losses.steps]
    shares, replicas = reference.aggregation_weights(method, left), [client.replica for client in left]
    average = {name: reference.weighted(shares, [one.weights[name] for one in replicas]) for name in world.weights}
    buffer = {name: torch.zeros_like(value) for name, value in world.weights.items()}
    reference.update_globally(world.weights, average, buffer, method, now.eta)
    for name in world.statistics:
        world.statistics[name] = reference.weighted(shares, [one.statistics[name] for one in replicas])
    return {**world.weights, **world.statistics}


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
    before = copy.deepcopy(server)
    reference.train_merged_batch(now, [clients[j] for j in active], server)
    if not begun:
        return
    everyone = [clients[j] for j in sorted([*active, *begun])]
    factor = sum(clients[j].batch_size for j in active) / sum(client.batch_size for client in everyone)
    # without statistics the samples do not see each other, so that only the factor of the gradient differs;
    # m = beta m + (g + lambda w) is repeated with it
    for name, old in before.weights.items():
        decay = now.optimizer.weight_decay * old
        gradient = server.first[name] - now.optimizer.momentum * before.first[name] - decay
        server.first[name] = now.optimizer.momentum * before.first[name] + factor * gradient + decay
        server.weights[name] = old - now.eta * server.first[name]


@pytest.mark.parametrize(
    ("cut", "model", "methods"),
    [(1, "with_norm", list(METHODS)), ((0, 1), "without_norm", [SMOFI, "sflv2", "mergesfl"])],
    ids=["two parts", "U shape"],
)
def test_a_client_that_is_lost_in_a_round(
    cut: Any, model: str, methods: list[str], nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started again at once, for the method that comes next, and dies again."""
    (tmp_path / "dying_model.py").write_text(DYING)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"python:dying_model:{model}"
    run = Served(
        nursery, tmp_path / "run", model=name, method=methods, optimizer=OPTIMIZER, rounds=1, local_epochs=2,
        partition="dirichlet(1)", cut=str(cut).strip("()").replace(" ", ""),
        environment={"SMOFI_TESTS_PATH": str(tmp_path), "BATCH": str(tmp_path / "batch.pt")},
        join=["--model", name, *(["--allow-labels"] if cut == 1 else [])],
    )  # fmt: skip
    arguments = run.config().arguments()
    data = [client.tensors() for client in arguments["clients"]]
    victim = max(range(4), key=lambda client: len(data[client][0]))
    count = len(data[victim][0])
    order = batch_order(count, 8, 2 * (count // 8), seed=0, round=0, client=victim)
    assert len(order) > STEP + 1
    torch.save(data[victim][0][torch.as_tensor(order[STEP])], tmp_path / "batch.pt")
    server = run.serve()
    for number in range(4):
        run.join(number, DIE="" if number != victim else "front" if cut == 1 else "back")
    deaths = 0
    while server.alive:
        if run.clients[victim].ended.wait(0.05) and server.alive and deaths < len(methods):
            deaths += 1
            run.join(victim, DIE="front" if cut == 1 else "back")
    run.finish()
    assert deaths == len(methods)
    for text in methods:
        method = METHODS[text]
        (record,) = run.records(text)
        assert record["left_out"] == [victim]
        # |g|² of the step before comes with the activation: without it, the server's gradient comes to nothing
        losses = Losses({victim: STEP - method.nar}, {victim} if cut != 1 else set())
        expected = round_with_losses(arguments["model"], [(x.double(), y) for x, y in data], method, losses, cut)
        found = run.tensors(text)
        assert found.keys() == expected.keys()
        assert max(float((found[key] - expected[key]).abs().max()) for key in found) < 1e-10, text


def test_a_run_waits_for_a_client_that_is_lost_and_says_so(nursery: Nursery, tmp_path: Path) -> None:
    with Served(nursery, tmp_path / "run", clients=3, rounds=100_000, serve=["--away", "1"]) as run:
        run.wait_for(lambda: len(rounds_in(run.folder)) >= 2)
        run.clients[1].kill()
        short = "2 clients of the 3 that a round needs are here"
        run.wait_for(lambda: (run.status().get("run") or {}).get("paused") == short)
        run.wait_for(lambda: all(f"the run is paused: {short}" in run.said(number) for number in (0, 2)))
        done = len(rounds_in(run.folder))
        run.join(1)
        run.wait_for(lambda: len(rounds_in(run.folder)) > done + 2)
        assert all("the run goes on" in run.said(number) for number in (0, 2))
        assert {str(one["left_out"]) for one in run.records()} <= {"[]", "[1]"}
        assert {str(one["selected"]) for one in run.records()} == {"[0, 1, 2]"}


# ----------------------------------------------------------------------------------- a client whose numbers explode


def samples(path: Path, scale: float) -> str:
    """A table with 20 samples of each of two classes."""
    draw = np.random.default_rng(0)
    lines = [",".join([*map(str, scale * draw.normal(size=3)), name]) for name in "ab" * 20]
    path.write_text("\n".join(["one,two,three,label", *lines]) + "\n")
    return f"csv:{path}"


@pytest.mark.parametrize("broken", [1, 4])
def test_a_client_alone_in_its_round_with_numbers_that_are_not_finite(
    broken: int, nursery: Nursery, tmp_path: Path
) -> None:
    """The round begins anew with another. The run ends only if that happens to several: here with exit code 1."""
    good, bad = samples(tmp_path / "good.csv", 1.0), samples(tmp_path / "bad.csv", 1e37)
    run = Served(
        nursery, tmp_path / "run", data=good, model="mlp", width=4, cut="0", clients=4, participation=0.25, rounds=6,
        max_train=None, max_test=None,
    )  # fmt: skip
    server = run.serve("--log-format", "json")
    for number in range(4):
        run.join(number, "--data", bad if number < broken else good)
    run.finish(code=0 if broken == 1 else 1)
    anew = server.text().count('client 0 (site-0); the round begins anew with others"')
    if broken == 1:
        assert [record["round"] for record in run.records()] == [1, 2, 3, 4, 5, 6]
        assert 0 not in {client for record in run.records() for client in record["selected"]}
        assert anew
    else:
        assert not rounds_in(run.folder)
        assert "the model is the one after round 0" in server.text()


# --------------------------------------------------------------------------------------------------- a server that is


def killed(nursery: Nursery, folder: Path, kills: int, **settings: Any) -> None:
    with Served(nursery, folder, clients=4, participation=0.75, rounds=3 * kills + 3, **settings) as run:
        for number in range(kills):
            run.wait_for(lambda least=3 * number + 1: len(rounds_in(run.folder)) >= least)
            assert run.server
            run.server.kill()
            assert len(rounds_in(run.folder)) < run.settings["rounds"], "it was over before it was killed"
            run.serve()
        run.finish().check_bits()
        assert "the server was restarted" in run.said(0)


def test_a_server_that_is_killed_in_a_round_goes_on_to_the_same_bits(nursery: Nursery, tmp_path: Path) -> None:
    killed(nursery, tmp_path / "run", 1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fednag", "sflv2", "mergesfl"])
def test_killed_again_and_again(nursery: Nursery, tmp_path: Path, method: str) -> None:
    killed(nursery, tmp_path / "run", 3, method=method)


def test_clients_of_a_run_that_is_over_are_told_when_its_server_is_back(nursery: Nursery, tmp_path: Path) -> None:
    """They try to reach it, and would do so for ever: resumed, it has nothing to do but to tell them."""
    with Served(nursery, tmp_path / "run", clients=2, rounds=1) as run:
        run.finish()
        before = (run.folder / "metrics.jsonl").read_bytes()
        for number in range(2):
            run.join(number)
        until(lambda: all("nothing listens" in run.said(number) for number in range(2)), SOON, "they do not wait")
        run.serve()
        run.finish()
        assert (run.folder / "metrics.jsonl").read_bytes() == before


def test_a_client_without_a_server_says_so_once_and_goes_on_trying(nursery: Nursery) -> None:
    port = free_port()
    words = ["--insecure", "--name", "a", "--data", "digits"]
    client = nursery.smofi("join", f"127.0.0.1:{port}", *words, "--log-format", "text")
    until(lambda: client.text().count("trying_again") > 3 or not client.alive, SOON, client.text())
    assert client.alive, client.text()
    said = [line for line in client.text().splitlines() if "does not answer" in line and "trying_again" not in line]
    assert len(said) == 1
    assert "nothing listens there; " in said[0]
    assert "until you stop it" in said[0]
    client.kill()
