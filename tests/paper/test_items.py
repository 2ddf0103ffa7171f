"""Items as data: their runs could all start, their claims speak of lines that are there, the paper's numbers add up."""

import csv
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from paper.__main__ import check_cell
from paper.items import HERE, ITEMS, SCALES, published
from smofi.config import Config
from smofi.errors import InputError
from smofi.sweep.store import Cell

RUNS = {
    "fig-momentum": (4, 4),
    "table1": (15, 45),
    "table2": (8, 24),
    "fig-alpha": (7, 21),
    "fig-cut": (5, 25),
    "fig-optimizers": (15, 20),
    "fig-models": (20, 35),
    "fig-beta": (11, 33),
    "ablation": (4, 12),
    "table-distributions": (10, 30),
    "table-participation": (15, 15),
    "table-text-audio": (10, 10),
    "cifar10-depth": (12, 12),
    "partition": (30, 30),
    "staleness": (12, 12),
    "many-classes": (6, 6),
    "wire": (5, 5),
}
"""Of one seed, at each scale."""


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_has_these_runs_and_every_one_could_start(name: str) -> None:
    for scale, runs in zip(SCALES, RUNS[name], strict=True):
        panels = ITEMS[name].at(scale)
        cells = {cell.key: (cell, panel) for panel in panels for cell in panel.cells([0]).values()}
        assert len(cells) == runs
        for cell, panel in cells.values():
            check_cell(cell, panel)


def test_claims_speak_of_lines_and_panels_that_are_there() -> None:
    for item in ITEMS.values():
        panels = item.at("small")
        labels = {line.label for panel in panels for line in panel.lines}
        for claim in item.claims:
            assert bool(claim.checks) != bool(claim.why)
            for check in claim.checks:
                assert {check.line, *check.of, check.over or check.line} <= labels
                assert {check.panel or 0, *check.than} <= set(range(len(panels)))


def test_fedavg_is_run_once_for_all_items_on_the_same_data() -> None:
    shared = [ITEMS[name].at("small")[0] for name in ("table1", "fig-alpha", "fig-cut", "ablation")]
    assert len({panel.cells([0])[panel.baseline, 0].key for panel in shared}) == 1


def test_a_cut_that_the_model_does_not_have_is_refused() -> None:
    (panel,) = ITEMS["fig-cut"].at("small")
    cell = panel.cells([0])[panel.baseline, 0]
    wrong = Cell(cell.config.model_copy(update={"cut": "9"}), "wrong")
    with pytest.raises(InputError, match=r"^wrong: cut='9' is not accepted: expected 0 <= L <= 3"):
        check_cell(wrong, panel)


def test_the_methods_and_rounds_are_those_of_the_preset() -> None:
    for item, scale in (("table1", "paper"), ("table-text-audio", "paper"), ("table-text-audio", "small")):
        for panel in ITEMS[item].at(scale):
            assert Config(method=tuple(line.method for line in panel.lines[:5])).method == Config(**panel.base).method
    assert [panel.base["rounds"] for panel in ITEMS["table1"].at("paper")] == [1000, 600, 400]


# --------------------------------------------------------------------------------------------------------------------
# The paper's numbers, against the paper's own source where it is at hand.

SOURCE = Path(__file__).resolve().parents[3] / "shared/paper/smofi-paper.tex"
TABLES = {"table1": (3, 15), "table2": (3, 5), "distributions": (6, 5), "participation": (3, 5), "text-audio": (2, 5)}
"""Setups and methods."""


def rows_of(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader((HERE / f"published/{table}.csv").read_text(encoding="utf-8").splitlines()))


def number(text: str) -> str:
    """A cell of LaTeX without its markup."""
    for markup in (r"\\scriptsize", r"\\textbf", r"\\rowcolor\{.*?\}", r"\\times", r"[{}$\s]"):
        text = re.sub(markup, "", text)
    return text


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not at hand")
@pytest.mark.parametrize("table", TABLES)
def test_every_number_is_that_of_the_paper(table: str) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    rows = rows_of(table)
    (label,) = {row["source"] for row in rows}
    end = text.index(rf"\label{{{label}}}")
    inside = text[text.rindex(r"\begin{tabular}", 0, end) : end]
    printed = []
    for line in inside.split(r"\\"):
        if r"\pm" in line:
            _, *cells = (cell for cell in re.sub(r"\\rowcolor\{.*?\}", "", line).split("&") if cell.strip())
            printed.append([part.strip("x") for cell in cells for part in re.split(r"\\pm|/", number(cell)) if part])
    blocks: dict[str, list[str]] = {}  # a row of the paper has one method in three setups, or in two
    for row in rows:
        block = blocks.setdefault(row["method"] + ("IID" if "IID" in row["setup"] else ""), [])
        block += [row[name] for name in ("accuracy", "std", "rounds", "speed_up", "hours") if row[name]]
    assert sorted(blocks.values()) == sorted(printed)


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_complete_and_speed_ups_follow_from_rounds(table: str) -> None:
    """R up = R(base) / R, to two decimals: all of them do."""
    rows = {(row["setup"], row["method"]): row for row in rows_of(table)}
    assert rows.keys() == published(table).keys()
    setups, methods = {setup for setup, _ in rows}, {method for _, method in rows}
    assert (len(setups), len(methods)) == TABLES[table]
    assert len(rows) == len(setups) * len(methods)
    for (setup, method), row in rows.items():
        if row["speed_up"]:
            ratio = Decimal(rows[setup, method.partition(" + ")[0]]["rounds"]) / Decimal(row["rounds"])
            assert ratio.quantize(Decimal("0.01"), ROUND_HALF_UP) == Decimal(row["speed_up"]), (setup, method)
