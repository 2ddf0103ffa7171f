"""How the clients' data differ: sizes, class mixes and their divergence from balance.

measures.py    the numbers, and a colour for every class
text.py        for the terminal      picture.py    as a file      seeds.py    of several seeds, side by side
"""

from __future__ import annotations

from smofi.report.heterogeneity.measures import Heterogeneity, title_of
from smofi.report.heterogeneity.picture import save_heterogeneity
from smofi.report.heterogeneity.seeds import seeds_table
from smofi.report.heterogeneity.text import heterogeneity_table

__all__ = ["Heterogeneity", "heterogeneity_table", "save_heterogeneity", "seeds_table", "title_of"]
