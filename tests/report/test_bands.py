from __future__ import annotations

import math

import pytest

from smofi.report import History
from smofi.report.history import band, bands


def seeds(*values: list[float | None], hours: tuple[list[float], ...] = ()) -> list[History]:
    clocks = hours or ([],) * len(values)
    return [
        History("smofi", list(one), seed=seed, hours=list(clock))
        for seed, (one, clock) in enumerate(zip(values, clocks, strict=True))
    ]


def test_the_band_is_the_mean_and_one_standard_deviation_of_a_sample() -> None:
    """0.2, 0.4, 0.6: the squared distances from 0.4 add up to 0.08, over n - 1 = 2 that is 0.04, its root 0.2."""
    found = band(seeds([0.2, 0.5], [0.4, 0.5], [0.6, 0.5]))
    assert (found.name, found.seeds) == ("smofi", 3)
    assert found.mean == pytest.approx([0.4, 0.5])
    assert found.low == pytest.approx([0.2, 0.5])
    assert found.high == pytest.approx([0.6, 0.5])


def test_one_seed_has_a_band_without_width() -> None:
    found = band(seeds([0.2, None, 0.4]))
    assert found.mean == found.low == found.high == [0.2, None, 0.4]
    assert found.points == [0, 2]


def test_a_round_needs_every_seed() -> None:
    found = band(seeds([0.2, None, 0.4, 0.9], [0.4, 0.5, 0.6]))
    assert found.mean == [pytest.approx(0.3), None, pytest.approx(0.5)]


def test_while_runs_go_on_the_seeds_there_are_count() -> None:
    found = band(seeds([0.2, None, 0.4, 0.9], [0.4, 0.5, 0.6], hours=([1, 2, 3, 4], [3, 4, 5])), partial=True)
    assert found.mean == pytest.approx([0.3, 0.5, 0.5, 0.9])
    assert found.low[3] == found.high[3] == 0.9
    assert found.hours == [2, 3, 4, 4]


def test_a_seed_that_diverged_is_not_left_out_of_the_mean() -> None:
    found = band(seeds([0.2, math.nan], [0.4, 0.5]))
    assert found.mean[0] == pytest.approx(0.3)
    assert found.mean[1] is not None
    assert math.isnan(found.mean[1])


def test_over_hours_a_round_stands_at_the_mean_of_its_seeds() -> None:
    assert band(seeds([0.2, 0.4], [0.2, 0.4], hours=([1.0, 2.0], [2.0, 5.0]))).hours == [1.5, 3.5]
    assert band(seeds([0.2, 0.4], [0.2, 0.4], hours=([1.0, 2.0], []))).hours == []


def test_methods_keep_their_order() -> None:
    found = bands([History("smofi", [0.5]), History("fedavg", [0.4]), History("smofi", [0.7], seed=1)])
    assert [(one.name, one.mean) for one in found] == [("smofi", [0.6]), ("fedavg", [0.4])]
    assert bands([]) == []
    assert bands([History("smofi")])[0].mean == []
