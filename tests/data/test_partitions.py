"""Samples divided among clients: the ways of dividing, validation, saved partitions, and how uneven classes are."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from smofi.data.partitions import (
    Saved,
    assign,
    class_counts,
    dirichlet,
    divergence,
    fill,
    iid,
    log_dirichlet,
    natural,
    parse,
    partition,
    proportions,
    read_partition,
    shards,
    write_partition,
)
from smofi.errors import InputError
from smofi.runs import RunFolder, RunWriter, partition_hash

GAMMAS = [1e-300, 1e-3, 0.01, 0.2, 1.0, 1e3, 1e300]


@settings(max_examples=40)
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


@settings(max_examples=40)
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


@settings(max_examples=40)
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


# ------------------------------------------------------------------------------------------------------ with validation


LABELS = np.arange(200) % 4


@pytest.mark.parametrize("how", ["dirichlet(0.2)", "iid", "shards(2)"])
def test_without_validation_it_is_the_partition(how: str) -> None:
    owner = assign(LABELS, 6, how, min_size=5, seed=1)
    assert owner.dtype == np.int32
    for client, part in enumerate(partition(LABELS, 6, how, min_size=5, seed=1)):
        assert np.flatnonzero(owner == client).tolist() == part.tolist()


@pytest.mark.parametrize("how", ["dirichlet(0.2)", "iid", "shards(2)"])
def test_validation_is_a_share_of_all_and_the_rest_is_divided(how: str) -> None:
    owner = assign(LABELS, 6, how, min_size=20, seed=1, validation=0.15)
    assert (owner == -1).sum() == 30
    sizes = np.bincount(owner[owner >= 0], minlength=6)
    assert sizes.sum() == 170
    assert sizes.min() >= 20


def test_methods_and_kinds_validate_on_the_same_samples() -> None:
    held = [assign(LABELS, 6, how, min_size=5, seed=1, validation=0.1) == -1 for how in ("iid", "shards(2)")]
    assert np.array_equal(*held)


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    min_size=st.integers(0, 10),
    validation=st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 0.999]),
    most=st.sampled_from([None, 15, 30]),
)
def test_every_natural_client_holds_out_its_own_share(
    sizes: list[int], min_size: int, validation: float, most: int | None
) -> None:
    owners = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
    labels = np.zeros(len(owners))
    kept = [size if most is None else min(size, most) for size in sizes]
    held = [round(validation * size) for size in kept]
    able = [name for name in range(len(sizes)) if kept[name] - held[name] >= min_size]
    how = "natural" if most is None else f"natural(most={most})"

    def assigned() -> np.ndarray:
        return assign(labels, max(1, len(able)), how, min_size=min_size, seed=2, validation=validation, owners=owners)

    if not able or (validation and not sum(held[name] for name in able)):
        with pytest.raises(InputError, match="is not accepted"):
            assigned()
        return
    owner = assigned()
    assert np.array_equal(owner, assigned())
    for client, name in enumerate(able):
        mine = owner[owners == name]
        assert (mine == -1).sum() == held[name]
        assert (mine == client).sum() == kept[name] - held[name]
    others = owner[~np.isin(owners, able)]
    assert (others == -2).all()


def test_a_saved_partition_is_taken_as_it_is(tmp_path: Path) -> None:
    owner = assign(LABELS, 6, "natural(most=12)", min_size=5, seed=1, validation=0.1, owners=np.arange(200) % 9)
    assert {-2, -1, 0, 5} <= set(owner.tolist())
    write_partition(tmp_path / "partition.safetensors", owner)
    how = f"file:{tmp_path}"
    # Neither the seed nor the minimum has a say.
    assert np.array_equal(assign(LABELS, 6, how, min_size=150, seed=7), owner)
    for client, part in enumerate(partition(LABELS, 6, how)):
        assert part.tolist() == np.flatnonzero(owner == client).tolist()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"validation": 0.1}, "validation=0.1 is not accepted: expected 0 with partition='file:.*whose file says"),
        ({"clients": 3}, "clients=3 is not accepted: expected 2, the clients of file:"),
        ({"labels": LABELS[1:]}, "it divides 200 samples and this data has 199"),
        ({"how": "iid", "validation": 1.0}, "validation=1.0 is not accepted"),
        (
            {"how": "iid", "validation": 0.001},
            "validation=0.001 is not accepted: expected 0, or at least one of the 200",
        ),
        ({"how": "natural"}, "does not say who owns which sample"),
    ],
)
def test_what_does_not_go_together_is_refused(changed: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    write_partition(tmp_path / "partition.safetensors", LABELS % 2)
    given = {"labels": LABELS, "clients": 2, "how": f"file:{tmp_path}", "min_size": 1, "seed": 0, **changed}
    with pytest.raises(InputError, match=sentence):
        assign(**given)


# ---------------------------------------------------------------------------------------------------------------- saved


OWNER = np.array([1, -1, 0, 2, -2, 0], dtype=np.int32)


def test_a_run_folder_and_its_file_are_read(tmp_path: Path) -> None:
    labels = np.arange(6)
    (tmp_path / "run").mkdir()
    RunWriter(RunFolder(tmp_path / "run")).describe("rounds: 1\n", {}, OWNER, labels)
    for path in (tmp_path / "run", tmp_path / "run" / "partition.safetensors"):
        assert read_partition(path).tolist() == OWNER.tolist()
        assert read_partition(str(path)).dtype == np.int32
    known = parse(f"file:{tmp_path / 'run'}")
    assert isinstance(known, Saved)
    assert known.clients_of(labels, 3).tolist() == OWNER.tolist()
    with pytest.raises(InputError, match="it was made for data with other labels"):
        known.clients_of(labels[::-1], 3)
    write_partition(tmp_path / "again", OWNER)
    again = parse(f"file:{tmp_path / 'again'}")
    assert isinstance(again, Saved)
    assert again.clients_of(labels[::-1], 3).tolist() == OWNER.tolist()  # it knows of no labels


@pytest.mark.parametrize("with_run", [True, False])
def test_a_changed_owner_is_noticed_in_a_run_folder_and_by_itself(with_run: bool, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunWriter(RunFolder(tmp_path / "run")).describe("rounds: 1\n", {}, OWNER, np.arange(6))
    path = tmp_path / "run" / "partition.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(OWNER.tobytes(), OWNER[::-1].tobytes()))
    if not with_run:
        path = path.rename(tmp_path / "partition.safetensors")
    for place in (path, path.parent):
        with pytest.raises(InputError, match=r"partition\.safetensors is (damaged|not what the run saved)"):
            read_partition(place)
    path.write_bytes(content)
    assert read_partition(path).tolist() == OWNER.tolist()


@settings(max_examples=40)
@given(st.lists(st.integers(-2, 5), min_size=1).filter(lambda owners: max(owners) >= 0))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, owners: list[int]) -> None:
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    clients = sorted({owner for owner in owners if owner >= 0})
    numbered = np.array([clients.index(owner) if owner >= 0 else owner for owner in owners])
    write_partition(path, numbered)
    assert read_partition(path).tolist() == numbered.tolist()
    assert [one.name for one in path.parent.glob(".*.part")] == []


@pytest.mark.parametrize("path", ["runs/a", "runs/a b/partition.safetensors", "x:y", "../dirichlet(0.2)"])
def test_its_text_is_its_path(path: str) -> None:
    assert parse(f"file:{path}") == Saved(path) == parse(str(Saved(path)))
    assert str(parse(f" file:{path}")) == f"file:{path}"


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"owners": OWNER}, r"expected one tensor called owner, but it has \['owners'\]"),
        ({"owner": OWNER, "more": OWNER}, "expected one tensor called owner"),
        ({"owner": OWNER.astype(np.int64)}, "expected int32 of shape .samples., not I64"),
        ({"owner": OWNER.astype(np.float32)}, "not F32"),
        ({"owner": OWNER.reshape(2, 3)}, r"not I32 of \[2, 3\]"),
        ({"owner": OWNER[:0]}, "no sample has a client"),
        ({"owner": np.full(3, -1, dtype=np.int32)}, "no sample has a client"),
        ({"owner": np.array([0, -3], dtype=np.int32)}, "a sample has client -3"),
        ({"owner": np.array([0, 1, 3], dtype=np.int32)}, "client 2 has no sample although there is a client 3"),
        ({"owner": np.array([2**31 - 1], dtype=np.int32)}, "client 0 has no sample although there is a client 2147483"),
    ],
)
def test_a_file_that_is_no_partition_is_refused(tensors: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "partition.safetensors"
    save_file(tensors, path)
    with pytest.raises(InputError, match=rf"partition\.safetensors is no partition: .*{sentence}"):
        read_partition(tmp_path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    write_partition(path, OWNER)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut cannot be read as a partition"):
            read_partition(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="cannot be read as a partition"):
        read_partition(path)


@pytest.mark.parametrize(
    "header",
    [
        {"owner": {"dtype": "I32", "shape": [2**40], "data_offsets": [0, 2**42]}},
        {"owner": {"dtype": "I32", "shape": [2**62], "data_offsets": [0, 8]}},
        {"owner": {"dtype": "I32", "shape": [2], "data_offsets": [8, 16]}},
        {"owner": {"dtype": "I33", "shape": [2], "data_offsets": [0, 8]}},
        {"owner": [1, 2]},
        [],
    ],
)
def test_a_header_that_promises_more_than_the_file_has_is_refused(header: Any, tmp_path: Path) -> None:
    text = json.dumps(header).encode()
    (tmp_path / "lies").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(InputError, match="lies cannot be read as a partition"):
        read_partition(tmp_path / "lies")
    (tmp_path / "lies").write_bytes(struct.pack("<Q", 2**60) + text)
    with pytest.raises(InputError, match="lies cannot be read as a partition"):
        read_partition(tmp_path / "lies")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing does not exist: expected a run folder or its partition"):
        read_partition(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"has no partition\.safetensors: expected a run folder"):
        read_partition(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is no regular file"):
        read_partition(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot be read"):
        read_partition(tmp_path / ("x" * 300))
    (tmp_path / "smofi").mkdir()
    write_partition(tmp_path / "smofi" / "partition.safetensors", OWNER)
    with pytest.raises(InputError, match=r"contains several runs: expected one of them, such as .*smofi$"):
        read_partition(tmp_path)


@pytest.mark.parametrize(
    ("owners", "sentence"),
    [
        (np.array([0.0]), "whole numbers, one per sample"),
        (np.array([[0]]), "whole numbers, one per sample"),
        (np.array([0, 2]), "client 1 has no sample"),
        (np.array([0, -3]), "client -3"),
    ],
)
def test_what_could_not_be_read_is_not_written(owners: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        write_partition(tmp_path / "file", owners)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="nowhere/file cannot be written: No such file"):
        write_partition(tmp_path / "nowhere" / "file", OWNER)


# ----------------------------------------------------------------------------------------------------------- how uneven


def entropy(shares: list[float]) -> float:
    return -sum(share * math.log2(share) for share in shares if share)


@pytest.mark.parametrize("classes", [2, 3, 10, 100, 200])
def test_a_single_class_in_closed_form(classes: int) -> None:
    # q = (1, 0, ...) and m = ((c + 1) / 2c, 1 / 2c, ...) give 1 + log2(c) / 2 - (c + 1) log2(c + 1) / 2c.
    expected = 1 + math.log2(classes) / 2 - (classes + 1) * math.log2(classes + 1) / (2 * classes)
    counts = np.zeros((2, classes), dtype=np.int64)
    counts[0, classes - 1], counts[1, 0] = 7, 12345
    assert divergence(counts).tolist() == pytest.approx([expected, expected])


@given(st.integers(2, 12).flatmap(lambda classes: st.lists(st.integers(0, 50), min_size=classes, max_size=classes)))
def test_it_is_the_entropy_of_the_middle_less_the_mean_entropy(counts: list[int]) -> None:
    if not sum(counts):
        assert math.isnan(divergence([counts])[0])
        return
    mix, balance = [count / sum(counts) for count in counts], [1 / len(counts)] * len(counts)
    middle = [(one + other) / 2 for one, other in zip(mix, balance, strict=True)]
    found = float(divergence([counts])[0])
    assert found == pytest.approx(entropy(middle) - (entropy(mix) + entropy(balance)) / 2, abs=1e-9)
    assert 0 <= found <= 1
    assert found == pytest.approx(float(divergence([sorted(counts)])[0]), abs=1e-12)
    assert found == pytest.approx(float(divergence([[2 * count for count in counts]])[0]), abs=1e-12)


def test_counts_are_those_of_a_plain_loop() -> None:
    labels = np.random.default_rng(0).integers(7, size=300)
    parts = partition(labels, 9, "dirichlet(0.3)", min_size=0)
    expected = [[sum(int(labels[i]) == label for i in part) for label in range(8)] for part in parts]
    assert class_counts(labels, parts, 8).tolist() == expected
    assert class_counts(torch.from_numpy(labels), parts, 8).tolist() == expected
    assert class_counts(labels, [], 8).shape == (0, 8)


@pytest.mark.parametrize(
    ("labels", "classes", "sentence"),
    [
        ([0, 3], 3, "labels=3 is not accepted: expected class numbers from 0 to 2"),
        ([0, -1], 3, "labels=-1"),
        ([0.5, 1.0], 3, "labels='float64"),
        ([[0], [1]], 3, r"shape \(2, 1\)"),
        ([0, 1], 0, "classes=0"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels: Any, classes: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        class_counts(labels, [np.array([0, 1])], classes)


@pytest.mark.parametrize("counts", [[1, 2], [[0.5, 1.0]], [[-1, 2]], np.zeros((3, 0), dtype=np.int64)])
def test_counts_that_are_none_are_refused(counts: Any) -> None:
    with pytest.raises(InputError, match=r"counts=.*is not accepted"):
        divergence(counts)
