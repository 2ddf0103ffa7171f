"""Learning curves.

text.py       for the terminal, in braille dots or in letters
picture.py    as a file, over rounds or over hours of virtual time
"""

from __future__ import annotations

from smofi.report.curves.picture import save_curves
from smofi.report.curves.text import NARROWEST, draw_curves

__all__ = ["NARROWEST", "draw_curves", "save_curves"]
