"""The same numbers in each format."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from smofi.cli.finished import plain
from smofi.report import History
from smofi.report.comparing.blocks import Block
from smofi.report.comparing.writing import as_text, sheets_of, written_as


def block(name: str = "partition iid", clock: bool = True) -> Block:
    """The targets are 0.72 and 0.63; FedAvg is there in round 3 with both seeds, SMoFi in rounds 2 and 1, and SlowMo
    never."""
    measured = {
        "fedavg": ([0.2, 0.6, 0.8], [0.4, 0.6, 0.7]),
        "smofi": ([0.6, 0.8, 0.9], [0.7, 0.8, 0.9]),
        "slowmo": ([0.1, 0.2, 0.3], [0.1, 0.2, 0.4]),
    }
    hours = [2.0, 4.0, 6.0] if clock else []
    histories = [
        History(method, list(values), seed=seed, hours=list(hours))
        for method, seeds in measured.items()
        for seed, values in enumerate(seeds)
    ]
    return Block.of(name, histories)


def test_text() -> None:
    text = plain(as_text(sheets_of([block()])))
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert rows[:3] == [
        ["fedavg", "75.00 ± 7.07", "55.00 ± 2.36", "3", "1.00x", "6", "6", "2"],
        ["+ slowmo", "35.00 ± 7.07", "21.67 ± 2.36", ">3", "-", ">6", "6", "2"],
        ["+ smofi", "90.00 ± 0.00", "78.33 ± 2.36", "1.5", "2.00x", "3", "6", "2"],
    ]
    assert rows[4] == ["smofi", "+23.33 [+23.33, +23.33]", "+15.00 [-48.53, +78.53]", "2"]
    assert "The target is 90% of fedavg's best with the same seed" in " ".join(text.split())
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
    text = written_as("latex", [block(), block("partition shards(2)")])
    assert text.count(r"\begin{tabular}{lccccccc}") == 1  # both setups
    assert r"\multicolumn{8}{l}{\textit{partition shards(2)}} \\" in text
    assert (
        r"FedAvg & 75.00{\scriptsize$\pm$7.07} & 55.00{\scriptsize$\pm$2.36} & 3 & 1.00$\times$ & 6 & 6 & 2 \\" in text
    )
    assert (
        r"+ SMoFi & \textbf{90.00{\scriptsize$\pm$0.00}} & \textbf{78.33{\scriptsize$\pm$2.36}} & \textbf{1.5} & "
        in text
    )
    assert r"+ SlowMo & 35.00{\scriptsize$\pm$7.07} & 21.67{\scriptsize$\pm$2.36} & $>$3 & - & $>$6 & 6 & 2 \\" in text
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 2
    assert text.count("{") == text.count("}")
    assert text.count("$") % 2 == 0
    for row in re.findall(r"^(?!\\|%).*\\\\$", text, flags=re.MULTILINE):
        assert row.count(" & ") in (7, 3), row  # as many cells as columns


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path: Path) -> None:
    body = written_as("latex", [block("a_b & 50%")])
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + body + "\\end{document}"
    (tmp_path / "page.tex").write_text(page)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_latex_takes_for_its_own_is_written_so_that_it_prints() -> None:
    assert r"\textit{a\_b \& 50\% \$x\^{}" not in written_as("latex", [block("a_b & 50%")])
    assert r"\textit{a\_b \& 50\%}" in written_as("latex", [block("a_b & 50%")])


def test_csv() -> None:
    rows = list(csv.DictReader(io.StringIO(written_as("csv", [block(), block("other", clock=False)]))))
    assert [(row["setup"], row["method"]) for row in rows[:4]] == [
        ("partition iid", "fedavg"),
        ("partition iid", "slowmo"),
        ("partition iid", "smofi"),
        ("other", "fedavg"),
    ]
    smofi = rows[2]
    assert {name: float(smofi[name]) for name in ("best", "mean", "rounds", "speed_up", "hours_to", "hours")} == (
        pytest.approx({"best": 0.9, "mean": 4.7 / 6, "rounds": 1.5, "speed_up": 2.0, "hours_to": 3.0, "hours": 6.0})
    )
    assert float(smofi["mean_gain"]) == pytest.approx(0.7 / 3)
    assert (rows[1]["rounds"], rows[1]["speed_up"], rows[3]["hours"]) == ("", "", "")


def test_csv_of_runs() -> None:
    rows = list(csv.DictReader(io.StringIO(written_as("csv", [block()], per_seed=True))))
    assert [(row["method"], row["seed"], row["rounds"]) for row in rows] == [
        ("fedavg", "0", "3"),
        ("fedavg", "1", "3"),
        ("slowmo", "0", ""),
        ("slowmo", "1", ""),
        ("smofi", "0", "2"),
        ("smofi", "1", "1"),
    ]
    assert [float(row["target"]) for row in rows[:2]] == pytest.approx([0.72, 0.63])


def test_a_plugin_without_its_base_has_its_whole_name() -> None:
    histories = [History("fedavg", [0.5]), History("fedprox(mu=0.01)+smofi", [0.6])]
    text = written_as("markdown", [Block.of("", histories)])
    assert "| FedProx + SMoFi | **60.00** |" in text
    assert "One seed has no interval" not in text  # nothing is compared


def test_differences_name_the_base_which_has_no_row_there() -> None:
    names = ["fedavg", "smofi", "fednar", "fednar+smofi"]
    results, differences = sheets_of([Block.of("", [History(name, [0.5]) for name in names])])
    assert [line.name for group in results.groups for line in group] == ["fedavg", "+ smofi", "fednar", "+ smofi"]
    assert [(line.name, line.title) for group in differences.groups for line in group] == [
        ("smofi", "SMoFi"),
        ("fednar+smofi", "FedNAR + SMoFi"),
    ]


def test_the_best_is_that_of_methods_with_as_many_seeds() -> None:
    seeds = [History(name, [value], seed=seed) for name, value in (("fedavg", 0.5), ("smofi", 0.6)) for seed in (0, 1)]
    text = written_as("markdown", [Block.of("", [*seeds, History("slowmo", [0.9])])])
    assert "| + SMoFi | **60.00 ± 0.00** |" in text
    assert "| + SlowMo | 90.00 | 90.00 |" in text
