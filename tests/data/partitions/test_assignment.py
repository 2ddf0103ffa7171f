"""The client of each sample, validation split included. That old kinds keep their bits is in test_partition.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.data.partitions import assign, partition, write_partition
from smofi.errors import InputError

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
