"""The paper's measures of histories, and differences over seeds."""

from __future__ import annotations

import pytest

from smofi.errors import InputError
from smofi.report import History
from smofi.report.comparing.blocks import Block, interval, paired, student_t
from smofi.report.comparing.formats import Target

BASES = {"fedavg": "", "fedprox(mu=0.01)": "fedprox(mu=0.01)+", "fednar": "fednar+"}
PLUGINS = ("fedavgm(momentum=0.3)", "slowmo(lr=0.5, momentum=0.4)", "fednag", "smofi")
TABLE_1 = {  # CIFAR-10: accuracy in percent, rounds, speed-up; the base, then FedAvgM, SlowMo, FedNAG, SMoFi
    "fedavg": [(77.16, 258, 1.00), (79.19, 190, 1.36), (76.54, 177, 1.46), (78.24, 170, 1.52), (81.82, 56, 4.61)],
    "fedprox(mu=0.01)": [
        (77.38, 167, 1.00),
        (79.26, 207, 0.81),
        (76.63, 210, 0.80),
        (77.59, 200, 0.84),
        (81.99, 54, 3.09),
    ],
    "fednar": [(77.21, 255, 1.00), (79.21, 190, 1.34), (76.71, 199, 1.28), (77.94, 199, 1.28), (81.65, 46, 5.54)],
}


def table_1() -> dict[str, tuple[float, int, float]]:
    return {
        (BASES[base] + plugin if plugin else base): numbers
        for base, column in TABLE_1.items()
        for plugin, numbers in zip(("", *PLUGINS), column, strict=True)
    }


def test_the_papers_first_table() -> None:
    """Its accuracies and rounds give its speed-ups: 3.09 for FedProx with SMoFi, which against FedAvg were 4.78."""
    paper = table_1()
    histories = []
    for name, (accuracy, rounds, _) in paper.items():
        values: list[float | None] = [0.1] * (rounds - 1) + [accuracy / 100] * (301 - rounds)
        histories.append(History(name, values))
    block = Block.of("CIFAR-10", histories)
    assert {name: row.rounds for name, row in block.rows.items()} == {name: one[1] for name, one in paper.items()}
    for name, (_, _, speed_up) in paper.items():
        assert block.rows[name].speed_up == pytest.approx(speed_up, abs=0.0051), name
    assert f"{block.rows['fedprox(mu=0.01)+smofi'].speed_up:.2f}" == "3.09"
    assert [(base, len(names)) for base, names in block.groups] == [(base, 5) for base in BASES]


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (29, 2.0452), (1000, 1.9623)]
)
def test_students_t_as_it_stands_in_tables(degrees: int, expected: float) -> None:
    assert student_t(degrees) == pytest.approx(expected, abs=5e-5)


def test_an_interval_by_hand() -> None:
    """Differences 1, 2 and 6: mean 3, variance (4 + 1 + 9) / 2 = 7, so 4.3027 * sqrt(7 / 3) to either side."""
    mean, low, high = interval([1.0, 2.0, 6.0])
    assert low is not None
    assert high is not None
    assert mean == 3
    assert [mean - low, high - mean] == pytest.approx([4.3027 * (7 / 3) ** 0.5] * 2, abs=1e-3)
    assert interval([2.0]) == (2.0, None, None)


def test_differences_are_taken_seed_by_seed_over_those_that_both_have() -> None:
    """Seeds differ by much, the methods by 0.1 with each of them: the difference is known well."""
    base = [History("fedavg", [0.2 + seed / 10, 0.4 + seed / 10], seed=seed) for seed in (0, 1, 2)]
    method = [History("smofi", [0.3 + seed / 10, 0.6 + seed / 10], seed=seed) for seed in (2, 1, 7)]
    found = paired(method, base)
    assert found is not None
    assert (found.base, found.seeds) == ("fedavg", (1, 2))
    assert found.best == pytest.approx((0.2, 0.2, 0.2))
    assert found.mean == pytest.approx((0.15, 0.15, 0.15))
    assert paired(method[-1:], base) is None


def test_a_plugin_is_compared_with_its_bare_base() -> None:
    values = {"fedavg": 0.5, "fednar": 0.6, "fednar+smofi": 0.7, "sflv2": 0.4}
    block = Block.of("", [History(name, [value]) for name, value in values.items()])
    found = {name: (one.base, round(one.best.mean, 6)) for name, one in block.paired.items()}
    assert found == {"fednar+smofi": ("fednar", 0.1), "sflv2": ("fedavg", -0.1)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.9", Target(0.9)),
        ("1.0", Target(1.0)),
        ("1", Target(1.0)),
        ("70%", Target(fixed=0.7)),
        ("43 %", Target(fixed=0.43)),
    ],
)
def test_targets_as_they_are_written(text: str, expected: Target) -> None:
    assert Target.read(text) == expected


@pytest.mark.parametrize("text", ["70", "0", "-1", "0%", "101%", "high", "", "nan", "%"])
def test_other_targets_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not accepted: expected a share of the baseline's best"):
        Target.read(text)


def test_the_target_may_be_all_of_the_best_or_fixed() -> None:
    histories = [History("fedavg", [0.5, 0.72, 0.8]), History("smofi", [0.72, 0.8, 0.9])]
    rounds = [
        [row.rounds for row in Block.of("", histories, Target.read(text)).rows.values()]
        for text in ("0.9", "1.0", "85%")
    ]
    assert rounds == [[2, 1], [3, 2], [None, 3]]


def test_a_seed_without_its_baseline_is_left_out_and_said() -> None:
    histories = [History("fedavg", [0.8]), History("smofi", [0.9]), History("smofi", [0.1], seed=1)]
    block = Block.of("", histories)
    assert block.rows["smofi"].best == 0.9
    assert block.incomplete == {"smofi"}
    (note,) = block.notes
    assert note == "smofi with seed 1 is left out: fedavg has no finished run with that seed, and so no target"
    fixed = Block.of("", histories, Target(fixed=0.5))
    assert fixed.rows["smofi"].seeds == 2
    assert fixed.notes == ["smofi has seeds 0, 1, fedavg has seed 0: the speed-up is over the seeds that both have"]


def test_a_speed_up_is_over_the_seeds_that_both_have() -> None:
    """FedAvg needs 2 rounds with seed 0 and 4 with seed 1, SMoFi 4 with seed 1: as fast, not 3 / 4 as fast."""
    histories = [
        History("fedavg", [0.5, 0.8]),
        History("fedavg", [0.5, 0.5, 0.5, 0.8], seed=1),
        History("smofi", [0.5, 0.5, 0.5, 0.8], seed=1),
        History("fedprox(mu=0.1)", [0.8]),
        History("fedprox(mu=0.1)+smofi", [0.8], seed=1),
    ]
    rows = Block.of("", histories).rows
    assert (rows["fedavg"].rounds, rows["smofi"].rounds, rows["smofi"].speed_up) == (3, 4, 1)
    assert rows["fedprox(mu=0.1)+smofi"].speed_up is None  # no seed in common


def test_without_the_baseline_there_is_no_target() -> None:
    block = Block.of("", [History("smofi", [0.5, 0.9]), History("slowmo", [0.5, 0.8])])
    assert [row.rounds for row in block.rows.values()] == [None, None]
    assert "There is no target, since fedavg has no finished run here" in block.notes[0]
    other = Block.of("", [History("smofi", [0.5, 0.9]), History("slowmo", [0.5, 0.82])], baseline="slowmo")
    assert [row.rounds for row in other.rows.values()] == [2, 2]
    assert other.rows["smofi"].speed_up == 1
