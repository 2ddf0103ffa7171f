"""The live page: one HTML file that loads nothing from elsewhere, and whose rules forbid it to."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PAGE = Path(__file__).parent / "page"
SCRIPTS = ("theme.js", "words.js", "chart.js", "clients.js", "live.js")


@cache
def document() -> str:
    """The page as text; what it shows comes later, as a stream.

    >>> document().startswith("<!doctype html>")
    True
    """
    page = _asset("page.html").replace("{{version}}", _version())
    return page.replace("{{style}}", _asset("page.css")).replace("{{script}}", _script())


@cache
def policy() -> str:
    """Only this script and this style, recognised by their hashes; streams from the same server; the icon in it."""
    return (
        f"default-src 'none'; script-src {_digest(_script())}; style-src {_digest(_asset('page.css'))}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _version() -> str:
    try:
        return version("smofi")
    except PackageNotFoundError:
        return "(not installed)"


def _asset(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(map(_asset, SCRIPTS)) + "\n})();\n"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
