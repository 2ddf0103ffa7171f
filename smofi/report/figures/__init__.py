"""Figures for a paper: as wide as a column or a page, one look per method, the spread over its seeds beside the mean.

They are drawn from histories, wherever those come from:

    curves_figure([Panel("Dirichlet 0.2", histories)]).save("curves.pdf")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.figures.drawing import Drawing, Panel, bars_figure, curves_figure, points_figure
else:
    load_later(__name__, drawing="Drawing Panel bars_figure curves_figure points_figure")

__all__ = ["Drawing", "Panel", "bars_figure", "curves_figure", "points_figure"]
