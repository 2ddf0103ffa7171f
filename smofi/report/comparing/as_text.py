"""The table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from smofi.report.comparing.sheets import Line, Sheet
from smofi.report.names import Name, NamesTable


def as_text(sheets: Sequence[Sheet]) -> RenderableType:
    """All sheets below each other, with what is said of each."""
    parts: list[RenderableType] = []
    for sheet in sheets:
        parts += [_table(sheet), *(Text(note, style="dim") for note in (sheet.about, *sheet.notes) if note), Text("")]
    return Group(*parts[:-1])


def _table(sheet: Sheet) -> Table:
    drawn = NamesTable(title=Text(sheet.title), title_justify="left")
    drawn.add_column("method")
    for heading in sheet.columns:
        drawn.add_column(Text(heading), justify="right")
    for group in sheet.groups:
        for line in group:
            drawn.add_row(Name(line.name), *_cells(line), end_section=line is group[-1])
    return drawn


def _cells(line: Line) -> list[Text]:
    return [Text(str(cell), style="bold" if cell.best else "") for cell in line.cells]
