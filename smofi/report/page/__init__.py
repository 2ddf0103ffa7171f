"""Runs as one HTML page that can be given to others: it needs no network, and no file beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.page.document import write_page
    from smofi.report.page.target import check_page
else:
    load_later(__name__, target="check_page", document="write_page")

__all__ = ["check_page", "write_page"]
