from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data import dirichlet, iid, partition
from smofi.data.kinds import parse
from smofi.data.partition import fill
from smofi.errors import InputError


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_sample_exactly_once_and_nobody_below_the_minimum(data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, 400))
    clients = data.draw(st.integers(1, samples))
    min_size = data.draw(st.integers(0, samples // clients))
    gamma = data.draw(st.sampled_from([1e-300, 1e-3, 0.01, 0.2, 1.0, 1e3, 1e300]))
    how = data.draw(st.sampled_from([f"dirichlet({gamma})", "iid"]))
    labels = np.random.default_rng(data.draw(st.integers(0, 9))).integers(data.draw(st.integers(1, 12)), size=samples)
    parts = partition(labels, clients, how, min_size=min_size, seed=data.draw(st.integers(0, 99)))
    assert len(parts) == clients
    assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
    assert min(len(part) for part in parts) >= min_size
    assert all((np.diff(part) > 0).all() for part in parts)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) > 0),
    min_size=st.integers(0, 10),
)
def test_filling_is_one_move_at_a_time_from_the_largest(sizes: list[int], min_size: int) -> None:
    min_size = min(min_size, sum(sizes) // len(sizes))
    expected = list(sizes)
    while min(expected) < min_size:
        expected[expected.index(max(expected))] -= 1
        expected[expected.index(min(expected))] += 1
    owner = np.repeat(np.arange(len(sizes)), sizes)
    filled = fill(owner, len(sizes), min_size, np.random.default_rng(0))
    assert sorted(np.bincount(filled, minlength=len(sizes)).tolist()) == sorted(expected)
    # Only those above the minimum give, only those below it get.
    for old, new in set(zip(owner[owner != filled].tolist(), filled[owner != filled].tolist(), strict=True)):
        assert sizes[old] > min_size > sizes[new]


@pytest.mark.parametrize("samples", [50_000, 32_000])
def test_a_thousand_clients_with_extreme_skew_take_no_time(samples: int) -> None:
    labels = np.arange(samples) % 10
    start = time.perf_counter()
    parts = partition(labels, 1000, "dirichlet(0.01)", min_size=32)
    assert time.perf_counter() - start < 2
    assert min(len(part) for part in parts) == 32
    assert len(np.unique(np.concatenate(parts))) == samples


def test_the_seed_decides() -> None:
    labels = np.arange(1000) % 10
    one, again, two = (partition(labels, 20, min_size=5, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    as_tensor = partition(torch.from_numpy(labels), 20, min_size=5, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(one, as_tensor, strict=True))


def test_large_gamma_is_even_and_small_gamma_gives_a_class_to_one_client() -> None:
    labels = np.arange(10_000) % 10

    def largest_share(how: str) -> float:
        parts = partition(labels, 10, how, min_size=0, seed=0)
        counts = np.array([np.bincount(labels[part], minlength=10) for part in parts])
        return float(np.mean(counts.max(axis=0) / 1000))

    assert largest_share("dirichlet(1e6)") == pytest.approx(0.1, abs=0.002)
    assert largest_share("dirichlet(1e-4)") > 0.99
    assert 0.35 < largest_share("dirichlet(0.2)") < 0.85


@pytest.mark.parametrize("gamma", [0.05, 0.2, 1.0, 5.0])
def test_proportions_have_the_moments_of_a_dirichlet(gamma: float) -> None:
    # Dir(gamma) over J clients: mean 1/J, variance (J - 1) / (J^2 (J gamma + 1)).
    clients = 8
    shares = dirichlet(gamma).proportions(20_000, clients, np.random.default_rng(0))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, rtol=0.06)
    np.testing.assert_allclose(shares.var(axis=0), (clients - 1) / clients**2 / (clients * gamma + 1), rtol=0.06)


@pytest.mark.parametrize("gamma", [1e-308, 1e-5, 1e308])
def test_proportions_never_underflow_to_nothing(gamma: float) -> None:
    shares = dirichlet(gamma).proportions(50, 1000, np.random.default_rng(0))
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_iid_deals_like_cards() -> None:
    parts = partition(np.zeros(11), 4, iid(), min_size=2)
    assert sorted(len(part) for part in parts) == [2, 3, 3, 3]


@pytest.mark.parametrize("text", ["dirichlet(0.2)", "dirichlet(gamma=0.2)", " dirichlet( 0.2 ) "])
def test_text_and_values_are_the_same_thing(text: str) -> None:
    assert parse(text) == dirichlet(0.2) == parse(str(dirichlet(0.2)))
    assert parse("iid") == parse("iid()") == iid() == parse(str(iid()))


@pytest.mark.parametrize(
    "text",
    ["", "dirichlet", "dirichlet()", "dirichlet(0)", "dirichlet(-1)", "dirichlet(1, 2)", "dirichlet(alpha=1)",
     "dirichlet(1e999)", "dirichlet('a')", "dirichlet(os)", "dirichlet(**{})", "iid(3)", "dirchlet(0.2)", "1 + 1",
     "a.b(2)", "iid("],
)  # fmt: skip
def test_text_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not accepted"):
        parse(text)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"clients": 4}, "clients=4 with min_size=32 .*is not accepted: that takes 128 samples and there are 100"),
        ({"clients": 0}, "clients=0"),
        ({"min_size": -1}, "min_size=-1"),
        ({"labels": np.zeros((10, 2))}, r"shape \(10, 2\)"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_impossible_requests_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        partition(**{"labels": np.zeros(100), "clients": 3, **changed})
