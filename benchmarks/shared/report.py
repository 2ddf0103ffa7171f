"""What the programs use of smofi's report, which is internal. Apart from internals.py, for it loads matplotlib."""

from smofi.report.clients import PALETTE
from smofi.report.live import Live
from smofi.report.style import COLOURS, FAINT, GRID, MATPLOTLIB_STYLE, METHODS, Drawing

__all__ = ["COLOURS", "FAINT", "GRID", "MATPLOTLIB_STYLE", "METHODS", "PALETTE", "Drawing", "Live"]
