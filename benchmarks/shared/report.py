"""What the programs use of smofi's report, which is internal. Apart from internals.py, for it loads matplotlib."""

from smofi.report import Run, measure, save, table
from smofi.report.live import Live
from smofi.report.picture import COLOURS, FAINT, GRID, STYLE

__all__ = ["COLOURS", "FAINT", "GRID", "STYLE", "Live", "Run", "measure", "save", "table"]
