"""Learning curves.

text.py        for the terminal, in braille dots or in letters
thinning.py    a curve that grows, in as many places as a terminal can tell apart
picture.py     as a file, over rounds or over hours of virtual time
"""

from __future__ import annotations

from smofi.report.curves.picture import save_curves
from smofi.report.curves.text import NARROWEST, draw_curves

__all__ = ["NARROWEST", "draw_curves", "save_curves"]
