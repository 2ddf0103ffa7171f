"""A client sends numbers that are finite, and too large to compute with: it is left out of the round, and the others
have the bits that they would have if it had been lost at that moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import smofi
from smofi.engine.remote.messages import Activation, Returned, Up
from smofi.engine.remote.row import RemoteRow
from support.local_links import LocalLinks, remotely
from support.often import often
from support.remote_sessions import on_digits

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


def session_with(method: str, cut: Any, **options: Any) -> tuple[smofi.Session, LocalLinks]:
    session = on_digits(method, cut=cut, participation=1.0, rounds=2)
    return session, remotely(session, **options)


def check(method: str, cut: Any, chosen: Callable[[Up], bool], spoil: Callable[[Any], Up]) -> None:
    """A spoilt message is as good as one that never comes because its client is lost."""

    def forge(client: int, message: Up) -> Up:
        return spoil(message) if client == SPOILER and chosen(message) else message

    spoilt, links = session_with(method, cut, forge=forge)
    lost, _ = session_with(method, cut, loses=lambda client, message: client == SPOILER and chosen(message), early=True)
    result = spoilt.train()
    assert not result.diverged
    assert {client for client, _ in links.rested} == {SPOILER}
    assert all("non-finite" in reason for _, reason in links.rested)
    lost.train()
    theirs = lost.run.state.tensors()
    for name, mine in spoilt.run.state.tensors().items():
        assert torch.equal(mine, theirs[name]), name
    assert bool(torch.isfinite(spoilt.run.state.weights).all())


@pytest.mark.parametrize(
    ("method", "large"), often(lambda method, large: method in ("smofi", "sflv2", "mergesfl"), METHODS, LARGE)
)
def test_activations(method: str, large: str) -> None:
    def spoil(message: Activation) -> Up:
        return replace(message, activation=torch.full_like(message.activation, LARGE[large]))

    check(method, 1, lambda message: isinstance(message, Activation) and message.step == 0, spoil)


@pytest.mark.parametrize("method", often(lambda method: method in ("smofi", "sflv2", "mergesfl"), METHODS))
def test_gradients_of_the_servers_output(method: str) -> None:
    """U shape: what a client returns is spoilt, after its activations took part in the pass."""

    def spoil(message: Returned) -> Up:
        return replace(message, gradient=torch.full_like(message.gradient, 3e38))

    check(method, (1, 1), lambda message: isinstance(message, Returned) and message.step == 0, spoil)


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
    monkeypatch.setattr(RemoteRow, "finite", lambda row: row.client != SPOILER)
    assert not session.train().diverged
    assert links.rested == [(SPOILER, "a weight became non-finite")] * 2


@pytest.mark.parametrize("method", ["sflv2", "mergesfl"])
def test_a_gradient_of_a_shared_model_that_is_known_too_late(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clients have their answers: the server's step comes to nothing, and the one with the largest numbers goes."""

    def forge(client: int, message: Up) -> Up:
        large = client == SPOILER and isinstance(message, Activation)
        return replace(message, activation=message.activation * 1e3) if large else message  # type: ignore[union-attr]

    session, links = session_with(method, 1, forge=forge)
    computed, failed = RemoteRow.compute_weights, list[int]()

    def compute(row: RemoteRow) -> bool:
        if not failed and (method == "mergesfl" or row.client == SPOILER):
            failed.append(row.client)
            return False
        return computed(row)

    monkeypatch.setattr(RemoteRow, "compute_weights", compute)
    assert not session.train().diverged
    assert (SPOILER, "the gradient became non-finite") in links.rested
    assert {client for client, _ in links.rested} == {SPOILER}
