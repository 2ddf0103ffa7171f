"""What must be equal to what, on the library alone, and the numbers that a pencil gives."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import smofi
from reference import convnet, federation, perceptron
from smofi import methods
from smofi.data import batch_order
from support.often import often

torch.set_num_threads(1)

MOMENTUM = smofi.sgd(lr=0.05, momentum=0.9, weight_decay=0.02, lr_decay=0.8)
OPTIMIZERS = {
    "sgd": smofi.sgd(lr=0.1, weight_decay=0.02, lr_decay=0.8),
    "momentum": MOMENTUM,
    "nag": smofi.sgd(lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.02, lr_decay=0.8),
    "adam": smofi.adam(lr=0.02, weight_decay=0.02, lr_decay=0.8),
    "adamw": smofi.adamw(lr=0.02, weight_decay=0.2, lr_decay=0.8),
}


def train(method: Any, **settings: Any) -> nn.Module:
    """Three rounds of three of the six clients that the exactness tests use."""
    return run(method, **settings).model


def run(method: Any, **settings: Any) -> smofi.Result:
    defaults: dict[str, Any] = {
        "optimizer": MOMENTUM,
        "cut": 1,
        "rounds": 3,
        "participation": 0.5,
        "local_epochs": 2,
        "batch_size": 4,
        "seed": 5,
    }
    return smofi.train(convnet(), federation([1, 4, 4]), method=method, **{**defaults, **settings})


def difference(a: nn.Module, b: nn.Module) -> float:
    states = zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    return max(float((left - right).abs().max()) for left, right in states if left.is_floating_point())


# A base or a placement that is FedAvg


@pytest.mark.parametrize("cut", [0, 3, (1, 1), [0, 1, 2, 3, (0, 1), (1, 2)]], ids=str)
def test_sflv1_averaging_once_a_round_is_fedavg_on_the_unsplit_model(cut: Any) -> None:
    got = run(methods.sflv1("round"), cut=cut)
    clients, world = federation([1, 4, 4]), convnet()
    for n, record in enumerate(got.history):
        locals_ = [copy.deepcopy(world).train() for _ in record.selected]
        for j, local in zip(record.selected, locals_, strict=True):
            x, y = clients[j]
            optimizer = torch.optim.SGD(local.parameters(), lr=0.05 * 0.8**n, momentum=0.9, weight_decay=0.02)
            for rows in batch_order(len(x), 4, 2 * (len(x) // 4), seed=5, round=n, client=j):
                optimizer.zero_grad()
                nn.functional.cross_entropy(local(x[rows]), y[rows]).backward()
                optimizer.step()
        sizes = [len(clients[j][0]) for j in record.selected]
        for name, value in world.state_dict().items():
            if value.is_floating_point():
                parts = [size / sum(sizes) * m.state_dict()[name] for size, m in zip(sizes, locals_, strict=True)]
                value.copy_(sum(parts))
    assert difference(got.model, world) < 1e-10
    assert difference(got.model, train("fedavg")) < 1e-12


ALONE = {
    "smofi": methods.smofi(global_momentum=0.0),
    "sflv2(step)": methods.sflv2("step"),
    "sflv2(client)": methods.sflv2("client"),
    "mergesfl": methods.mergesfl(),
}


@pytest.mark.parametrize(
    ("name", "optimizer", "cut"),
    often(
        lambda name, optimizer, cut: (optimizer == "momentum" and cut == "0-3") or (name == "smofi" and cut == (1, 1)),
        ALONE,
        OPTIMIZERS,
        [0, (1, 1), "0-3"],
    ),
    ids=str,
)
def test_with_one_client_a_round_the_server_model_is_that_clients(name: str, optimizer: str, cut: Any) -> None:
    method = ALONE[name]
    settings: dict[str, Any] = {"optimizer": OPTIMIZERS[optimizer], "participation": 0.01, "cut": cut}
    assert difference(train(method, **settings), train("fedavg", **settings)) < 1e-12


@pytest.mark.parametrize("cut", [0, 1, (0, 1)], ids=str)
@pytest.mark.parametrize("method", ["sflv1", "mergesfl", "smofi(global_momentum=0)"])
def test_one_step_on_clients_of_one_size_is_the_same_for_all(method: str, cut: Any) -> None:
    """A step of the mean gradient is the mean of the steps, and ΣB/B_i gives a client what is its own."""

    def final(method: str) -> nn.Module:
        clients = federation([3], sizes=(5, 5, 5))
        settings: dict[str, Any] = dict(rounds=1, participation=1.0, local_epochs=1, batch_size=4, seed=5, cut=cut)
        optimizer = smofi.sgd(lr=0.1, momentum=0.9)
        return smofi.train(perceptron(), clients, method=method, optimizer=optimizer, **settings).model

    assert difference(final(method), final("fedavg")) < 1e-12
    assert difference(final(method), perceptron()) > 1e-3


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_fedprox_without_pull_is_fedavg(optimizer: str) -> None:
    settings = {"optimizer": OPTIMIZERS[optimizer]}
    assert difference(train(methods.fedprox(0.0), **settings), train("fedavg", **settings)) < 1e-12


@pytest.mark.parametrize(
    ("decayed", "plain"),
    [
        (MOMENTUM, smofi.sgd(lr=0.05, momentum=0.9, lr_decay=0.8)),
        (OPTIMIZERS["adam"], smofi.adam(lr=0.02, lr_decay=0.8)),
        (OPTIMIZERS["adamw"], smofi.adamw(lr=0.02, weight_decay=0.0, lr_decay=0.8)),
    ],
    ids=["momentum", "adam", "adamw"],
)
def test_fednar_without_decay_or_bound_is_fedavg_without_decay(decayed: Any, plain: Any) -> None:
    got = train(methods.fednar(decay=0.0, max_norm=math.inf), optimizer=decayed)
    assert difference(got, train("fedavg", optimizer=plain)) < 1e-12
    assert difference(got, train("fedavg", optimizer=decayed)) > 1e-4


@pytest.mark.parametrize("optimizer", [smofi.sgd(lr=0.05, momentum=0.9), smofi.adam(lr=0.02)], ids=["sgd", "adam"])
def test_slowmo_at_a_constant_rate_is_fedavgm(optimizer: Any) -> None:
    got = train(methods.slowmo(1.0, 0.6), optimizer=optimizer)
    assert difference(got, train(methods.fedavgm(0.6), optimizer=optimizer)) < 1e-12
    assert difference(got, train("fedavg", optimizer=optimizer)) > 1e-4


def test_slowmo_at_a_decaying_rate_is_not() -> None:
    assert difference(train(methods.slowmo(1.0, 0.6)), train(methods.fedavgm(0.6))) > 1e-4


def test_smofi_without_fusion_is_fedavgm() -> None:
    assert difference(train(methods.smofi(global_momentum=0.6, align=False)), train(methods.fedavgm(0.6))) < 1e-12


# Fusion, on gradients that are constants


class Slice(nn.Module):
    """Adds w·x_k to the running sum in the last column, x_k being this block's two features of x."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        more = x[:, 2 * self.k : 2 * self.k + 2] @ self.weight
        return torch.cat([x[:, :-1], (x[:, -1] + more).unsqueeze(1)], dim=1)


class LastColumn(Slice):
    """The same, and gives the sum alone."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, -1]


def additive_model() -> nn.Sequential:
    """A linear model cut into four blocks: any loss that is convex in the prediction is convex in all its weights."""
    return nn.Sequential(Slice(0), Slice(1), Slice(2), LastColumn(3))


def weights_of(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def constant_gradients(sizes: Sequence[int]) -> tuple[list[tuple[Tensor, Tensor]], Tensor]:
    """Clients that each hold one sample many times, so that loss = mean(prediction) has the sample as its gradient."""
    draw = torch.Generator().manual_seed(4)
    samples = torch.randn((len(sizes), 8), generator=draw, dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.float64)
    clients = [
        (torch.cat([sample, zero]).expand(size, 9).clone(), zero.expand(size).clone())
        for sample, size in zip(samples, sizes, strict=True)
    ]
    return clients, samples


def mean_prediction(output: Tensor, target: Tensor) -> Tensor:
    return output.mean()


def fuse_constants(alpha: float, sizes: Sequence[int], rounds: int = 1, global_momentum: float = 0.0) -> Tensor:
    clients, _ = constant_gradients(sizes)
    method = methods.smofi(alpha=alpha, global_momentum=global_momentum)
    result = smofi.train(
        additive_model(),
        clients,
        method=method,
        optimizer=smofi.sgd(lr=0.1, momentum=0.8),
        cut=1,
        rounds=rounds,
        participation=1.0,
        local_epochs=3,
        batch_size=2,
        seed=0,
        loss=mean_prediction,
        metrics=(),
    )
    return weights_of(result.model)


@pytest.mark.parametrize("alpha", [-0.1, -1.0, -7.0])
def test_with_equal_steps_the_fused_momentum_is_that_of_the_mean_gradient(alpha: float) -> None:
    """Six steps each (4 and 5 samples both make two batches), and unequal weights p_j = 4/13, 5/13, 4/13."""
    sizes = [4, 5, 4]
    _, g = constant_gradients(sizes)
    p = torch.tensor(sizes, dtype=torch.float64) / sum(sizes)
    fused, own = torch.zeros(8, dtype=torch.float64), torch.zeros_like(g)
    on_server, on_client = torch.zeros_like(g), torch.zeros_like(g)
    for _ in range(6):
        on_server -= 0.1 * (0.8 * fused + g)
        own = 0.8 * own + g
        on_client -= 0.1 * own
        fused = 0.8 * fused + g.mean(0)
    expected = torch.cat([(p @ on_client)[:4], (p @ on_server)[4:]])
    assert (fuse_constants(alpha, sizes) - expected).abs().max() < 1e-12


@pytest.mark.parametrize("alpha", [-0.1, -1.0, -7.0])
def test_a_finished_client_weighs_one_plus_its_age_to_the_alpha(alpha: float) -> None:
    """Clients of 3, 6 and 15 steps. The first stops after step 2: at step 3 its age is 1, at step 14 it is 12."""
    sizes = [2, 4, 10]
    _, g = constant_gradients(sizes)
    fused, last = torch.zeros(8, dtype=torch.float64), torch.zeros_like(g)
    weights = torch.zeros_like(g)
    for tau in range(15):
        for j, steps in enumerate([3, 6, 15]):
            if tau < steps:
                last[j] = 0.8 * fused + g[j]
                weights[j] -= 0.1 * last[j]
        ages = [max(0, tau - (steps - 1)) for steps in [3, 6, 15]]
        fused = sum((age + 1.0) ** alpha * m for age, m in zip(ages, last, strict=True)) / 3
    expected = (weights * torch.tensor([2.0, 4.0, 10.0], dtype=torch.float64).unsqueeze(1)).sum(0) / 16
    assert (fuse_constants(alpha, sizes)[4:] - expected[4:]).abs().max() < 1e-12


def test_global_momentum_sums_the_rounds_changes() -> None:
    """Constant gradients make each round the same change d: after three rounds d * (1 + (1 + b) + (1 + b + b²))."""
    change = fuse_constants(-0.1, [4, 5, 10])
    expected = change * (1 + 1.5 + 1.75)
    got = fuse_constants(-0.1, [4, 5, 10], rounds=3, global_momentum=0.5)
    assert (got - expected).abs().max() < 1e-12


@pytest.mark.parametrize("optimizer", ["momentum", "nag", "adam"])
def test_with_equal_steps_alpha_does_not_matter(optimizer: str) -> None:
    def final(alpha: float, sizes: Sequence[int]) -> nn.Module:
        return smofi.train(
            convnet(),
            federation([1, 4, 4], sizes),
            method=methods.smofi(alpha=alpha),
            optimizer=OPTIMIZERS[optimizer],
            cut=1,
            rounds=2,
            participation=1.0,
            local_epochs=2,
            batch_size=4,
            seed=5,
        ).model

    assert difference(final(-0.1, [12, 13, 15]), final(-5.0, [12, 13, 15])) < 1e-12
    assert difference(final(-0.1, [12, 13, 25]), final(-5.0, [12, 13, 25])) > 1e-5


# The split


def identity(tensor: Tensor, direction: str, client: int) -> Tensor:
    return tensor


CUT_ANYWHERE = ["fedavg", "fedprox(mu=0.5)", "fednar(max_norm=0.4)", "fednag"]


@pytest.mark.parametrize("method", often(lambda method: method in ("fedavg", "fednag"), CUT_ANYWHERE))
@pytest.mark.parametrize("wire", [pytest.param(None, marks=pytest.mark.slow), identity], ids=["whole", "wire"])
def test_every_split_is_the_unsplit_model_step_by_step(method: str, wire: Any) -> None:
    """One batch an epoch, so that the epochs count the steps; these methods do not look where the cut is."""
    clients = federation([1, 4, 4], sizes=(6, 7, 5))

    def final(cut: Any, steps: int, wire: Any) -> nn.Module:
        settings: dict[str, Any] = dict(rounds=2, participation=0.7, batch_size=4, seed=5, optimizer=MOMENTUM)
        return smofi.train(convnet(), clients, method=method, cut=cut, local_epochs=steps, wire=wire, **settings).model

    for steps in (1, 2, 3, 4):
        unsplit = final(3, steps, None)
        for cut in (0, 2, 3, (0, 1), (1, 1), (1, 2)):
            assert difference(final(cut, steps, wire), unsplit) < 1e-12


@pytest.mark.parametrize(("cut", "crossings"), [(1, 1), ((1, 1), 2)], ids=["two parts", "U shape"])
@pytest.mark.parametrize("method", ["fedavg", "smofi", "sflv1", "sflv2", "mergesfl"])
def test_what_crosses_the_wire(method: str, cut: Any, crossings: int) -> None:
    """A step sends one tensor up and one down for each place where the model is cut, for each client."""
    calls: list[tuple[str, int, tuple[int, ...]]] = []

    def listen(tensor: Tensor, direction: str, client: int) -> Tensor:
        assert not tensor.requires_grad
        calls.append((direction, client, tuple(tensor.shape)))
        return tensor

    result = run(method, cut=cut, wire=listen, rounds=1)
    record = result.history[0]
    shape = (4, 4, 4, 4)  # the batch, and four channels of 4x4 after every block
    for j, steps in zip(record.selected, record.steps, strict=True):
        for direction in ("up", "down"):
            assert calls.count((direction, j, shape)) == steps * crossings
    assert len(calls) == 2 * crossings * sum(record.steps)


@pytest.mark.parametrize("method", ["fedavg", "smofi", "sflv1", "sflv2", "mergesfl"])
def test_a_client_part_learns_only_from_what_comes_down(method: str) -> None:
    """With all that comes down made zero, the client part stays as it was and the server part trains on."""
    start = convnet()
    after = train(
        method,
        cut=1,
        rounds=1,
        optimizer=smofi.sgd(lr=0.05, momentum=0.9),
        wire=lambda tensor, direction, client: torch.zeros_like(tensor) if direction == "down" else tensor,
    )
    changes = {name: (after.get_parameter(name) - p).abs().max().item() for name, p in start.named_parameters()}
    for name, change in changes.items():
        assert change < 1e-15 if int(name[0]) <= 1 else change > 1e-6, name


# The theorem


def ridge_problem(size: int = 7) -> list[tuple[Tensor, Tensor]]:
    """Four clients whose inputs have different means and whose targets follow different weights, with noise."""
    draw = torch.Generator().manual_seed(6)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64)

    clients = []
    for _ in range(4):
        x = 0.4 * normal(size, 8) + 0.3 * normal(8)
        y = x @ (1 + 2 * normal(8)) + 0.5 * normal(size)
        clients.append((torch.cat([x, torch.zeros(size, 1, dtype=torch.float64)], dim=1), y))
    return clients


def half_square(output: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (output - target).square().mean()


class Ridge:
    """Ridge regression over the four clients, its optimum and its constants. The clients have one size, as the theorem
    needs: otherwise those with more steps pull the fixed point to themselves."""

    def __init__(self, ridge: float = 1.0) -> None:
        self.ridge, self.clients = ridge, ridge_problem()
        hessians = [x[:, :8].T @ x[:, :8] / len(x) + ridge * torch.eye(8, dtype=torch.float64) for x, _ in self.clients]
        slopes = [x[:, :8].T @ y / len(x) for x, y in self.clients]
        self.hessian = torch.stack(hessians).mean(0)
        self.optimum = torch.linalg.solve(self.hessian, torch.stack(slopes).mean(0))
        self.mu = min(torch.linalg.eigvalsh(h)[0].item() for h in hessians)
        smoothness = max(torch.linalg.eigvalsh(h)[-1].item() for h in hessians)
        self.gamma = 8 * smoothness / self.mu - 1

    def error(self, weights: Tensor) -> float:
        """L(W) - L(W*)"""
        off = weights - self.optimum
        return 0.5 * (off @ self.hessian @ off).item()

    def errors(self, rate: Callable[[int], float], participation: float, rounds: int = 310) -> list[float]:
        """After each of SMoFi's rounds, the n-th with the learning rate rate(n), n from 1. Each of the four steps draws
        four of a client's seven samples anew, so the gradients stay noisy within a round."""
        model, errors = additive_model(), []
        for n in range(1, rounds + 1):
            model = smofi.train(
                model,
                self.clients,
                method=methods.smofi(global_momentum=0.0),
                optimizer=smofi.sgd(lr=rate(n), momentum=0.9, weight_decay=self.ridge),
                cut=0,
                rounds=1,
                participation=participation,
                local_epochs=4,
                batch_size=4,
                seed=n - 1,
                loss=half_square,
                metrics=(),
            ).model
            errors.append(self.error(weights_of(model)))
        return errors

    def trend(self, errors: Sequence[float]) -> tuple[np.ndarray, float]:
        """gamma + N times the error, over windows of rounds, and k where the error falls like (gamma + N)^k. The error
        is random, so it is averaged over windows that double in length: 10 to 30, 30 to 70, …."""
        windows = [np.arange(start, 2 * start + 10) for start in (10, 30, 70, 150)]
        means = np.array([np.mean(np.array(errors)[window]) for window in windows])
        middles = np.array([np.mean(self.gamma + 1 + window) for window in windows])
        return means * middles, float(np.polyfit(np.log(middles), np.log(means), 1)[0])


@pytest.mark.slow
def test_on_a_strongly_convex_problem_the_error_falls_like_one_over_the_rounds() -> None:
    """The paper's theorem as it is stated, eta_n = 4 / (mu (gamma + n)), n from 0, with all clients."""
    problem = Ridge()
    errors = problem.errors(lambda n: 4 / (problem.mu * (problem.gamma + n - 1)), participation=1.0)
    bounded, slope = problem.trend(errors)
    assert slope <= -0.8
    assert bounded.max() <= 1.5 * bounded[0]
    assert errors[-1] < 0.05 * problem.error(torch.zeros(8, dtype=torch.float64))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the training loss is")  # a round of other clients has another loss
@pytest.mark.parametrize("participation", [0.5, 0.25])
def test_with_some_of_the_clients_a_round_it_falls_like_that_too(participation: float) -> None:
    """The same as its proof has it, eta_n = 4 / (mu T (gamma + n - 1)), theta < 1. With a constant rate, the noise of
    who takes part keeps the error from falling: the test would notice."""
    problem, steps = Ridge(), 4
    rate = 4 / (problem.mu * steps)
    bounded, slope = problem.trend(problem.errors(lambda n: rate / (problem.gamma + n - 1), participation))
    assert -1.5 < slope <= -0.8
    assert bounded.max() <= 1.5 * bounded[0]
    bounded, slope = problem.trend(problem.errors(lambda n: rate / problem.gamma, participation))
    assert slope > -0.3
    assert bounded.max() > 3 * bounded[0]
