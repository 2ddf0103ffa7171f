"""HTML in which text can only be text: what is not made by `element` is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

EMPTY = frozenset({"meta", "wbr"})  # elements without content and without an end


class Html(str):
    """Text that is HTML already."""


def element(tag: str, /, *content: str | Iterable[str], **attributes: Any) -> Html:
    """An element. `class_` is its class and `data_value` is data-value; an attribute that is None or False is left out,
    one that is True has no value.

    >>> element("td", "a < b & c", class_="name", data_value=3, hidden=False)
    '<td class="name" data-value="3">a &lt; b &amp; c</td>'
    """
    shown = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Html(f"<{tag}{shown}>" if tag in EMPTY else f"<{tag}{shown}>{joined(content)}</{tag}>")


def joined(content: Iterable[str | Iterable[str]]) -> Html:
    """Pieces of HTML and of text, one after the other.

    >>> joined(["<", element("b", "x"), ["&"]])
    '&lt;<b>x</b>&amp;'
    """
    return Html("".join(_piece(piece) for piece in content))


def _piece(piece: str | Iterable[str]) -> str:
    if isinstance(piece, Html):
        return piece
    return html.escape(piece) if isinstance(piece, str) else joined(piece)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{html.escape(str(value))}"'
