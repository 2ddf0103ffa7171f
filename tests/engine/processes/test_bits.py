"""1, 2, 4 and 8 processes give the same bits in single precision: of every method, executor and family of models, of
late clients, of every cut and wire, forked or started by torchrun. All that a run carries from round to round is
compared byte by byte, and its history but for the seconds that rounds took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from support.processes import differing, sharded, sharded_by_torchrun
from support.sharded import CASES, CIRCUMSTANCES, FAMILIES, SPLIT, one_server

FEW = ["late, own cuts, adam", "own U shapes", "many", "contiguous, sflv2", "random, mergesfl"]
"""Circumstances that are compared every time, client by client."""

WHOLE = ["smofi(global_momentum=0)", "fedavg", 'sflv1("step")', "sflv2", "sflv2('step')", "mergesfl"]
"""Cases without a wire, whose cut is no U shape."""


def usable(cases: Sequence[str], executor: str) -> list[str]:
    """Those whose clients can be computed at once, if that is asked for."""
    return [case for case in cases if executor == "loop" or not one_server(case)]


def same_as_alone(
    folder: Path, sizes: Sequence[int], cases: Sequence[str], executor: str = "loop", **options: str | bool
) -> dict[str, Tensor]:
    """So many processes give what a single one gives; what that is."""
    cases = usable(cases, executor)
    alone, *others = sharded(folder, 1, *sizes, only=cases, dtype="float32", executor=executor, **options)
    found = [
        f"{size} workers: {one}" for size, other in zip(sizes, others, strict=True) for one in differing(alone, other)
    ]
    if found:
        pytest.fail("\n".join(found))
    return alone


@pytest.mark.parametrize("executor", ["loop", pytest.param("vmap", marks=pytest.mark.slow)])
def test_every_method(executor: str, tmp_path: Path) -> None:
    """Some of them split for real, too, over a wire that changes nothing: the bits of the model that is not split.
    Four workers client by client, and two with many clients at once; the next test has every number with both."""
    splits = [f"{SPLIT}{case}" for case in WHOLE] if executor == "loop" else []
    sizes, few = ([4], FEW) if executor == "loop" else ([2], FEW[:1])
    alone = same_as_alone(tmp_path, sizes, [*CASES, *few, *splits], executor)
    split = {key.removeprefix(SPLIT): tensor for key, tensor in alone.items() if key.startswith(SPLIT)}
    assert differing({key: alone[key] for key in split}, split) == []
    assert len(split) >= len(splits)
    for name in ("weights", "statistics", "memory", "carried", "carried_updates", "history"):
        assert any(alone[key].count_nonzero() for key in alone if key.endswith(f": {name}")), name


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_every_method_with_more(executor: str, tmp_path: Path) -> None:
    same_as_alone(tmp_path, [2, 4, 8], [*CASES, *CIRCUMSTANCES], executor)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
@pytest.mark.parametrize("size", [2, 4])
def test_every_method_by_torchrun(size: int, executor: str, tmp_path: Path) -> None:
    how: dict[str, Any] = {
        "only": usable([*CASES, *CIRCUMSTANCES, *FAMILIES], executor),
        "dtype": "float32",
        "executor": executor,
    }
    (alone,) = sharded(tmp_path, 1, **how)
    assert differing(alone, sharded_by_torchrun(tmp_path, size, **how)) == []


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_every_circumstance(executor: str, tmp_path: Path) -> None:
    same_as_alone(tmp_path, [2, 4], [*CIRCUMSTANCES], executor)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_every_family(executor: str, tmp_path: Path) -> None:
    same_as_alone(tmp_path, [2, 4, 8], [*FAMILIES], executor)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sflv2('step')", "mergesfl"])
def test_every_family_with_one_server(method: str, tmp_path: Path) -> None:
    same_as_alone(tmp_path, [2, 4], [f"{name} with {method}" for name in FAMILIES])


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
@pytest.mark.parametrize("seed", ["1", "2", "4"])
def test_other_seeds(seed: str, executor: str, tmp_path: Path) -> None:
    """Other clients in every round, and so other numbers of clients per worker that have steps left."""
    same_as_alone(tmp_path, [2, 4, 8], [*CASES, *CIRCUMSTANCES], executor, seed=seed)


@pytest.mark.slow
def test_every_split_that_is_executed(tmp_path: Path) -> None:
    cases = [case for case in (*CASES, *CIRCUMSTANCES, *FAMILIES) if "wire" not in case]
    same_as_alone(tmp_path, [2, 4, 8], cases, direct=True)
    how: dict[str, Any] = {"only": cases, "dtype": "float32", "direct": True}
    (alone,) = sharded(tmp_path, 1, **how)
    assert differing(alone, sharded_by_torchrun(tmp_path, 2, **how)) == []
