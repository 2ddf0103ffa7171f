"""The paper's numbers that ship with the package, against the paper's own source where it is at hand."""

import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest

from smofi.reproduce.tables import TABLES, Published, published

SOURCE = Path(__file__).resolve().parents[2].parent / "shared/paper/smofi-paper.tex"
SETUPS = 3, 3, 6, 3, 2
METHODS = 15, 5, 5, 5, 5


def number(text: str) -> str:
    """A cell of LaTeX without its markup."""
    for markup in (r"\\scriptsize", r"\\textbf", r"\\rowcolor\{.*?\}", r"\\times", r"[{}$\s]"):
        text = re.sub(markup, "", text)
    return text


def numbers_of(rows: list[Published]) -> list[str]:
    """A row of the paper's table as the numbers that stand in it, setup after setup."""
    return [part for row in rows for part in (row.accuracy, row.std, row.rounds, row.speed_up, row.hours) if part]


@pytest.mark.skipif(not SOURCE.exists(), reason="the paper's source is not at hand")
@pytest.mark.parametrize("table", TABLES)
def test_every_number_is_that_of_the_paper(table: str) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    rows = list(published(table).values())
    (label,) = {row.source for row in rows}
    end = text.index(rf"\label{{{label}}}")
    inside = text[text.rindex(r"\begin{tabular}", 0, end) : end]
    printed = []
    for line in inside.split(r"\\"):
        if r"\pm" not in line:
            continue
        _, *cells = (cell for cell in re.sub(r"\\rowcolor\{.*?\}", "", line).split("&") if cell.strip())
        printed.append([part.strip("x") for cell in cells for part in re.split(r"\\pm|/", number(cell)) if part])
    blocks: dict[str, list[Published]] = {}  # a row of the paper has one method in three setups, or in two
    for row in rows:
        blocks.setdefault(row.method + ("IID" if "IID" in row.setup else ""), []).append(row)
    assert sorted(map(numbers_of, blocks.values())) == sorted(printed)


@pytest.mark.parametrize(("table", "setups", "methods"), list(zip(TABLES, SETUPS, METHODS, strict=True)))
def test_tables_are_complete(table: str, setups: int, methods: int) -> None:
    rows = published(table)
    assert len({setup for setup, _ in rows}) == setups
    assert len({method for _, method in rows}) == methods
    assert len(rows) == setups * methods


def test_the_papers_speed_ups_follow_from_its_rounds() -> None:
    """R up = R(base) / R, to two decimals: all of them do."""
    off = []
    for table in TABLES:
        rows = published(table)
        for (setup, method), row in rows.items():
            if row.speed_up:
                base = rows[setup, method.partition(" + ")[0]]
                ratio = (Decimal(base.rounds) / Decimal(row.rounds)).quantize(Decimal("0.01"), ROUND_HALF_UP)
                off += [(table, setup, method)] if ratio != Decimal(row.speed_up) else []
    assert off == []
