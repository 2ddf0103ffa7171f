"""Show what is known about runs to people: tables and curves on the terminal, pictures in files.

Internal: may change without notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.curves import NARROWEST, draw_curves
    from smofi.report.figures import save_curves
    from smofi.report.results import History, Row, compare, measure
    from smofi.report.table import results_table
else:
    load_later(
        __name__,
        curves="NARROWEST draw_curves",
        figures="save_curves",
        results="History Row compare measure",
        table="results_table",
    )

__all__ = ["NARROWEST", "History", "Row", "compare", "draw_curves", "measure", "results_table", "save_curves"]
