"""What the programs use of smofi's report, which is internal. Apart from internals.py, for it loads matplotlib."""

from smofi.report import History, measure, results_table, save_curves
from smofi.report.live import Live
from smofi.report.style import COLOURS, FAINT, GRID, MATPLOTLIB_STYLE

__all__ = [
    "COLOURS",
    "FAINT",
    "GRID",
    "MATPLOTLIB_STYLE",
    "History",
    "Live",
    "measure",
    "results_table",
    "save_curves",
]
