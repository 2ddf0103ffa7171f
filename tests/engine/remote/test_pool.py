"""Server passes of several clients at a time, in threads: the bits are those of one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from reference import convnet, perceptron
from smofi.engine.remote.pool import choose_pool
from support.local_links import remotely
from support.remote_sessions import exact, on_digits, same_bits

METHODS = ["fedavg", "smofi", "fednar(max_norm=0.5)+smofi", "fednag", "sflv1(period='step')", "sflv2", "mergesfl"]


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ThreadPoolExecutor(3, initializer=lambda: torch.set_num_threads(1)) as pool:
        yield pool


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits(method: str, pool: Executor) -> None:
    remote = on_digits(method)
    remotely(remote, pool=pool)
    same_bits(remote, on_digits(method))


@pytest.mark.parametrize("method", METHODS)
def test_the_u_shape(method: str, pool: Executor) -> None:
    changes: dict[str, Any] = {"model": convnet, "cut": (1, 1), "rounds": 2}
    remote = exact(method, **changes)
    remotely(remote, pool=pool)
    same_bits(remote, exact(method, **changes))


def chosen(asked: int | None, useful: int = 4, method: str = "fedavg", **changes: Any) -> tuple[Executor | None, str]:
    session = exact(method, **changes)
    remotely(session)
    deployment, cut = session.run.simulation, session.run.planner.cuts.options[0]
    return choose_pool(asked, useful, deployment.state, deployment.crossing(cut), 8, 64)  # type: ignore[attr-defined]


def test_as_many_as_asked_for() -> None:
    found, why = chosen(3)
    assert found is not None
    assert found._max_workers == 3  # type: ignore[attr-defined]
    assert "times as fast" in why
    found.shutdown()


@pytest.mark.parametrize(
    ("asked", "useful", "method", "why"),
    [
        (1, 4, "fedavg", "one client in a round, or one core"),
        (4, 1, "fedavg", "one client in a round, or one core"),
        (4, 4, "sflv2", "sflv2 has a single server model"),
    ],
)
def test_one_at_a_time(asked: int, useful: int, method: str, why: str) -> None:
    found, reason = chosen(asked, useful, method=method)
    assert found is None
    assert why in reason


class Noise(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + torch.rand_like(inputs) if self.training else inputs


def test_a_model_that_draws_random_numbers_is_computed_one_at_a_time() -> None:
    def noisy() -> nn.Sequential:
        model = perceptron()
        return nn.Sequential(*model[:-1], nn.Sequential(Noise(), model[-1]))

    before = torch.random.get_rng_state()
    found, reason = chosen(4, model=noisy)
    assert found is None
    assert reason == "a layer of the model draws random numbers"
    assert torch.equal(before, torch.random.get_rng_state())
