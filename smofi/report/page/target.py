"""Where a page may be written, and what is never overwritten."""

from __future__ import annotations

from pathlib import Path

from smofi.errors import InputError, check_path, refuse

MARKER = "<!doctype html>\n<!-- smofi report 1 -->\n"
"""How a page of ours begins."""

ENDINGS = (".html", ".htm")


def check_page(output: str | Path, field: str = "output", *, force: bool = False) -> Path:
    """A file that a page can be written to, refused before any work is done for it; `field` is what named it. With
    `force` it may be any file, without it only a new one or a page of ours.

    >>> check_page("report.pdf")
    Traceback (most recent call last):
    smofi.errors.InputError: output='report.pdf' is not accepted: expected a file name that ends in .html or .htm
    """
    path = check_path(field, output)
    if path.suffix.lower() not in ENDINGS:
        refuse(field, str(path), "a file name that ends in .html or .htm")
    try:
        if not path.parent.is_dir() or path.is_dir():
            refuse(field, str(path), "a file in a folder that exists")
        if path.exists() and not force and not _is_page(path):
            refuse(field, str(path), "a new file, or a page that smofi wrote; --force overwrites any other")
    except OSError as error:  # a name that is too long
        raise InputError(f"{field}={str(path)!r} is not accepted: {error.strerror}") from None
    return path


def _is_page(path: Path) -> bool:
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MARKER)) == MARKER.encode()
