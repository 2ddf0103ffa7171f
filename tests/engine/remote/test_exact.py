"""Behind links, the numbers are those of the model that is not split, and of plain loops: float64, to 1e-10."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import reference
from reference import Method, convnet, federation
from smofi.methods import parse_method
from support.local_links import remotely
from support.often import often
from support.remote_sessions import SIZES, distance, exact

SGD = "sgd(lr=0.05, momentum=0.9, weight_decay=0.02, lr_decay=0.8)"
SAME = reference.Optimizer("sgd", lr=0.05, momentum=0.9, weight_decay=0.02, lr_decay=0.8)
ADAM = "adam(lr=0.02, betas=(0.8, 0.95), weight_decay=0.02, lr_decay=0.8)"
SAME_ADAM = reference.Optimizer("adam", lr=0.02, betas=(0.8, 0.95), weight_decay=0.02, lr_decay=0.8)

METHODS = {
    "smofi(alpha=-0.5, global_momentum=0.3)": Method(alpha=-0.5, outer="momentum", outer_momentum=0.3),
    "fednar(max_norm=0.4)": Method(nar=True, nar_norm=0.4),
    "fednar(max_norm=0.4)+smofi(global_momentum=0)": Method(nar=True, nar_norm=0.4, alpha=-0.1),
    "fednar(max_norm=0.4, scope='part')": Method(nar=True, nar_norm=0.4, nar_scope="part"),
    "fednar(max_norm=0.4, scope='part')+clip(max_norm=0.3)": Method(
        nar=True, nar_norm=0.4, nar_scope="part", clip_norm=0.3
    ),
    "clip(max_norm=0.4)": Method(clip_norm=0.4),
    "smofi(global_momentum=0)+clip(max_norm=0.4)": Method(alpha=-0.1, clip_norm=0.4),
    "fedprox(mu=0.5)": Method(prox=0.5),
    "fednag": Method(carry=True),
    "slowmo(lr=0.6, momentum=0.4, steps=3)": Method(outer="slowmo", outer_lr=0.6, outer_momentum=0.4, steps=3),
    "sflv1(period='step')": Method(share="step"),
    "sflv1(period='epoch')": Method(share="epoch"),
    "sflv2": Method(server="visits by client"),
    "sflv2(turns='step')": Method(server="visits by step"),
    "mergesfl": Method(server="merged"),
}
OWN_CUTS = [0, 2, 1, (1, 1), 3, (0, 2)]


@pytest.mark.parametrize("method", METHODS)
def test_plain_loops(method: str) -> None:
    check(method, 1, SGD, SAME)


@pytest.mark.parametrize("method", ["smofi(alpha=-0.5, global_momentum=0.3)", "fednar(max_norm=0.4)", "fednag"])
def test_plain_loops_with_a_cut_for_each_client(method: str) -> None:
    check(method, OWN_CUTS, SGD, SAME)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [(1, 2), "0-3", OWN_CUTS], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_plain_loops_with_other_cuts(method: str, cut: Any) -> None:
    if not (isinstance(cut, list) and parse_method(method).where.one_server):
        check(method, cut, SGD, SAME)


@pytest.mark.parametrize("method", ["smofi(alpha=-0.5, global_momentum=0.3)", "fednag", "sflv2"])
def test_plain_loops_with_adam(method: str) -> None:
    check(method, 1, ADAM, SAME_ADAM)


def check(method: str, cut: Any, optimizer: str, same: reference.Optimizer) -> None:
    session = exact(method, convnet, optimizer=optimizer, cut=cut)
    remotely(session)
    got = session.train()
    selected = [record.selected for record in got.history]
    expected = reference.train(
        convnet(), federation([1, 4, 4], SIZES), METHODS[method], same,
        selected=selected, cut=cut, local_epochs=2, batch_size=4, seed=5,
    )  # fmt: skip
    assert [record.steps for record in got.history] == expected.steps
    assert distance(got.model, expected) < 1e-10


@pytest.mark.parametrize(
    "method",
    often(
        lambda method: method in ("fednag", "sflv1(period='epoch')", "sflv2", "mergesfl", "fedavg") or "+" in method,
        [*METHODS, "fedavg", "fedavgm(momentum=0.3)"],
    ),
)
def test_the_unsplit_model(method: str) -> None:
    """Simulated without a wire: the model runs as a whole wherever splitting changes nothing."""
    remote, whole = (exact(method, convnet, optimizer=SGD, wire=wire) for wire in (lambda x, *_: x, None))
    remotely(remote)
    mine, theirs = remote.train().model.state_dict(), whole.train().model.state_dict()
    for name, value in theirs.items():
        if value.is_floating_point():
            assert torch.allclose(mine[name], value, atol=1e-10, rtol=0), name
