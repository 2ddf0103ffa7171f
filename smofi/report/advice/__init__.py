"""Which cut suits the clients' devices: the time of a round and a client's load at every cut.

words.py    headings, units, and the sentences that recommend a cut
text.py     for the terminal      picture.py    as a file
"""

from __future__ import annotations

from smofi.report.advice.picture import save_advice
from smofi.report.advice.text import advice_table

__all__ = ["advice_table", "save_advice"]
