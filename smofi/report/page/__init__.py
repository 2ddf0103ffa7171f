"""Runs as one HTML page that can be given to others: it needs no network, and no file beside it.

writing.py     from run folders to the page in a file            target.py      which files may be overwritten
document.py    the page around its sections
reading.py     the runs, also those that cannot be read          section.py     one setup: sentence, table and figures
judging.py     which runs can be compared                        words.py       the result in a sentence, warnings
table.py       tables that can be sorted                         listing.py     what each run is, how settings differ
series.py      curves with bands, as data                        pictures.py    partition and timeline, as data
elements.py    HTML that escapes                                 private.py     text without folders of the machine
assets/        style, scripts, and the D3 library with its licence
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.report.page.target import check_page
    from smofi.report.page.writing import write_page
else:
    load_later(__name__, target="check_page", writing="write_page")

__all__ = ["check_page", "write_page"]
