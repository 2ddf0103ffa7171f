"""Colours: of curves on the terminal, and of everything in pictures."""

from __future__ import annotations

from typing import Any

# On the terminal.
CURVE_STYLES = ("cyan", "magenta", "yellow", "green", "blue", "red")
DIM = "bright_black"

# Okabe and Ito's palette, told apart by colour-blind readers too, without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
INK, FAINT, GRID = "#24292f", "#6e7781", "#e7eaed"

MATPLOTLIB_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "smofi",
}
