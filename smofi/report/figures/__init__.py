"""Figures for a paper: as wide as a column or a page, one look per method, the spread over its seeds beside the mean.

panels.py      what a figure shows: a panel for each setup, with the histories of its runs
curves.py      learning curves
bars.py        bars, a group for each setup           values.py      what bars and points show of a method
points.py      points over a setting, such as alpha   paper.py       widths, type and legend; saving
request.py     what `smofi plot` is asked for         choosing.py    the figure of that, from setups of runs
parameters.py  what a method is called without one

They are drawn from histories, wherever those come from:

    curves_figure([Panel("Dirichlet 0.2", histories)]).save("curves.pdf")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.figures.bars import bars_figure
    from smofi.report.figures.curves import curves_figure
    from smofi.report.figures.panels import Panel
    from smofi.report.figures.paper import Drawing
    from smofi.report.figures.points import points_figure
else:
    load_later(
        __name__,
        bars="bars_figure",
        curves="curves_figure",
        panels="Panel",
        paper="Drawing",
        points="points_figure",
    )

__all__ = ["Drawing", "Panel", "bars_figure", "curves_figure", "points_figure"]
