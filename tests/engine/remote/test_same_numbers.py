"""Clients behind links give the numbers of a simulation whose split is executed for real, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from reference import convnet
from smofi.engine.remote.row import RemoteRow
from support.local_links import remotely
from support.often import in_turn, often
from support.remote_sessions import check_same, exact, on_digits, on_text

METHODS = [
    "fedavg",
    "fedprox(mu=0.1)",
    "fednar(max_norm=0.5)",
    "fednar(max_norm=0.5, scope='part')",
    "fedavgm(momentum=0.3)",
    "slowmo(lr=1, momentum=0.4, steps=3)",
    "fednag(steps=3)",
    "fednag",
    "sflv1(period='step')",
    "sflv1(period='epoch')",
    "sflv2",
    "sflv2(turns='step')",
    "fednar(max_norm=0.5)+sflv2",
    "mergesfl",
    "fednar(max_norm=0.5, scope='part')+mergesfl",
    "smofi",
    "fedprox(mu=0.1)+smofi(alpha=-1)",
    "fednar(max_norm=0.5)+smofi",
    "smofi+clip(max_norm=0.5)",
    "fednar(max_norm=0.5, scope='part')+clip(max_norm=0.3)",
]
OPTIMIZERS = {
    "sgd": "sgd(lr=0.05, weight_decay=1e-3, lr_decay=0.9)",
    "nag": "sgd(lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)",
    "adam": "adam(lr=0.01, weight_decay=1e-3, lr_decay=0.9)",
    "adamw": "adamw(lr=0.01, weight_decay=0.1)",
}
OWN_CUTS = [0, 1, 2, 1, 0, 2]
MIXED_CUTS = [0, (1, 1), 2, 1, (0, 2), (0, 1)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method(method: str) -> None:
    check_same(on_digits, method)


@pytest.mark.parametrize(
    "method",
    often(
        lambda method: method in ("smofi", "fednag", "sflv1(period='epoch')", "mergesfl", "fednar(max_norm=0.5)+sflv2"),
        METHODS,
    ),
)
def test_the_u_shape(method: str) -> None:
    check_same(exact, method, model=convnet, cut=(1, 1), rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_u_shape_of_a_larger_model(method: str) -> None:
    check_same(on_digits, method, cut=(1, 1))


OPTIMIZED = ["smofi", "fednag", "fednar(max_norm=0.3)", "sflv1(period='step')", "mergesfl"]


@pytest.mark.parametrize(("method", "optimizer"), often(in_turn(OPTIMIZED, OPTIMIZERS, "smofi"), OPTIMIZED, OPTIMIZERS))
def test_every_optimizer(method: str, optimizer: str) -> None:
    """Adam counts its updates: those that a client carries over from the round before, too."""
    check_same(exact, method, optimizer=OPTIMIZERS[optimizer])


DIFFERENT = ["0-2", OWN_CUTS, MIXED_CUTS]
AT_DIFFERENT = ["smofi", "fednag", "sflv1(period='step')", "fednar(max_norm=0.5)"]


@pytest.mark.parametrize(
    ("method", "cut"), often(in_turn(AT_DIFFERENT, DIFFERENT, "smofi"), AT_DIFFERENT, DIFFERENT), ids=str
)
def test_cuts_that_differ(method: str, cut: Any) -> None:
    check_same(exact, method, model=convnet, cut=cut, rounds=2)


@pytest.mark.parametrize("method", ["sflv2", "mergesfl"])
def test_one_server_with_a_cut_drawn_each_round(method: str) -> None:
    check_same(on_digits, method, cut="0-2")


@pytest.mark.parametrize(
    ("wire", "cut"),
    often(lambda wire, cut: wire == "int8" or cut == 1, ["int8", "bf16", "fp16"], [1, (1, 1)]),
    ids=str,
)
def test_a_wire_with_fewer_bits(wire: str, cut: Any) -> None:
    check_same(on_digits, "smofi", wire=wire, cut=cut)


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
def test_a_wire_with_fewer_bits_and_merged_batches(cut: Any) -> None:
    check_same(on_digits, "mergesfl", wire="int8", cut=cut)


@pytest.mark.parametrize(
    ("method", "cut"),
    often(
        lambda *one: one in [("smofi", (1, 1)), ("mergesfl", 1), ("sflv2", 1)],
        ["smofi", "mergesfl", "sflv2"],
        [1, (1, 1)],
    ),
    ids=str,
)
def test_dropout(method: str, cut: Any) -> None:
    check_same(on_text, method, cut=cut)


@pytest.mark.parametrize("method", ["smofi", "mergesfl"])
def test_other_normalisation(method: str) -> None:
    check_same(on_digits, method, norm="group(2)")


def test_augmentation() -> None:
    check_same(on_digits, "smofi", augment="crop(1)+flip")


@pytest.mark.parametrize(
    ("cut", "wire"), often(lambda *one: one in [(1, "int8"), ((1, 1), None)], [1, (1, 1)], [None, "int8"]), ids=str
)
def test_mixed_precision(cut: Any, wire: str | None) -> None:
    check_same(on_digits, "smofi", precision="bf16", cut=cut, **{"wire": wire} if wire else {})


def test_fused_moments_and_carried_ones_over_rounds() -> None:
    check_same(exact, "smofi", optimizer="adam(lr=0.01)", rounds=4)
    check_same(exact, "fednag", optimizer="adamw(lr=0.01)", rounds=4, cut=[0, 2, 1, 0, 1, 2])


def test_a_client_with_a_single_step() -> None:
    for method in ("smofi", "fedavg", "sflv1(period='epoch')", "mergesfl"):
        session = exact(method, participation=1.0, local_epochs=1)
        remotely(session)
        session.train()
        assert min(session.run.history[0].steps) == 1
        check_same(exact, method, participation=1.0, local_epochs=1)


@pytest.mark.parametrize(
    "method", ["clip(max_norm=10)", "clip(max_norm=10, scope='part')", "fednar(max_norm=10)", "sflv2+clip(max_norm=10)"]
)
def test_a_large_gradient_that_the_method_limits(method: str) -> None:
    """It would be refused for its norm of some 1e8; but the method makes it small, here as in a simulation."""

    def steep(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return 1e9 * cross_entropy(output, target)

    check_same(exact, method, model=convnet, loss=steep, rounds=2)


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", ["fedavg", "fednar(max_norm=0.5)", "fednar(max_norm=0.5)+sflv2"])
def test_a_gradient_is_looked_at_once_a_step(method: str, cut: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, compute = list[int](), RemoteRow.compute_weights

    def counted(row: RemoteRow) -> bool:
        looked.append(row.client)
        return compute(row)

    monkeypatch.setattr(RemoteRow, "compute_weights", counted)
    session = exact(method, model=convnet, cut=cut, rounds=1)
    remotely(session)
    session.train()
    assert len(looked) == sum(session.run.history[0].steps)
