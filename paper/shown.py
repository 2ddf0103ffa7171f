"""Everything that paper/ takes from the report and the displays of the library, in one place."""

from smofi.cli.sweep import SweepDisplay, exit_code

from smofi.report.comparing.blocks import Difference, paired
from smofi.report.devices import Fleet
from smofi.report.figures.drawing import Drawing, bars_figure, curves_figure, frame, points_figure
from smofi.report.figures.drawing import Panel as Drawn
from smofi.report.heterogeneity import Heterogeneity
from smofi.report.history import History
from smofi.report.measures import Row, measure
from smofi.report.numbers import UNKNOWN, TimeUnit, duration, figure, three_digits, time_unit
from smofi.report.show import Snapshot
from smofi.report.style import COLOURS

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
