"""Which cut? The time of a round and the clients' load at every cut: a table, a recommendation, and a picture."""

from __future__ import annotations

from smofi.report.advice.picture import save_advice
from smofi.report.advice.text import advice_table

__all__ = ["advice_table", "save_advice"]
