from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smofi.data.partitions import (
    assign,
    dirichlet,
    fill,
    iid,
    log_dirichlet,
    natural,
    parse,
    partition,
    proportions,
    shards,
)
from smofi.errors import InputError
from smofi.runs import partition_hash

GAMMAS = [1e-300, 1e-3, 0.01, 0.2, 1.0, 1e3, 1e300]


@settings(max_examples=100)
@given(data=st.data())
def test_every_sample_exactly_once_and_nobody_below_the_minimum(data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, 400))
    clients = data.draw(st.integers(1, samples))
    min_size = data.draw(st.integers(0, samples // clients))
    readings = st.sampled_from([{}, {"balance": False}, {"by": "client"}, {"by": "client", "equal": True}])
    dirichlets = st.builds(lambda gamma, given: dirichlet(gamma, **given), st.sampled_from(GAMMAS), readings)
    kinds = dirichlets | st.just(iid()) | st.integers(1, samples // clients).map(shards)
    how = data.draw(kinds)
    labels = np.random.default_rng(data.draw(st.integers(0, 9))).integers(data.draw(st.integers(1, 12)), size=samples)
    seed = data.draw(st.integers(0, 99))
    parts = partition(labels, clients, how, min_size=min_size, seed=seed)
    assert len(parts) == clients
    assert sorted(np.concatenate(parts).tolist()) == list(range(samples))
    assert min(len(part) for part in parts) >= min_size
    assert all((np.diff(part) > 0).all() for part in parts)
    again = partition(labels.tolist(), clients, how, min_size=min_size, seed=seed)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))


@settings(max_examples=100)
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


@pytest.mark.parametrize(("how", "samples"), [("dirichlet(0.01)", 60_000), ("dirichlet(0.01, balance=False)", 32_000)])
def test_a_thousand_clients_with_extreme_skew_take_no_time(how: str, samples: int) -> None:
    labels = np.arange(samples) % 10
    start = time.process_time()
    parts = partition(labels, 1000, how, min_size=32)
    assert time.process_time() - start < 2
    assert min(len(part) for part in parts) == 32
    assert len(np.unique(np.concatenate(parts))) == samples


def test_the_seed_decides() -> None:
    labels = np.arange(1000) % 10
    for how in ("dirichlet(0.2)", "iid", "shards(2)"):
        one, again, two = (partition(labels, 20, how, min_size=5, seed=seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
        assert not all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
        as_tensor = partition(torch.from_numpy(labels), 20, how, min_size=5, seed=1)
        assert all(np.array_equal(a, b) for a, b in zip(one, as_tensor, strict=True))


@pytest.mark.parametrize(
    ("how", "validation", "seed", "fingerprint"),
    [
        ("dirichlet(0.2, balance=False)", 0.0, 1, "0877d0ed138d"),
        ("iid", 0.0, 1, "9aa1670b56b9"),
        ("dirichlet(0.2, balance=False)", 0.1, 3, "dda22eba35d7"),
    ],
)
def test_runs_of_the_first_version_can_be_resumed(how: str, validation: float, seed: int, fingerprint: str) -> None:
    # Recorded with version 0.1.0, which asked for 5 samples without a validation split and for 8 with one.
    owner = assign(np.arange(1000) % 10, 20, how, min_size=8 if validation else 5, seed=seed, validation=validation)
    assert partition_hash(owner).startswith(fingerprint)


@pytest.mark.parametrize(
    ("samples", "classes", "clients", "gamma", "min_size", "fingerprint"),
    [
        (2000, 10, 20, 0.2, 8, "7b1414e381e677f4"),
        (3000, 100, 30, 0.05, 16, "5c2d39dd3a5fbbda"),
        (997, 3, 7, 5.0, 1, "78f9c4de9d1a35d6"),
    ],
)
def test_without_the_balance_rule_it_has_the_bits_it_had_before_there_was_one(
    samples: int, classes: int, clients: int, gamma: float, min_size: int, fingerprint: str
) -> None:
    # Recorded with dirichlet(gamma) of the last commit before the rule, over ten seeds.
    found = hashlib.sha256()
    for seed in range(10):
        labels = np.random.default_rng(seed).integers(0, classes, samples)
        how = f"dirichlet({gamma}, balance=False)"
        owner = assign(labels, clients, how, min_size=min_size, seed=seed)
        found.update(owner.astype("<i4").tobytes())
    assert found.hexdigest().startswith(fingerprint)


@pytest.mark.parametrize("gamma", [0.05, 0.2, 1.0])
def test_a_balanced_dirichlet_is_that_of_niid_bench(gamma: float) -> None:
    # Its program as a plain loop on the same draws: proportions p_j become 0 where client j holds N/J samples.
    clients, sizes = 20, np.array([300, 10, 500, 90, 100, 250, 400, 350])
    rng = np.random.default_rng(3)
    draws = np.log(rng.standard_gamma(gamma + 1, (8, clients))) - rng.standard_exponential((8, clients)) / gamma
    held, closed = np.zeros(clients), 0
    expected = []
    for size, logs in zip(sizes, draws, strict=True):
        p = np.exp(logs - logs[held < sizes.sum() / clients].max())
        p = np.array([p_j if held_j < sizes.sum() / clients else 0.0 for p_j, held_j in zip(p, held, strict=True)])
        closed += int((p == 0).sum())
        ends = np.rint(np.cumsum(p / p.sum()) * size)
        expected.append(np.diff(ends, prepend=0))
        held += expected[-1]
    assert closed > 0, "otherwise the rule is not tried"
    counts = dirichlet(gamma).counts(sizes, clients, np.random.default_rng(3))
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("equal", [False, True])
def test_by_client_each_client_has_a_mix_of_its_own(equal: bool) -> None:
    # q_j ~ Dir(gamma) over c classes: E q = 1/c, Var q = (c - 1) / (c^2 (c gamma + 1)).
    clients, classes, gamma, sizes = 400, 5, 0.5, np.full(5, 40_000)
    counts = dirichlet(gamma, by="client", equal=equal).counts(sizes, clients, np.random.default_rng(0))
    held = counts.sum(axis=0)
    mixes = counts / held
    assert held.max() - held.min() <= 1 if equal else 0.02 < held.std() / held.mean() < 0.2
    np.testing.assert_allclose(mixes.mean(axis=1), 1 / classes, rtol=0.1)
    variance = (classes - 1) / classes**2 / (classes * gamma + 1)
    np.testing.assert_allclose(mixes.var(axis=1), variance, rtol=0.15)


def test_by_client_a_class_is_divided_in_proportion_to_the_mixes() -> None:
    sizes, clients, gamma = np.array([4000, 50, 700]), 6, 0.7
    q = np.exp(log_dirichlet(gamma, clients, 3, np.random.default_rng(5)) / gamma)
    counts = dirichlet(gamma, by="client").counts(sizes, clients, np.random.default_rng(5))
    for size, own, column in zip(sizes, counts, q.T, strict=True):
        np.testing.assert_allclose(own, size * column / column.sum(), atol=1)


@pytest.mark.parametrize("gamma", [0.05, 0.2, 1.0, 5.0])
def test_proportions_have_the_moments_of_a_dirichlet(gamma: float) -> None:
    # Dir(gamma) over J clients: mean 1/J, variance (J - 1) / (J^2 (J gamma + 1)).
    clients = 8
    shares = proportions(log_dirichlet(gamma, 20_000, clients, np.random.default_rng(0)), gamma)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / clients, rtol=0.06)
    np.testing.assert_allclose(shares.var(axis=0), (clients - 1) / clients**2 / (clients * gamma + 1), rtol=0.06)


@pytest.mark.parametrize("gamma", [1e-308, 1e-5, 1e308])
def test_proportions_never_underflow_to_nothing(gamma: float) -> None:
    shares = proportions(log_dirichlet(gamma, 50, 1000, np.random.default_rng(0)), gamma)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_iid_deals_like_cards() -> None:
    parts = partition(np.zeros(11), 4, iid(), min_size=2)
    assert sorted(len(part) for part in parts) == [2, 3, 3, 3]


def test_shards_of_mcmahan() -> None:
    # 60,000 digits, 100 clients: 200 shards of 300, so 600 samples each; 20 shards a class, none across two.
    labels = np.random.default_rng(0).permutation(np.arange(60_000) % 10)
    parts = partition(labels, 100, "shards(2)", min_size=32, seed=4)
    counts = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    assert set(counts.sum(axis=1).tolist()) == {600}
    assert set(counts.ravel().tolist()) == {0, 300, 600}
    # Two shards are of one class with probability 19/199: about 9.5 of 100 clients.
    assert 2 <= (counts == 600).sum() <= 20
    # Within a class the shards are random: their mean position is that of the class, give or take five deviations.
    means = np.array([part[labels[part] == label].mean() for part in parts for label in set(labels[part].tolist())])
    assert np.abs(means - 29_999.5).max() < 5 * 60_000 / np.sqrt(12 * 300)


@settings(max_examples=100)
@given(data=st.data())
def test_natural_clients_are_owners_with_enough(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=20))
    min_size = data.draw(st.integers(0, 12))
    most = data.draw(st.none() | st.integers(max(1, min_size), 40))
    names = np.array(data.draw(st.lists(st.integers(-50, 50), min_size=len(sizes), max_size=len(sizes), unique=True)))
    owners = np.random.default_rng(0).permutation(np.repeat(names, sizes))
    able = sorted(int(name) for name, size in zip(names, sizes, strict=True) if size >= min_size)
    clients = data.draw(st.integers(1, len(sizes)))

    def parts(seed: int) -> list[list[int]]:
        found = partition(np.zeros(len(owners)), clients, natural(most), min_size=min_size, seed=seed, owners=owners)
        return [part.tolist() for part in found]

    if len(able) < clients:
        with pytest.raises(InputError, match=rf"min_size={min_size}\b.* (use at most {len(able)} clients|a smaller)"):
            parts(0)
        return
    chosen = parts(seed=3)
    assert chosen == parts(seed=3)
    who = [set(owners[part].tolist()) for part in chosen]
    assert all(len(one) == 1 for one in who)
    flat = [one.pop() for one in who]
    assert flat == sorted(set(flat))
    assert set(flat) <= set(able)
    for owner, part in zip(flat, chosen, strict=True):
        held = np.flatnonzero(owners == owner).tolist()
        assert part == held if most is None or len(held) <= most else len(set(part)) == most
        assert part == sorted(part)


def test_natural_draws_owners_and_samples_by_the_seed() -> None:
    owners = np.arange(4000) % 40

    def parts(seed: int, how: str = "natural(most=50)") -> list[list[int]]:
        found = partition(np.zeros(4000), 20, how, min_size=10, seed=seed, owners=torch.from_numpy(owners))
        return [part.tolist() for part in found]

    chosen = {seed: {int(owners[part[0]]) for part in parts(seed)} for seed in range(30)}
    assert set.union(*chosen.values()) == set(range(40))
    assert chosen[0] != chosen[1]
    # Of an owner's 100 samples 50 are kept, other ones with another seed: all of them turn up in 30 tries.
    kept = {sample for seed in range(30) for part in parts(seed) for sample in part if owners[part[0]] == 7}
    assert kept == set(range(7, 4000, 40))
    assert {len(part) for part in parts(0)} == {50}
    assert {len(part) for part in parts(0, "natural")} == {100}


@pytest.mark.parametrize(
    "text", ["dirichlet(0.2)", "dirichlet(gamma=0.2)", " dirichlet( 0.2 ) ", "dirichlet(0.2, balance=True, by='class')"]
)
def test_text_and_values_are_the_same_thing(text: str) -> None:
    assert parse(text) == dirichlet(0.2) == parse(str(dirichlet(0.2)))
    for value in (dirichlet(0.2, balance=False), dirichlet(0.2, by="client"), dirichlet(0.2, by="client", equal=True)):
        assert parse(str(value)) == value != dirichlet(0.2)
    assert parse("iid") == parse("iid()") == iid() == parse(str(iid()))
    assert parse("shards(k=2)") == parse("shards(2)") == shards(2) == parse(str(shards(2)))
    assert parse("natural") == parse("natural()") == natural() == parse(str(natural()))
    assert parse("natural(400)") == parse("natural(most=400)") == natural(400) == parse(str(natural(400)))


@pytest.mark.parametrize(
    "text",
    ["", "dirichlet", "dirichlet()", "dirichlet(0)", "dirichlet(-1)", "dirichlet(1, 2)", "dirichlet(alpha=1)",
     "dirichlet(1e999)", "dirichlet('a')", "dirichlet(os)", "dirichlet(**{})", "iid(3)",
     "dirichlet(1, balance=1)", "dirichlet(1, by='site')", "dirichlet(1, equal=True)",
     "dirichlet(1, balance=False, by='client')", "dirchlet(0.2)", "1 + 1",
     "a.b(2)", "iid(", "shards", "shards(0)", "shards(1.5)", "shards(True)", "natural(0)", "natural(most=-1)",
     "natural(least=3)", "file:", "file: ", "file"],
)  # fmt: skip
def test_text_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is not accepted|; it is written "):
        parse(text)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"clients": 4},
            "clients=4 is not accepted: with at least 32 samples each .* they need 128 samples, but there are 100",
        ),
        ({"clients": 4, "owners": np.zeros(100, int)}, "smaller batch, or partition natural: this data says whose"),
        ({"clients": 0}, "clients=0"),
        ({"min_size": -1}, "min_size=-1"),
        ({"labels": np.zeros((10, 2))}, r"shape \(10, 2\)"),
        ({"seed": -1}, "seed=-1"),
        ({"how": "shards(40)"}, r"partition='shards\(40\)' with clients=3 .* makes 120 shards of 100 samples"),
        (
            {"how": "natural"},
            "does not say who owns which sample; expected .* client column, .* folder level per client",
        ),
        (
            {"how": "natural", "owners": np.repeat([5, 6, 7, 8], [10, 32, 40, 18])},
            "clients=3 is not accepted: 2 of the 4 owners .* min_size=32 .* use at most 2 clients or a smaller batch",
        ),
        (
            {"how": "natural", "owners": np.arange(100) // 5},
            r"min_size=32 is not accepted: none of the 20 owners .* has that many samples \(the largest has 5\)",
        ),
        ({"how": "natural(most=31)", "owners": np.zeros(100, int)}, "most=31 is not accepted: expected at least 32"),
        ({"how": "natural", "owners": np.zeros(99, int)}, r"int64 of shape \(99,\).*each of the 100 samples"),
        ({"how": "natural", "owners": np.zeros(100)}, "owners='float64 .*expected whole numbers"),
    ],
)
def test_impossible_requests_are_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        partition(**{"labels": np.zeros(100), "clients": 3, **changed})
