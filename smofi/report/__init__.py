"""What is known about runs, for people: tables and curves on the terminal, pictures in files.

Internal: may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.curves import NARROWEST, draw_curves, save_curves
    from smofi.report.history import History
    from smofi.report.measures import Row, compare, measure
    from smofi.report.table import results_table
else:
    load_later(
        __name__,
        curves="NARROWEST draw_curves save_curves",
        history="History",
        measures="Row compare measure",
        table="results_table",
    )

__all__ = ["NARROWEST", "History", "Row", "compare", "draw_curves", "measure", "results_table", "save_curves"]
