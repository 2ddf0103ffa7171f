"""The live page: one HTML file that loads nothing from elsewhere, and whose rules forbid it to."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from smofi.web import digest_of, script_of, style_of

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("words.js", "chart.js", "clients.js", "live.js")


@cache
def document() -> str:
    """The page as text; what it shows comes later, as a stream.

    >>> document().startswith("<!doctype html>")
    True
    """
    page = _asset("page.html").replace("{{version}}", _version())
    return page.replace("{{style}}", _style()).replace("{{script}}", _script())


@cache
def policy() -> str:
    """Only this script and this style, recognised by their hashes; streams from the same server; the icon in it."""
    return (
        f"default-src 'none'; script-src {digest_of(_script())}; style-src {digest_of(_style())}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _version() -> str:
    try:
        return version("smofi")
    except PackageNotFoundError:
        return "(not installed)"


def _asset(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def _style() -> str:
    return style_of(_asset("page.css"))


def _script() -> str:
    return script_of(map(_asset, SCRIPTS))
