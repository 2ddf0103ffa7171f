"""Blocks in one of the formats."""

from __future__ import annotations

from collections.abc import Sequence

from smofi.report.comparing.as_csv import as_csv
from smofi.report.comparing.as_latex import as_latex
from smofi.report.comparing.as_markdown import as_markdown
from smofi.report.comparing.blocks import Block
from smofi.report.comparing.formats import MADE
from smofi.report.comparing.sheets import Sheet, differences_sheet, results_sheet


def sheets_of(blocks: Sequence[Block]) -> list[Sheet]:
    """The results of every setup, then the differences in every setup."""
    differences = [differences_sheet(block) for block in blocks]
    return [*map(results_sheet, blocks), *(sheet for sheet in differences if sheet is not None)]


def written_as(form: str, blocks: Sequence[Block], *, per_seed: bool = False) -> str:
    """The whole table as the content of a file: Markdown, LaTeX or CSV."""
    if form == "csv":
        return as_csv(blocks, per_seed=per_seed)
    if form == "latex":
        return as_latex(sheets_of(blocks))
    return f"<!-- {MADE} -->\n\n{as_markdown(sheets_of(blocks))}"
