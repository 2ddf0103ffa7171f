"""How methods look, the same in every picture and on the terminal: colour, glyph, line and marker go by the name."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from smofi.report.names import parts_of

DIM = "bright_black"  # on the terminal

# Okabe and Ito's palette, told apart by colour-blind readers too, without its yellow, which is lost on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#333333")
INK, FAINT, GRID = "#24292f", "#6e7781", "#e7eaed"

MATPLOTLIB_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "smofi",
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
}

SOLID: Any = "-"
LONG, SHORT, MIXED = (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (5, 1.5, 1, 1.5))


class Look(NamedTuple):
    """A curve is told apart by its colour, and without colour by the rest."""

    colour: str
    glyph: str
    marker: str
    dashes: Any
    hollow: bool = False  # the marker

    @property
    def line(self) -> dict[str, Any]:
        """As arguments of matplotlib's `plot`."""
        inside, edge = ("white", self.colour) if self.hollow else (self.colour, "white")
        return {
            "color": self.colour,
            "linewidth": 2,
            "linestyle": self.dashes,
            "marker": self.marker,
            "markersize": {"*": 10, "D": 6}.get(self.marker, 7),
            "markerfacecolor": inside,
            "markeredgecolor": edge,
            "markeredgewidth": 1.6 if self.hollow else 0.6,
        }

    @property
    def alone(self) -> Look:
        """Of a curve with no other to be told apart from."""
        return self._replace(marker="o", dashes=SOLID, hollow=False)


# The colours can be read on white and on black. First Okabe and Ito's, then others that lie between them.
METHODS = {
    "fedavg": Look("#0072B2", "o", "o", SOLID),
    "smofi": Look("#009E73", "*", "*", SOLID),
    "fedavgm": Look("#D55E00", "x", "X", LONG),
    "sflv1": Look("#E69F00", "1", "s", LONG),
    "sflv2": Look("#56B4E9", "2", "D", LONG),
    "mergesfl": Look("#8F6BC4", "#", "P", MIXED),
    "slowmo": Look("#8B5E3C", "~", "v", MIXED),
    "fedprox": Look("#A8323E", "+", "^", SHORT),
    "fednag": Look("#8C8C00", "&", "<", SHORT),
    "fednar": Look("#C04FB0", "%", ">", SHORT),
    "clip": Look("#8A8A8A", "=", "d", MIXED),
}
OTHERS = (
    Look("#CC79A7", "@", "o", LONG, hollow=True),
    Look("#2F9FA8", "a", "s", SHORT, hollow=True),
    Look("#6E8B3D", "b", "^", MIXED, hollow=True),
    Look("#5B6BD6", "c", "D", SOLID, hollow=True),
    Look("#B8763A", "d", "v", SHORT, hollow=True),
)


def looks(names: Sequence[str]) -> list[Look]:
    """A look for each of the methods of one picture, whatever their order.

    A method of ours has a look of its own, with arguments too if the plain method is not there. Combinations and others
    get one that goes by their name, or the next one that is free.

    >>> [look.glyph for look in looks(["smofi", "fedavg", "fedprox(mu=0.1)"])]
    ['*', 'o', '+']
    """
    found: dict[str, Look] = {}
    for name in sorted(set(names), key=lambda one: (one not in METHODS, _plain(one) not in METHODS, one)):
        own = [METHODS[_plain(name)]] if _plain(name) in METHODS else []
        start = zlib.crc32(name.encode()) % len(OTHERS)
        wished = [*own, *OTHERS[start:], *OTHERS[:start], *METHODS.values()]
        found[name] = min(wished, key=list(found.values()).count)  # the first that is free, or the least used
    return [found[name] for name in names]


def _plain(name: str) -> str:
    """A method without its arguments; a combination as it is."""
    parts = parts_of(name)
    return name.partition("(")[0] if len(parts) == 1 else name
