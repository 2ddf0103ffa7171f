from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from smofi.errors import InputError
from smofi.report import History, Row, compare, measure, results_table

FEDAVG = History("fedavg", [0.30, 0.50, 0.60, 0.70, 0.80, 0.78], seconds=[1.0] * 6)
SMOFI = History("smofi", [0.60, 0.75, 0.85, 0.90, 0.88, 0.90], seconds=[1.5] * 6)
SLOW = History("slow", [0.10, 0.20, 0.30, 0.40, 0.50, 0.60], seconds=[0.5] * 6)


def shown(rows: list[Row]) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(results_table(rows, title="digits"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_measures_by_hand() -> None:
    # The target is 0.9 * 0.80 = 0.72: fedavg gets there in round 5, smofi in round 2, the slow one never.
    fedavg, smofi, slow = measure([FEDAVG, SMOFI, SLOW])
    assert [row.name for row in (fedavg, smofi, slow)] == ["fedavg", "smofi", "slow"]
    assert [row.target for row in (fedavg, smofi, slow)] == pytest.approx([0.72] * 3)
    assert [row.best for row in (fedavg, smofi, slow)] == [0.80, 0.90, 0.60]
    assert [row.mean for row in (fedavg, smofi, slow)] == pytest.approx([3.68 / 6, 4.88 / 6, 0.35])
    assert [row.rounds for row in (fedavg, smofi, slow)] == [5, 2, None]
    assert [row.speed_up for row in (fedavg, smofi, slow)] == [1.0, 2.5, None]
    assert [row.best_std for row in (fedavg, smofi, slow)] == [None] * 3
    assert [row.seconds for row in (fedavg, smofi, slow)] == [6.0, 9.0, 3.0]


def test_rounds_without_an_evaluation_count_as_rounds() -> None:
    """The target is 0.72: with an evaluation every third round it is seen to be reached in round 6, and in round 3."""
    fedavg = History("fedavg", [None, None, 0.60, None, None, 0.80, 0.78])
    smofi = History("smofi", [None, None, 0.85, None, None, 0.90, 0.89])
    one, other = measure([fedavg, smofi])
    assert [one.rounds, other.rounds, other.speed_up] == [6, 3, 2.0]
    assert [one.best, one.mean, one.budget] == pytest.approx([0.80, 2.18 / 3, 7])


def test_a_target_met_exactly_counts() -> None:
    # 0.9 * 0.8 is 0.7200000000000001 in binary.
    assert measure([History("fedavg", [0.71, 0.72, 0.8])])[0].rounds == 2


def test_the_share_and_a_fixed_target_can_be_chosen() -> None:
    assert [row.rounds for row in measure([FEDAVG, SMOFI], share=1.0)] == [5, 3]
    assert [row.rounds for row in measure([FEDAVG, SMOFI, SLOW], target=0.5)] == [2, 1, 5]
    assert [row.speed_up for row in measure([SMOFI, SLOW], target=0.5)] == [None, None]


def test_a_speed_up_is_against_the_bare_base() -> None:
    """The rounds of the paper's Table 1, CIFAR-10: FedProx+SMoFi is 3.09 times as fast as FedProx."""
    prox = "fedprox(mu=0.01)"
    reached = {"fedavg": 258, "smofi": 56, prox: 167, f"{prox}+smofi": 54, "fednar": 255, "fednar+smofi": 46}
    rows = measure([History(name, [0.1] * (rounds - 1) + [0.7]) for name, rounds in reached.items()])
    assert [row.base for row in rows] == ["fedavg", "fedavg", prox, prox, "fednar", "fednar"]
    assert [round(row.speed_up or 0, 2) for row in rows] == [1, 4.61, 1, 3.09, 1, 5.54]


def test_without_its_base_a_method_has_no_speed_up() -> None:
    fedavg, alone = measure([History("fedavg", [0.1, 0.8]), History("fedprox(mu=0.1)+smofi", [0.8, 0.8])])
    assert (alone.base, alone.speed_up) == (None, None)
    assert fedavg.speed_up == 1


def test_the_spread_is_over_seeds_and_unknown_for_one_or_if_one_misses() -> None:
    row = measure([History("fedavg", [0.2, 0.8], seed=0), History("fedavg", [0.4, 0.4], seed=1)])[0]
    assert (row.mean_std, row.rounds_std) == pytest.approx((0.1 / 2**0.5, 1 / 2**0.5))
    assert measure([History("fedavg", [0.2, 0.8])])[0].mean_std is None
    missed = measure([History("fedavg", [0.8]), History("smofi", [0.8]), History("smofi", [0.1], seed=1)], target=0.5)
    assert (missed[1].rounds, missed[1].rounds_std) == (None, None)


def test_rounds_without_a_result_are_passed_over_but_still_count_as_rounds() -> None:
    row = measure([History("fedavg", [None, 0.2, math.nan, 1.0])])[0]
    assert row.mean == pytest.approx(0.6)
    assert (row.best, row.rounds, row.budget) == (1.0, 4, 4)


def test_seeds_are_averaged_each_against_its_own_baseline() -> None:
    rows = measure(
        [
            History("fedavg", [0.5, 0.8], seconds=[0.5, 0.5], seed=0),
            History("fedavg", [0.35, 0.4], seconds=[1.0, 2.0], seed=1),
            History("smofi", [0.72, 0.9], seconds=[1.0, 1.0], seed=0),
            History("smofi", [0.36, 0.7], seconds=[1.0, 1.0], seed=1),
        ]
    )
    # Targets 0.72 and 0.36: fedavg in rounds 2 and 2, smofi in rounds 1 and 1.
    assert [row.rounds for row in rows] == [2, 1]
    assert [row.speed_up for row in rows] == [1, 2]
    assert [row.best for row in rows] == pytest.approx([0.6, 0.8])
    # The sample deviation of two values is their distance over sqrt(2).
    assert [row.best_std for row in rows] == pytest.approx([0.4 / 2**0.5, 0.2 / 2**0.5])
    assert [row.seconds for row in rows] == [2, 2]
    assert [row.seeds for row in rows] == [2, 2]
    assert "60.0 ± 28.3%" in shown(rows)


def test_one_seed_that_misses_is_enough() -> None:
    runs = [History("fedavg", [0.5, 1.0], seed=s) for s in (0, 1)]
    runs += [History("smofi", [0.95, 1.0], seed=0), History("smofi", [0.5, 0.6], seed=1)]
    row = measure(runs)[1]
    assert (row.rounds, row.speed_up) == (None, None)
    assert ">2" in shown(measure(runs))


def test_the_table_shows_the_numbers() -> None:
    text = shown(measure([FEDAVG, SMOFI, SLOW, History("a[b]", [0.5])]))
    for piece in (
        "digits",
        "90.0%",
        "81.3%",
        "rounds to target",
        "The target is 72.0%: 90% of fedavg's best accuracy.",
        "2.50x",
        ">6",
        "9.0",
        "a[b]",
        ">1",
    ):
        assert piece in text
    assert "seeds" not in text


def test_hours_where_there_is_a_clock() -> None:
    """The target is 0.72. FedAvg reaches it in round 2, after 3 hours; SMoFi in round 1, which takes it 4."""
    fedavg = History("fedavg", [0.5, 0.8, 0.8], hours=[1.5, 3.0, 4.5])
    smofi = History("smofi", [0.75, 0.9, 0.9], hours=[4.0, 8.0, 12.0])
    slow = History("slow", [0.1, 0.2, 0.3], hours=[1.0, 2.0, 3.25])
    rows = measure([fedavg, smofi, slow])
    assert [row.hours_to for row in rows] == [3.0, 4.0, None]
    assert [row.hours for row in rows] == [4.5, 12.0, 3.25]
    assert [row.rounds for row in rows] == [2, 1, None]
    text = shown(rows)
    assert "virtual hours to target" in text
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert [row[5:7] for row in cells] == [["3", "4.5"], ["4", "12"], [">3.25", "3.25"]]


def test_hours_of_seeds_are_averaged_and_one_that_misses_is_enough() -> None:
    runs = [History("fedavg", [0.5, 1.0], seed=seed, hours=[2.0, 4.0 + seed]) for seed in (0, 1)]
    runs += [
        History("smofi", [0.95, 1.0], seed=0, hours=[1.0, 2.0]),
        History("smofi", [0.5, 0.6], seed=1, hours=[1.0, 3.0]),
    ]
    rows = measure(runs)
    assert [(row.hours_to, row.hours) for row in rows] == [(4.5, 4.5), (None, 2.5)]


def test_short_runs_are_told_in_minutes_or_seconds() -> None:
    text = shown(measure([History("fedavg", [0.5, 0.8], hours=[0.25, 0.5])]))
    assert "virtual minutes to target" in text
    assert text.splitlines()[-3].split("│")[5].strip() == "30"
    assert "virtual seconds to target" in shown(measure([History("fedavg", [0.5, 0.8], hours=[0.001, 0.002])]))


def test_no_hours_without_a_clock() -> None:
    rows = measure([FEDAVG, SMOFI])
    assert [(row.hours_to, row.hours) for row in rows] == [(None, None)] * 2
    assert "virtual" not in shown(rows)


def test_the_baseline_is_fedavg_or_the_first_run_that_has_a_result() -> None:
    """Targets of 0.9 * 0.8 and, without FedAvg, of 0.9 * 0.9: SMoFi reaches them in rounds 2 and 3."""
    assert [row.speed_up for row in compare([SMOFI, FEDAVG])] == [2.5, 1.0]
    assert [(row.name, row.rounds, row.speed_up) for row in compare([History("fedavg", [None]), SMOFI, SLOW])] == [
        ("smofi", 3, 1.0),
        ("slow", None, None),
    ]
    assert compare([]) == compare([History("fedavg", [None, math.nan])]) == []


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        ([SMOFI], "baseline='fedavg' is not accepted: expected one of the runs: smofi"),
        ([FEDAVG, FEDAVG], "two runs are called fedavg with seed 0"),
        ([FEDAVG, History("smofi", [0.5], seed=1)], "smofi ran with seed 1, fedavg did not"),
        ([History("fedavg", [None, math.nan])], "at least one round with a number"),
    ],
)
def test_what_cannot_be_compared_is_refused(runs: list[History], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        measure(runs)


# What is judged, and what the table says of it


def judged(name: str, values: list[float], **more: Any) -> History:
    """A run that is judged by a function of the user's own, with the accuracy beside it."""
    records = [{"accuracy": 0.5 + value / 100, "metrics": {"gain": value}, "seconds": 1.0} for value in values]
    return History.of(name, records, metrics={"gain": "gain", "top1": "accuracy"}, **more)


def test_values_outside_0_to_1_are_numbers_and_further_metrics_have_columns() -> None:
    rows = compare([judged("fedavg", [-5.0, 10.0, 20.0]), judged("smofi", [15.0, 19.0, 30.0])])
    assert [row.best for row in rows] == [20.0, 30.0]
    assert [row.speed_up for row in rows] == [1.0, 1.5]
    text = " ".join(shown(rows).split())
    for piece in ("best gain", "best accuracy", "70.0%", "80.0%", "The target is 18: 90% of fedavg's best gain."):
        assert piece in text
    assert "2000" not in text


def test_below_0_the_target_is_a_tenth_below_the_best() -> None:
    """The best of -2 is missed by a tenth at -2.2, which the second round reaches."""
    (row,) = compare([judged("fedavg", [-3.0, -2.1, -2.0])])
    assert (row.target, row.rounds) == (pytest.approx(-2.2), 2)


def test_a_single_method_has_no_speed_up_and_nothing_bold() -> None:
    table = results_table(compare([SMOFI]))
    assert "speed-up" not in [str(column.header) for column in table.columns]
    assert not any("[bold]" in str(cell) for column in table.columns for cell in column.cells)
    both = results_table(compare([FEDAVG, SMOFI]))
    assert "speed-up" in [str(column.header) for column in both.columns]
    assert any("[bold]" in str(cell) for column in both.columns for cell in column.cells)


@pytest.mark.parametrize(
    ("fedavg", "smofi", "chance", "speed_up"),
    [
        ([0.50, 0.60], [0.58, 0.60], 0.5, True),  # a target of 0.54
        ([0.50, 0.60], [0.58, 0.60], 0.54, False),  # which the most frequent class reaches
        ([0.50, 0.60], [0.58, 0.60], None, True),
        ([0.58, 0.60], [0.58, 0.60], None, False),  # all reach it in their first evaluation
        ([None, 0.58, 0.60], [None, 0.58, 0.60], None, False),
    ],
)
def test_a_target_that_takes_no_training_gives_no_speed_up(
    fedavg: list[float | None], smofi: list[float | None], chance: float | None, speed_up: bool
) -> None:
    rows = compare([History("fedavg", fedavg, chance=chance), History("smofi", smofi, chance=chance)])
    assert (rows[0].speed_up is not None) == speed_up
    assert ("speed-up" in shown(rows)) == speed_up


def test_seeds_have_targets_of_their_own() -> None:
    runs = [History("fedavg", [0.5, 0.8 - seed / 10], seed=seed) for seed in (0, 1)]
    text = " ".join(shown(measure(runs)).split())
    assert "The target is 90% of fedavg's best accuracy with the same seed; ± is the standard deviation over" in text
