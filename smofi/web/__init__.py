"""What our pages have in common: colours for light, dark and paper, the button that chooses between them, and rules by
which a page runs nothing but its own script.

colours.css, theme.js      the first of a page's styles and of its scripts

Internal: may change without notice.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent


def style_of(own: str) -> str:
    """Return the style of a page: the colours, then its own."""
    return _asset("colours.css") + own


def script_of(own: Iterable[str]) -> str:
    """Return the script of a page: its theme, then its own, with no names that others see."""
    return '"use strict";\n(() => {\n' + "\n".join([_asset("theme.js"), *own]) + "\n})();\n"


def digest_of(text: str) -> str:
    """Return a script or a style as a page's rules name it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (HERE / name).read_text("utf-8")
