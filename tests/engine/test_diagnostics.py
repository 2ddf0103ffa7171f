"""The diagnostics against plain loops that keep every client's weights and momentum at every step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import smofi
from reference import convnet, federation, perceptron
from smofi.data import batch_order
from support.often import in_turn, often

SIZES = (5, 9, 17, 13)  # with batches of 4 and two epochs: 2, 4, 8 and 6 steps
SHARES = [size / sum(SIZES) for size in SIZES]
LR, BETA, DECAY = 0.05, 0.9, 0.02
SETTINGS: dict[str, Any] = {"participation": 1.0, "local_epochs": 2, "batch_size": 4, "seed": 5, "rounds": 2}


def diagnosed(method: Any, model: nn.Sequential, data: list[Any], **changes: Any) -> tuple[dict[str, float], Tensor]:
    """The measures of the second round, and the weights after it."""
    optimizer = changes.pop("optimizer", smofi.sgd(lr=LR, momentum=BETA, weight_decay=DECAY))
    settings = {**SETTINGS, **changes, "diagnose": True}
    result = smofi.train(model, data, method=method, optimizer=optimizer, **settings)
    return result.history[-1].diagnostics, parameters_to_vector(result.model.parameters()).detach()


def by_hand(cuts: list[int], alpha: float | None, outer: float) -> tuple[dict[str, float], Tensor]:
    """SMoFi or, without alpha, FedAvg, on the perceptron: a mask of server columns per client, nothing shared."""
    model, data = perceptron(), federation([3], SIZES)
    edges = [0]
    for block in model:
        edges.append(edges[-1] + sum(p.numel() for p in block.parameters()))
    columns = torch.arange(edges[-1])
    server = [columns >= edges[cut + 1] for cut in cuts]
    world = parameters_to_vector(model.parameters()).detach().clone()
    memory = torch.zeros_like(world)
    measures: dict[str, float] = {}
    for number in range(2):
        weights, momenta = [world.clone() for _ in data], [torch.zeros_like(world) for _ in data]
        fused = torch.zeros_like(world)
        orders = [
            batch_order(len(y), 4, 2 * (len(y) // 4), seed=5, round=number, client=j) for j, (_, y) in enumerate(data)
        ]
        norms, alignments, stale = [], [], []
        for step in range(max(map(len, orders))):
            active = [j for j, order in enumerate(orders) if step < len(order)]
            for j in active:
                rows = torch.as_tensor(orders[j][step])
                vector_to_parameters(weights[j], model.parameters())
                value = cross_entropy(model(data[j][0][rows]), data[j][1][rows])
                gradient = torch.cat([g.flatten() for g in torch.autograd.grad(value, list(model.parameters()))])
                norms.append(float(gradient.norm()))
                prior = momenta[j] if alpha is None else torch.where(server[j], fused, momenta[j])
                momenta[j] = BETA * prior + gradient + DECAY * weights[j]
                weights[j] = weights[j] - LR * momenta[j]
            ages = [max(0, step - len(order) + 1) for order in orders]
            factor = [(age + 1) ** (alpha or 0) for age in ages]
            counted = range(len(data)) if alpha is not None else active
            total, holders = torch.zeros_like(world), torch.zeros_like(world)
            for j in counted:
                total += server[j] * (factor[j] * momenta[j])
                holders += server[j]
            fused = total / holders.clamp(min=1)
            cosines = [float(torch.cosine_similarity(momenta[j][server[j]], fused[server[j]], dim=0)) for j in active]
            alignments.append(sum(cosines) / len(cosines))
            stale.append(sum(f for f, age in zip(factor, ages, strict=True) if age) / sum(factor))
        mean = sum((p * w for p, w in zip(SHARES, weights, strict=True)), torch.zeros_like(world))
        apart = sum(p * float((w - mean).norm()) for p, w in zip(SHARES, weights, strict=True))
        measures = {
            "update_divergence": apart / float((mean - world).norm()),
            "momentum_alignment": sum(alignments) / len(alignments),
            "gradient_norm": sum(norms) / len(norms),
            "gradient_norm_max": max(norms),
        }
        if alpha is not None:
            measures["stale_share"] = sum(stale) / len(stale)
        memory = outer * memory + world - mean
        world = world - memory
    return measures, world


@pytest.mark.parametrize("cuts", [[1, 1, 1, 1], [0, 1, 2, 1], [2, 2, 0, 0]], ids=str)
@pytest.mark.parametrize(
    ("method", "alpha", "outer"), [("fedavg", None, 0.0), ("smofi(alpha=-0.5, global_momentum=0.3)", -0.5, 0.3)]
)
def test_measures_are_those_of_plain_loops(method: str, cuts: list[int], alpha: float | None, outer: float) -> None:
    got, weights = diagnosed(method, perceptron(), federation([3], SIZES), cut=cuts)
    expected, by_loop = by_hand(cuts, alpha, outer)
    assert torch.allclose(weights, by_loop, rtol=0, atol=1e-12)
    assert got == pytest.approx(expected, rel=1e-9)


METHODS = ["fedavg", "smofi", "fedprox(mu=0.1)+smofi", "sflv1", "sflv2", "mergesfl", "fednag", "clip(max_norm=1)"]
OPTIMIZERS = ["sgd(lr=0.05, momentum=0.9)", "adam(lr=0.01)", "sgd(lr=0.05)"]


@pytest.mark.parametrize(("method", "optimizer"), often(in_turn(METHODS, OPTIMIZERS), METHODS, OPTIMIZERS))
def test_results_are_the_same_bits_with_and_without(method: str, optimizer: str) -> None:
    data = federation([1, 4, 4], SIZES)
    settings = {**SETTINGS, "cut": 1, "method": method, "optimizer": optimizer}
    plain = smofi.train(convnet(), data, **settings)
    watched = smofi.train(convnet(), data, diagnose=True, **settings)
    assert watched.history[-1].diagnostics["gradient_norm"] > 0
    for name, tensor in plain.model.state_dict().items():
        assert torch.equal(tensor, watched.model.state_dict()[name])
    assert [record.train_loss for record in plain.history] == [record.train_loss for record in watched.history]


@pytest.mark.parametrize(
    ("method", "optimizer", "absent"),
    [
        ("smofi", "sgd(lr=0.05, momentum=0.9)", set()),
        ("smofi", "adam(lr=0.01)", set()),
        ("smofi", "sgd(lr=0.05)", {"momentum_alignment", "stale_share"}),
        ("fedavg", "sgd(lr=0.05, momentum=0.9)", {"stale_share"}),
        ("sflv1", "sgd(lr=0.05, momentum=0.9)", {"stale_share"}),
        ("sflv2", "sgd(lr=0.05, momentum=0.9)", {"momentum_alignment", "stale_share"}),
        ("mergesfl", "sgd(lr=0.05, momentum=0.9)", {"momentum_alignment", "stale_share"}),
    ],
)
def test_what_does_not_apply_is_absent(method: str, optimizer: str, absent: set[str]) -> None:
    got, _ = diagnosed(method, perceptron(), federation([3], SIZES), cut=1, optimizer=optimizer)
    every = {"update_divergence", "momentum_alignment", "stale_share", "gradient_norm", "gradient_norm_max"}
    assert set(got) == every - absent


def test_clients_with_the_same_data_are_aligned_and_do_not_diverge() -> None:
    (one,) = federation([3], [8])
    # a batch is all there is, so that its order does not matter
    got, _ = diagnosed("smofi", perceptron(), [one] * 3, cut=1, batch_size=8)
    assert got["momentum_alignment"] == pytest.approx(1)
    assert got["update_divergence"] == pytest.approx(0, abs=1e-12)
    assert got["stale_share"] == 0


def test_zero_has_no_direction() -> None:
    data = federation([3], SIZES)
    settings = {**SETTINGS, "diagnose": True}
    result = smofi.train(perceptron(), data, method="fedavg", loss=lambda out, y: 0 * out.sum(), **settings)
    assert result.history[-1].diagnostics == {"gradient_norm": 0.0, "gradient_norm_max": 0.0}


def test_one_server_model_counts_the_gradient_of_both_sides() -> None:
    """A single client's step is the same whatever the server keeps, so every measure of its first step is too."""
    data = federation([3], [4])
    settings = {"cut": 1, "local_epochs": 1, "optimizer": smofi.sgd(lr=LR), "rounds": 1}
    norms = {
        method: diagnosed(method, perceptron(), data, **settings)[0]["gradient_norm"]
        for method in ("fedavg", "sflv2", "mergesfl")
    }
    assert norms["sflv2"] == pytest.approx(norms["fedavg"], rel=1e-12)
    assert norms["mergesfl"] == pytest.approx(norms["fedavg"], rel=1e-12)
