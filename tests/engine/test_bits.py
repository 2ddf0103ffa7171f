"""1, 2, 4 and 8 processes give the same bits in single precision: of every method, executor and family of models, of
late clients, of every cut and wire, forked or started by torchrun. All that a run carries from round to round is
compared byte by byte, and its history but for the seconds that rounds took. The order of sums is held against a plain
definition of the tree."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

import smofi
from smofi.cli import main
from smofi.data import batch_order
from support.processes import QUICK, ROOT, differing, fold, in_each, sharded, sharded_by_torchrun
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


COVERING = ["fedprox(mu=0.1)", "slowmo(lr=0.5, momentum=0.4, steps=3)", "fednag", 'sflv1("epoch")', "sflv2('step')"]
COVERING += ["smofi", "fedprox(mu=0.1)+smofi", "smofi(alpha=-0.5)", "fedavg+clip(max_norm=5)"]
COVERING += ["fedprox(mu=0.1)+mergesfl(steps=4)", "fednar(max_norm=0.5)"]
"""Every way to place, fuse, share and carry, each with other cuts, optimizers and numbers of clients."""


def test_a_covering_few(tmp_path: Path) -> None:
    alone = same_as_alone(tmp_path, [4], [*COVERING, *FEW])
    for name in ("weights", "statistics", "memory", "carried", "carried_updates", "history"):
        assert any(alone[key].count_nonzero() for key in alone if key.endswith(f": {name}")), name


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_every_method(executor: str, tmp_path: Path) -> None:
    """Some of them split for real, too, over a wire that changes nothing: the bits of the model that is not split."""
    splits = [f"{SPLIT}{case}" for case in WHOLE] if executor == "loop" else []
    alone = same_as_alone(tmp_path, [2, 4], [*CASES, *FEW, *splits], executor)
    split = {key.removeprefix(SPLIT): tensor for key, tensor in alone.items() if key.startswith(SPLIT)}
    assert differing({key: alone[key] for key in split}, split) == []
    assert len(split) >= len(splits)


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


# ------------------------------------------------------------------------------------------------- what README promises

PROMISE = (
    "A run's numbers do not depend on how many processes compute it: "
    "with the same `executor`, 1, 2, 4 and 8 workers give the same bits."
)


@pytest.mark.parametrize("executor", ["loop", pytest.param("vmap", marks=pytest.mark.slow)])
def test_the_promise_is_made_and_kept_by_the_command(executor: str, tmp_path: Path) -> None:
    for page in ("README.md", "docs/workers.md"):
        assert PROMISE in " ".join((ROOT / page).read_text().split())
    models = set()
    for workers in re.findall(r"\d+", PROMISE):
        folder = tmp_path / workers
        asked = ["0.66" if one == "0.5" else one for one in QUICK]  # a client for each of eight workers
        asked += ["--rounds", "2", "--executor", executor, "--workers", workers, "--output", str(folder)]
        assert main(["run", *asked]) == 0
        models.add(hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    assert len(models) == 1


@pytest.mark.parametrize(("workers", "times"), [(3, 1), (2, 0)])
def test_other_numbers_of_workers_say_once_that_their_last_bits_differ(
    workers: int, times: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once, although there are two methods."""
    two = [*QUICK, "--method", "fedavg", "--rounds", "1", "--output", str(tmp_path / "run")]
    assert main(["run", *two, "--workers", str(workers)]) == 0
    told = "".join(capfd.readouterr())
    sentence = f"with {workers} workers, the last bits of all numbers differ from those of 1, 2, 4 or 8 workers"
    assert told.count(sentence) == told.count("last bits") == times


# ------------------------------------------------------------------------------------------------ the order of sums
#
# Models here only multiply, and batches have one sample, so that a gradient is the sample. Momentum and learning rate
# are powers of two. Nothing but the sums is rounded in a way that one would have to know.

WIDTH, SEED = 37, 5
BETA, LR = 0.5, 0.25


def places(steps: Sequence[int]) -> list[int]:
    """The rows on the strip: those with the most steps first."""
    return sorted(range(len(steps)), key=lambda row: (-steps[row], row))


def total(steps: Sequence[int], values: Sequence[Tensor], rows: Collection[int]) -> Tensor:
    """The sum of what some of the rows have."""
    found = fold([values[row] if row in rows else None for row in places(steps)])
    assert found is not None
    return found


def test_the_definition_on_seven_rows() -> None:
    """((0 + nothing) + (3 + 4)) + ((1 + 6) + (2 + 5)), with numbers that any other order would round otherwise."""
    a, b, c, d, e, f, g = torch.randn(7, 100, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.equal(
        total([7, 6, 5, 4, 3, 2, 1], [a, b, c, d, e, f, g], range(7)), (a + (d + e)) + ((b + g) + (c + f))
    )
    assert not torch.equal(a + b + c + d + e + f + g, (a + (d + e)) + ((b + g) + (c + f)))


@pytest.mark.parametrize("size", [2, 4, 8])
def test_workers_are_folded_as_defined(size: int, tmp_path: Path) -> None:
    """Also the sign of a zero, and what is not a number, come through."""
    draw = torch.Generator().manual_seed(size)
    brought = torch.randn(size, 1000, generator=draw) * 10.0 ** torch.randint(-6, 7, (size, 1000), generator=draw)
    brought[:, 0] = -0.0
    brought[:, 1], brought[-1, 1] = -0.0, torch.inf
    brought[:, 2], brought[0, 2] = -0.0, 0.0
    expected = fold(list(brought))
    assert expected is not None
    for found in in_each(size, tmp_path, lambda workers: {"sum": workers.sum(brought[workers.rank].clone())}):
        assert differing({"sum": expected}, found) == []
        assert found["sum"][0].signbit()


class Scale(nn.Module):
    """Every number of a sample times a weight of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-1, 1, WIDTH))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.weight


def network() -> nn.Sequential:
    """The client's part has nothing to train."""
    return nn.Sequential(nn.Identity(), Scale(), nn.Identity())


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss whose gradient is one, and which is large, so that it does not seem to diverge."""
    return 1000 + outputs.sum()


def clients(steps: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(len(steps))
    return [(torch.randn(count, WIDTH, generator=draw), torch.zeros(count, dtype=torch.int64)) for count in steps]


def gradients(data: Sequence[tuple[Tensor, Tensor]]) -> list[list[Tensor]]:
    """The gradient of every step of every client, in a round that all take part in."""
    orders = [batch_order(len(x), 1, len(x), seed=SEED, round=0, client=client) for client, (x, _) in enumerate(data)]
    return [[x[int(rows[0])] for rows in order] for (x, _), order in zip(data, orders, strict=True)]


def trained(steps: Sequence[int], method: str, executor: str, workers: smofi.Workers | None) -> dict[str, Tensor]:
    session = smofi.prepare(
        network(), clients(steps), method=method, optimizer=smofi.sgd(lr=LR, momentum=BETA), loss=summed, cut=0,
        rounds=1, participation=1.0, local_epochs=1, batch_size=1, seed=SEED, executor=executor, workers=workers,
    )  # fmt: skip
    result = session.train()
    return {"weights": parameters_to_vector(result.model.parameters()).detach()}


def mean(steps: Sequence[int], rows: Sequence[Tensor]) -> Tensor:
    """W̄ = sum_j p_j W_j"""
    shares = [count / sum(steps) for count in steps]
    return total(steps, [share * row for share, row in zip(shares, rows, strict=True)], range(len(steps)))


def by_hand(steps: Sequence[int], method: str) -> dict[str, Tensor]:
    """A round of FedNAG, of SMoFi where all momenta count alike, or of SFLV1."""
    count, g = len(steps), gradients(clients(steps))
    start = network()[1].weight.detach()
    weights, momenta, finished = [start] * count, [torch.zeros(WIDTH)] * count, []
    for step in range(max(steps)):
        active = [row for row in range(count) if step < steps[row]]
        for row in active:
            momenta[row] = BETA * momenta[row] + g[row][step]
            if method == "fednag":  # W_j -= eta (g_j + beta m_j)
                weights[row] = weights[row] - LR * g[row][step] - LR * BETA * momenta[row]
            else:  # W_j -= eta m_j
                weights[row] = weights[row] - LR * momenta[row]
        going_on = [row for row in active if step + 1 < steps[row]]
        if method == SMOFI and going_on:
            # those that go on, and then those that finished together, the first ones first
            if len(going_on) < len(active):
                finished.append(total(steps, momenta, [row for row in active if row not in going_on]))
            momenta = [sum(finished, total(steps, momenta, going_on)) / count] * count
        if method == "sflv1":
            shares = torch.tensor([size / sum(steps) for size in steps])
            shares = shares / shares[active].sum()
            average = total(steps, [share * row for share, row in zip(shares, weights, strict=True)], active)
            weights, momenta = [average] * count, [torch.zeros(WIDTH)] * count
    return {"weights": mean(steps, weights)}


SMOFI = "smofi(alpha=0, global_momentum=0)"
UNEQUAL = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.mark.parametrize(
    ("method", "executor"),
    [
        ("fednag", "loop"),
        (SMOFI, "vmap"),
        ("sflv1", "loop"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("fednag", "vmap"), (SMOFI, "loop"), ("sflv1", "vmap"))
        ),
    ],
)
def test_a_round_adds_as_defined(method: str, executor: str, tmp_path: Path) -> None:
    for steps in ([2, 2, 2, 2, 2], UNEQUAL):
        expected = by_hand(steps, method)
        for size in (1, 2, 4):
            found = in_each(size, tmp_path, partial(trained, steps, method, executor))
            assert [differing(expected, one) for one in found] == [[]] * size


@given(steps=st.lists(st.integers(1, 6), min_size=2, max_size=24))
@settings(max_examples=10)
def test_any_round_adds_as_defined(steps: list[int]) -> None:
    for method in ("fednag", SMOFI, "sflv1"):
        for executor in ("loop", "vmap"):
            assert differing(by_hand(steps, method), trained(steps, method, executor, None)) == []
