"""Everything that paper/ takes from the report and the displays of the library, in one place."""

from smofi.cli.sweep import SweepDisplay, exit_code
from smofi.report.clients import Fleet, Heterogeneity
from smofi.report.figures import Panel as Drawn
from smofi.report.figures import bars_figure, curves_figure, frame, points_figure
from smofi.report.numbers import UNKNOWN, TimeUnit, duration, figure, three_digits, time_unit
from smofi.report.results import Difference, History, Row, measure, paired
from smofi.report.snapshots import Snapshot
from smofi.report.style import COLOURS, Drawing

__all__ = [
    "COLOURS",
    "UNKNOWN",
    "Difference",
    "Drawing",
    "Drawn",
    "Fleet",
    "Heterogeneity",
    "History",
    "Row",
    "Snapshot",
    "SweepDisplay",
    "TimeUnit",
    "bars_figure",
    "curves_figure",
    "duration",
    "exit_code",
    "figure",
    "frame",
    "measure",
    "paired",
    "points_figure",
    "three_digits",
    "time_unit",
]
