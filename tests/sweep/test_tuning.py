"""The values that a method's parameters are tuned over, and how they are chosen: on validation data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from smofi.errors import SmofiError
from smofi.methods import method_name
from smofi.sweep.running import Outcome
from smofi.sweep.store import Cell
from smofi.sweep.tuning import GRIDS, Trial, at_the_edge, best_of, tried, variants, within_spread
from support.cells import ran, tiny


def methods(text: str, *grid: str) -> list[str]:
    return [variant.method for variant in variants(text, grid)]


def test_the_values_of_the_paper_are_tried() -> None:
    """Appendix, "Hyperparameter Choice", and the best values that it reports."""
    assert methods("fedprox") == [f"fedprox(mu={mu})" for mu in (0.0001, 0.001, 0.01, 0.1)]
    assert {"fedavgm(momentum=0.3)", "fedavgm(momentum=0.5)", "fedavgm(momentum=0.7)"} <= set(methods("fedavgm"))
    assert {"slowmo(lr=0.5, momentum=0.4)", "slowmo(lr=1.0, momentum=0.6)"} <= set(methods("slowmo"))
    assert {"smofi", "smofi(global_momentum=0.5)", "smofi(alpha=-1.0)"} <= set(methods("smofi"))
    assert all(len(methods(name)) == len(set(methods(name))) > 1 for name in GRIDS)


def test_the_page_lists_the_values_that_are_tried() -> None:
    page = (Path(__file__).parents[2] / "docs/sweeps.md").read_text()
    for method, grid in GRIDS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{method}` |"))
        for name, values in grid.items():
            assert f"{name} {', '.join(f'{value:g}' for value in values)}" in row.split("|")[2]


def test_given_values_are_the_only_ones_that_vary() -> None:
    assert methods("fednag", "steps=15,30") == ["fednag(steps=15)", "fednag(steps=30)"]
    assert methods("fedprox(mu=1)+smofi", "alpha=-1,-0.5") == [
        "fedprox(mu=1)+smofi(alpha=-1)",
        "fedprox(mu=1)+smofi(alpha=-0.5)",
    ]
    assert methods("slowmo", "slowmo.lr=1", "momentum=0.1, 0.2") == [
        "slowmo(lr=1, momentum=0.1)",
        "slowmo(lr=1, momentum=0.2)",
    ]
    assert methods("python:mine:pull+smofi", "beta=1,2") == [
        method_name("python:mine:pull(beta=1)+smofi"),
        method_name("python:mine:pull(beta=2)+smofi"),
    ]


REFUSED = {
    ("fedprx",): "did you mean 'fedprox'?",
    ("fedavg",): "expected values to try, such as --grid NAME=0.1,0.5; parameters of fedavg: none",
    ("fednag",): "parameters of fednag: steps",
    ("fedprox", "nu=1"): "--grid nu is not accepted: expected one of the parameters of fedprox: mu",
    ("fedprox", "mu"): "--grid mu is not accepted: expected a parameter and its values, as in mu=0.001,0.01",
    ("fedprox", "mu="): "expected a parameter and its values",
    ("fedprox", "mu=a,1"): "--grid mu: 'a' is not accepted: expected numbers, as in mu=0.001,0.01",
    ("fedprox", "mu=1,1.0"): "--grid mu has a value twice",
    ("fedprox", "mu=1", "mu=2"): "--grid names a parameter twice",
    ("fedprox(mu=1)", "mu=1,2"): "--grid mu is not accepted: the method has a value for it, fedprox(mu=1)",
    ("fedprox", "mu=-1"): "mu=-1 is not accepted: expected a number >= 0",
    ("slowmo", "lr=1,2"): "missing a required argument: 'momentum'",
    ("clip+clip", "norm=1"): "--grid norm is",
}


@pytest.mark.parametrize("asked", REFUSED, ids=" ".join)
def test_what_is_wrong_is_said(asked: tuple[str, ...]) -> None:
    with pytest.raises(SmofiError) as refused:
        variants(asked[0], asked[1:])
    assert REFUSED[asked] in str(refused.value)


MU = ("mu=0.001,0.01,0.1",)


def trials(folder: Path, validation: Mapping[float, Sequence[Sequence[float]]], test: float = 0.5) -> list[Trial]:
    """Those of FedProx, from the validation accuracies of every round by mu and seed; on test data it is the other way
    round, and the more so the larger `test` is."""
    found = variants("fedprox", MU)
    outcomes = []
    for variant, seeds in zip(found, validation.values(), strict=True):
        for seed, values in enumerate(seeds):
            config = tiny(method=variant.method, seed=seed, rounds=2, validation=0.1)
            path = ran(folder / f"{variant.method}-{seed}", config, [test * (1 - max(values))] * 2, validation=values)
            outcomes.append(Outcome(Cell(config), "finished", path))
    return tried(found, outcomes)


def test_the_best_on_validation_data_is_chosen_whatever_the_test_data_says(tmp_path: Path) -> None:
    values = {0.001: [[0.2, 0.5], [0.1, 0.7]], 0.01: [[0.9, 0.3], [0.1, 0.7]], 0.1: [[0.1, 0.1], [0.1, 0.2]]}
    for number, test in enumerate((0.0, 1.0)):
        found = trials(tmp_path / str(number), values, test)
        best = best_of(found)
        assert best is found[1]
        assert (best.best, best.mean) == ((0.9, 0.7), 0.8)
        assert best.spread == pytest.approx(0.1414, abs=1e-4)  # of 0.9 and 0.7
        assert best.means == pytest.approx((0.6, 0.4))
    assert within_spread(best, found) == []
    assert at_the_edge(best, found) == {}
    values[0.01] = [[0.4, 0.4], [0.1, 0.7]]  # nearly as good as the smallest value
    found = trials(tmp_path, values)
    assert best_of(found) is found[0]
    assert within_spread(found[0], found) == [found[1]]
    assert [(str(one), which) for one, which in at_the_edge(found[0], found).items()] == [("mu", "smallest")]


def test_equals_are_told_apart_by_the_mean_over_rounds(tmp_path: Path) -> None:
    found = trials(tmp_path, {0.001: [[0.2, 0.5]], 0.01: [[0.4, 0.5]], 0.1: [[0.3, 0.5]]})
    assert best_of(found) is found[1]
    assert within_spread(found[1], found) == []  # a single seed has no spread


def test_a_variant_without_all_its_seeds_is_not_chosen(tmp_path: Path) -> None:
    one, two, three = variants("fedprox", MU)
    cells = {
        (variant.method, seed): Cell(tiny(method=variant.method, seed=seed, validation=0.1))
        for variant in (one, two, three)
        for seed in (0, 1)
    }
    outcomes = [
        Outcome(cell, "finished", ran(tmp_path / cell.key, cell.config, [0.5], validation=[0.9 - 0.1 * number]))
        for number, cell in enumerate(cells.values())
        if cell.method != one.method or cell.config.seed == 0
    ]
    outcomes.append(Outcome(cells[one.method, 1], "diverged", tmp_path))
    found = tried([one, two, three], outcomes)
    assert [(len(trial.best), trial.missing) for trial in found] == [(1, "diverged"), (2, ""), (2, "")]
    assert best_of(found) is found[1]
    assert best_of(found[:1]) is None
