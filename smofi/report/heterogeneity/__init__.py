"""How differently clients are endowed: sizes, class mixes and their divergence, as text or as a picture."""

from __future__ import annotations

from smofi.report.heterogeneity.measures import Heterogeneity
from smofi.report.heterogeneity.picture import save_heterogeneity
from smofi.report.heterogeneity.text import heterogeneity_table

__all__ = ["Heterogeneity", "heterogeneity_table", "save_heterogeneity"]
