"""What came out of runs: the paper's measures as a table, and learning curves as text or as a picture.

Internal: may change without notice.
"""

from __future__ import annotations

from smofi.report.curves import draw
from smofi.report.picture import save
from smofi.report.table import Row, Run, measure, table

__all__ = ["Row", "Run", "draw", "measure", "save", "table"]
