"""From run folders to the page in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smofi.errors import InputError
from smofi.files import write_atomically
from smofi.report.page.document import document
from smofi.report.page.reading import find_runs
from smofi.report.page.section import Section
from smofi.report.page.target import check_page
from smofi.report.setups import setups_of


def write_page(
    paths: Sequence[str | Path], output: str | Path, title: str | None = None, *, force: bool = False
) -> Path:
    """Write one page about the runs in these folders, each a run, a comparison, or a folder with runs below it.

    >>> write_page(["no-such-folder"], "report.html")
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    path = check_page(output, force=force)
    found = find_runs(paths)
    setups = setups_of([one.run for one in found if one.run])
    sections = [Section.of(place, setup) for place, setup in enumerate(setups)]
    page = document(title or _title(sections), found, sections)
    try:
        write_atomically(path, page.encode("utf-8", "replace"))  # a folder may have any bytes as its name
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _title(sections: Sequence[Section]) -> str:
    return sections[0].name if len(sections) == 1 else "smofi report"
