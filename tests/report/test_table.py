"""The table of results, on the terminal and in each format; what counts in it, and names that are never broken."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from smofi.cli.finished import plain
from smofi.errors import InputError
from smofi.report.asked import Target
from smofi.report.names import folded
from smofi.report.results import History, compare, measure
from smofi.report.table import MOST_CLIENTS, Block, as_text, clients_table, results_table, sheets_of, written_as

RUNS = [
    History("fedavg", [0.2, 0.4, 0.8], seconds=[1.0] * 3, seed=0),
    History("smofi", [0.5, 0.8, 0.9], seconds=[2.0] * 3, seed=0),
    History("fedavg", [0.4, 0.6, 0.6], seconds=[1.0] * 3, seed=1),
    History("smofi", [0.6, 0.8, 0.8], seconds=[2.0] * 3, seed=1),
]


def text_of(shown: Any, width: int = 150) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def cells_of(text: str) -> list[list[str]]:
    lines = [line for line in text.replace("┃", "│").splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


# ------------------------------------------------------------------------------------------------------- the terminal


def test_the_table_leads_with_the_mean_over_rounds() -> None:
    """By hand: fedavg's means are 1.4/3 and 1.6/3, so 50.0 ± 4.7 %. The targets are 0.72 and 0.54: fedavg gets there in
    rounds 3 and 2, smofi in 2 and 1."""
    text = text_of(results_table(compare(RUNS), title="digits"))
    names = ["method", "mean over rounds", "best accuracy", "rounds to target", "seed by seed", "speed-up"]
    assert cells_of(text) == [
        [*names, "seconds a run"],
        ["fedavg", "50.0 ± 4.7%", "70.0 ± 14.1%", "2.5", "3, 2", "1.00x", "3.0"],
        ["smofi", "73.3 ± 0.0%", "85.0 ± 7.1%", "1.5", "2, 1", "1.67x", "6.0"],
    ]
    assert text.splitlines()[-1].strip() == (
        "The target is 90% of fedavg's best accuracy with the same seed; ± is the standard deviation over 2 seeds."
    )
    missed = [History("slow", [0.1, value], seed=seed) for seed, value in enumerate((0.8, 0.2))]
    assert "2, >2" in text_of(results_table(compare([*RUNS, *missed])))


def test_a_single_seed_and_a_single_method_have_no_more_than_they_need() -> None:
    one = results_table(compare(RUNS[:2]))
    assert [str(column.header) for column in one.columns] == [
        *("method", "mean over rounds", "best accuracy", "rounds to target", "speed-up", "seconds a run")
    ]
    assert "±" not in text_of(one)
    assert one.caption == "The target is 72.0%: 90% of fedavg's best accuracy."
    bold = [
        [cell.style for column in table.columns[1:] for cell in column.cells if isinstance(cell, Text)]
        for table in (results_table(compare(RUNS[1:2])), one)
    ]
    assert [("bold" in styles) for styles in bold] == [False, True]
    assert "speed-up" not in text_of(results_table(compare(RUNS[1:2])))


def test_hours_where_there_is_a_clock() -> None:
    """The target is 0.72. FedAvg reaches it in round 2, after 3 hours; SMoFi in round 1, which takes it 4."""
    fedavg = History("fedavg", [0.5, 0.8, 0.8], hours=[1.5, 3.0, 4.5])
    smofi = History("smofi", [0.75, 0.9, 0.9], hours=[4.0, 8.0, 12.0])
    slow = History("slow", [0.1, 0.2, 0.3], hours=[1.0, 2.0, 3.25])
    heading, *rows = cells_of(text_of(results_table(measure([fedavg, smofi, slow]))))
    assert heading[5:7] == ["virtual hours to target", "virtual hours"]
    assert [row[5:7] for row in rows] == [["3", "4.5"], ["4", "12"], [">3.25", "3.25"]]
    assert "virtual minutes to target" in text_of(
        results_table(measure([History("fedavg", [0.5, 0.8], hours=[0.25, 0.5])]))
    )


def test_further_metrics_have_columns_and_bases_are_named_where_they_differ() -> None:
    def judged(name: str, values: list[float]) -> History:
        records = [{"accuracy": 0.5 + value / 100, "metrics": {"gain": value}} for value in values]
        return History.of(name, records, metrics={"gain": "gain", "top1": "accuracy"})

    text = text_of(results_table(compare([judged("fedavg", [-5.0, 10.0, 20.0]), judged("a[b]", [15.0, 19.0, 30.0])])))
    heading, _, row = cells_of(text)
    assert heading[2:4] == ["best gain", "best accuracy"]
    assert row[:4] == ["a[b]", "21.33", "30", "80.0%"]
    assert "The target is 18: 90% of fedavg's best gain." in text
    prox = [History("fedprox(mu=0.1)", [0.3, 0.6, 0.8]), History("fedprox(mu=0.1)+smofi", [0.6, 0.8, 0.8])]
    text = " ".join(text_of(results_table(compare([*RUNS[:2], *prox]))).split())
    assert "A speed-up is against the bare base: that of fedprox(mu=0.1)+smofi is fedprox(mu=0.1)." in text


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("hours", [[], [1.0, 2.0, 3.0]])
def test_no_word_is_broken_and_no_line_too_wide(width: int, hours: list[float]) -> None:
    names = ["fedavg", "fedprox(mu=0.01)+smofi(alpha=-0.5)", "fedavgm(lr=1.0, momentum=0.3)", "mergesfl"]
    histories = [
        History(name, [0.5, 0.7, 0.8 + seed / 50], seconds=[100.0] * 3, hours=hours, seed=seed)
        for name in names
        for seed in (0, 1)
    ]
    text = text_of(results_table(measure(histories)), width)
    words = text.replace("│", " ").replace("┃", " ").split()
    assert max(map(len, text.splitlines())) <= width
    for name in names:
        assert all(any(part in word for word in words) for part in re.split(r"(?<=[(+])|, ", name))
    assert {"method", "best", "mean", "rounds", "speed-up", "seconds"} <= set(words)
    assert "81.0 ± 1.4%" in text


def test_a_name_is_broken_after_plus_comma_and_bracket_only() -> None:
    name = "fedavgm(lr=1e+20, momentum=0.9)+smofi"
    for width in range(1, 50):
        lines = folded(name, width)
        assert "".join(lines).replace(" ", "") == name.replace(" ", "")
        assert all(line[-1] in "+,(" for line in lines[:-1])


def test_clients_have_a_column_for_each_method_the_worst_above() -> None:
    def shown(metrics: dict[str, str], *values: Any) -> tuple[str, list[list[str]]]:
        runs = [History.of(f"method {n}", [{"metrics": {"per_client": v}}], 0, metrics) for n, v in enumerate(values)]
        group = clients_table(runs)
        assert group is not None
        heading, table = group.renderables
        assert isinstance(heading, Text)
        assert isinstance(table, Table)
        return heading.plain, [[str(cell) for cell in column.cells] for column in table.columns]

    heading, columns = shown({"per_client": "mean"}, {"a": 0.5, "b": None, "c": 0.25}, {"a": 1.0, "b": None, "c": 0.75})
    assert heading == "accuracy of each client on its own test data, at the latest evaluation"
    assert columns == [["c", "a", "b"], ["25.0%", "50.0%", "-"], ["75.0%", "100.0%", "-"]]
    heading, columns = shown({"per_client": "mean (on training data)"}, [number / 100 for number in range(100)])
    assert heading.startswith("accuracy of each client on its training data")
    assert heading.endswith("; 20 of 100, evenly chosen")
    assert (len(columns[0]), columns[0][0], columns[0][-1]) == (MOST_CLIENTS, "0", "99")
    assert clients_table([History("smofi", [0.5])]) is None


# --------------------------------------------------------------------------------------------------- what it is made of


@pytest.mark.parametrize("text", ["70", "0", "-1", "0%", "101%", "high", "", "nan", "%"])
def test_targets_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not accepted: expected a share of the baseline's best"):
        Target.read(text)


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


# ------------------------------------------------------------------------------------------------------- the formats


def block(name: str = "partition iid", clock: bool = True) -> Block:
    """The targets are 0.72 and 0.63; FedAvg is there in round 3 with both seeds, SMoFi in rounds 2 and 1, and SlowMo
    never."""
    measured = {
        "fedavg": ([0.2, 0.6, 0.8], [0.4, 0.6, 0.7]),
        "smofi": ([0.6, 0.8, 0.9], [0.7, 0.8, 0.9]),
        "slowmo": ([0.1, 0.2, 0.3], [0.1, 0.2, 0.4]),
    }
    hours = [2.0, 4.0, 6.0] if clock else []
    return Block.of(
        name,
        [
            History(method, list(values), seed=seed, hours=list(hours))
            for method, seeds in measured.items()
            for seed, values in enumerate(seeds)
        ],
    )


def test_text() -> None:
    text = plain(as_text(sheets_of([block()])))
    assert [row for row in cells_of(text) if row[0] not in ("", "method")] == [
        ["fedavg", "75.00 ± 7.07", "55.00 ± 2.36", "3", "1.00x", "6", "6", "2"],
        ["+ slowmo", "35.00 ± 7.07", "21.67 ± 2.36", ">3", "-", ">6", "6", "2"],
        ["+ smofi", "90.00 ± 0.00", "78.33 ± 2.36", "1.5", "2.00x", "3", "6", "2"],
        ["slowmo", "-33.33 [-33.33, -33.33]", "-40.00 [-167.06, +87.06]", "2"],
        ["smofi", "+23.33 [+23.33, +23.33]", "+15.00 [-48.53, +78.53]", "2"],
    ]
    assert "The target is 90% of fedavg's best accuracy with the same seed" in " ".join(text.split())
    assert "With 2 seeds the interval is wide: t is 12.7" in " ".join(text.split())


def test_markdown() -> None:
    lines = written_as("markdown", [block(clock=False)]).splitlines()
    assert lines[:3] == ["<!-- Made by smofi compare -->", "", "**partition iid**"]
    assert lines[4:9] == [
        "| method | best accuracy (%) | mean over rounds (%) | rounds to target | speed-up | seeds |",
        "|---|---:|---:|---:|---:|---:|",
        "| FedAvg | 75.00 ± 7.07 | 55.00 ± 2.36 | 3 | 1.00x | 2 |",
        "| + SlowMo | 35.00 ± 7.07 | 21.67 ± 2.36 | >3 | - | 2 |",
        "| + SMoFi | **90.00 ± 0.00** | **78.33 ± 2.36** | **1.5** | **2.00x** | 2 |",
    ]


def test_latex() -> None:
    text = written_as("latex", [block(), block("partition a_b & 50%")])
    assert text.count(r"\begin{tabular}{lccccccc}") == 1  # both setups
    assert r"\multicolumn{8}{l}{\textit{partition a\_b \& 50\%}} \\" in text
    for row in (
        r"FedAvg & 75.00{\scriptsize$\pm$7.07} & 55.00{\scriptsize$\pm$2.36} & 3 & 1.00$\times$ & 6 & 6 & 2 \\",
        r"+ SMoFi & \textbf{90.00{\scriptsize$\pm$0.00}} & \textbf{78.33{\scriptsize$\pm$2.36}} & \textbf{1.5} & ",
        r"+ SlowMo & 35.00{\scriptsize$\pm$7.07} & 21.67{\scriptsize$\pm$2.36} & $>$3 & - & $>$6 & 6 & 2 \\",
    ):
        assert row in text
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    for row in re.findall(r"^(?!\\|%).*\\\\$", text, flags=re.MULTILINE):
        assert len(re.findall(r"(?<!\\) ?& ", row)) in (7, 3), row  # as many cells as columns


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(written_as("csv", [block(), block("other", clock=False)]))))
    assert [(row["setup"], row["method"]) for row in rows[2:4]] == [("partition iid", "smofi"), ("other", "fedavg")]
    smofi = rows[2]
    assert {name: float(smofi[name]) for name in ("best", "mean", "rounds", "speed_up", "hours_to", "hours")} == (
        pytest.approx({"best": 0.9, "mean": 4.7 / 6, "rounds": 1.5, "speed_up": 2.0, "hours_to": 3.0, "hours": 6.0})
    )
    assert float(smofi["mean_gain"]) == pytest.approx(0.7 / 3)
    assert (rows[1]["rounds"], rows[1]["speed_up"], rows[3]["hours"]) == ("", "", "")
    runs = list(csv.DictReader(io.StringIO(written_as("csv", [block()], per_seed=True))))
    assert [(row["method"], row["seed"], row["rounds"]) for row in runs[2:]] == [
        ("slowmo", "0", ""), ("slowmo", "1", ""), ("smofi", "0", "2"), ("smofi", "1", "1")
    ]  # fmt: skip
    assert [float(row["target"]) for row in runs[:2]] == pytest.approx([0.72, 0.63])


def test_a_plugin_has_a_plus_only_below_its_base() -> None:
    histories = [History("fedavg", [0.5]), History("fedprox(mu=0.01)+smofi", [0.6])]
    assert "| FedProx + SMoFi | **60.00** |" in written_as("markdown", [Block.of("", histories)])
    names = ["fedavg", "smofi", "fednar", "fednar+smofi"]
    results, differences = sheets_of([Block.of("", [History(name, [0.5]) for name in names])])
    assert [line.name for group in results.groups for line in group] == ["fedavg", "+ smofi", "fednar", "+ smofi"]
    named = [(line.name, line.title) for group in differences.groups for line in group]
    assert named == [("smofi", "SMoFi"), ("fednar+smofi", "FedNAR + SMoFi")]


def test_the_best_is_that_of_methods_with_as_many_seeds() -> None:
    seeds = [History(name, [value], seed=seed) for name, value in (("fedavg", 0.5), ("smofi", 0.6)) for seed in (0, 1)]
    text = written_as("markdown", [Block.of("", [*seeds, History("slowmo", [0.9])])])
    assert "| + SMoFi | **60.00 ± 0.00** |" in text
    assert "| + SlowMo | 90.00 | 90.00 |" in text
