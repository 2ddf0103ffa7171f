"""Values are chosen on validation data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from smofi.sweep.running import Outcome
from smofi.sweep.store import Cell
from smofi.sweep.tuning import Trial, at_the_edge, best_of, tried, variants, within_spread
from support.cells import ran, tiny

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
        assert best
        assert best.variant.method == "fedprox(mu=0.01)"
        assert best.best == (0.9, 0.7)
        assert best.mean == 0.8
        assert best.spread is not None
        assert round(best.spread, 4) == 0.1414  # of 0.9 and 0.7
        assert best.means == pytest.approx((0.6, 0.4))
    assert [trial.variant.method for trial in within_spread(best, found)] == []
    assert at_the_edge(best, found) == {}


def test_what_is_as_good_and_what_is_at_the_edge_is_known(tmp_path: Path) -> None:
    found = trials(tmp_path, {0.001: [[0.2, 0.5], [0.1, 0.7]], 0.01: [[0.4, 0.4], [0.1, 0.7]], 0.1: [[0.1] * 2] * 2})
    best = best_of(found)
    assert best is found[0]
    assert within_spread(best, found) == [found[1]]
    assert {str(parameter): which for parameter, which in at_the_edge(best, found).items()} == {"mu": "smallest"}


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


def test_runs_without_validation_data_tell_nothing(tmp_path: Path) -> None:
    variant = variants("fedprox", ["mu=1"])[0]
    config = tiny(method=variant.method)
    found = tried([variant], [Outcome(Cell(config), "finished", ran(tmp_path / "x", config))])
    assert (found[0].missing, best_of(found)) == ("no validation data", None)
