"""What the programs use of smofi's report, which is internal. Apart from internals.py, for it loads matplotlib."""

from smofi.report import History, measure, results_table, save_curves
from smofi.report.heading import details, setting
from smofi.report.live import Live
from smofi.report.style import FAINT, GRID, MATPLOTLIB_STYLE, METHODS

__all__ = [
    "FAINT",
    "GRID",
    "MATPLOTLIB_STYLE",
    "METHODS",
    "History",
    "Live",
    "details",
    "measure",
    "results_table",
    "save_curves",
    "setting",
]
