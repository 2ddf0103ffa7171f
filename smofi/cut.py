"""The cut: which blocks stay on the client and which go to the server.

cut = L         | input, L core blocks | rest, output |                 two parts: client, server
cut = (L, H)    | input, L core blocks | middle | last H blocks |       U shape: client, server, client
cut = "0-3"     a cut drawn anew each round                             cut = [1, 2, 1]   each client its own
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

from smofi.errors import refuse
from smofi.seeds import generator

if TYPE_CHECKING:
    from smofi.flat import Columns, Layout

CutSpec = int | tuple[int, int] | str | Sequence[int | tuple[int, int]]
"""A cut as a user writes it: 2, the U shape (2, 1), "0-3" drawn every round, or a list with one for each client."""


@dataclass(frozen=True)
class Cut:
    """Give the server blocks `first` to `last`, the last excluded, and the client the blocks before and after."""

    first: int
    last: int
    blocks: int

    @property
    def u_shaped(self) -> bool:
        """Tell whether the output block, and with it the labels, stay on the client."""
        return self.last < self.blocks

    def server(self, layout: Layout) -> Columns:
        return layout.columns(self.first, self.last)

    @property
    def client_blocks(self) -> list[range]:
        """Return the client's blocks: one run, or two in the U shape."""
        front, back = range(self.first), range(self.last, self.blocks)
        return [front, back] if self.u_shaped else [front]

    def __str__(self) -> str:
        head = self.blocks - self.last
        return f"{self.first - 1},{head}" if head else str(self.first - 1)


@dataclass(frozen=True)
class Cuts:
    """Hold what a `cut` parameter says: one cut, a range to draw from, or one cut per client."""

    options: tuple[Cut, ...]
    drawn: bool = False

    @property
    def per_client(self) -> bool:
        """Tell whether clients of one round may be cut differently."""
        return len(self.options) > 1 and not self.drawn

    def for_round(self, clients: Sequence[int], *, seed: int, round: int) -> list[Cut]:
        """Return the cut of each of the round's clients."""
        if self.drawn:
            chosen = self.options[int(generator(seed, "cut", round).integers(len(self.options)))]
            return [chosen] * len(clients)
        return [self.options[client] if self.per_client else self.options[0] for client in clients]


@dataclass(frozen=True)
class Region:
    """Name a run of blocks that the same rows have on the server."""

    first: int
    last: int
    rows: tuple[int, ...]


def regions(cuts: Sequence[Cut]) -> list[Region]:
    """Find where the server columns of a round's rows overlap: one region if all are cut alike.

    >>> regions([Cut(1, 4, 4), Cut(2, 4, 4)])
    [Region(first=1, last=2, rows=(0,)), Region(first=2, last=4, rows=(0, 1))]
    """
    edges = sorted({edge for cut in cuts for edge in (cut.first, cut.last)})
    found = []
    for first, last in itertools.pairwise(edges):
        rows = tuple(row for row, cut in enumerate(cuts) if cut.first <= first and last <= cut.last)
        if rows:
            found.append(Region(first, last, rows))
    return found


def parse_cut(spec: CutSpec, layout: Layout, clients: int) -> Cuts:
    """Read a `cut` parameter, in its Python or its string form, and refuse what the model cannot do.

    >>> from torch import nn
    >>> from smofi.flat import Layout
    >>> layout = Layout.of(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1), nn.Linear(1, 1)))
    >>> parse_cut("0-1", layout, clients=4).options
    (Cut(first=1, last=3, blocks=3), Cut(first=2, last=3, blocks=3))
    """
    value = read_cut(spec) if isinstance(spec, str) else spec
    if isinstance(spec, str) and isinstance(value, range):
        return Cuts(tuple(_one(spec, low, layout) for low in value), drawn=True)
    if isinstance(value, Sequence) and not isinstance(value, tuple):
        if len(value) != clients:
            refuse("cut", spec, f"one cut for each of the {clients} clients, but it has {len(value)}")
        options = tuple(_one(spec, one, layout) for one in value)
        return Cuts(options if len(set(options)) > 1 else options[:1])
    return Cuts((_one(spec, value, layout),))


def read_cut(text: str) -> int | tuple[int, int] | range | list[int]:
    """Read the string forms "2", "2,1", "0-3" and "[1,2,1]"."""
    text = text.replace(" ", "")
    if re.fullmatch(r"\d{1,6}", text):
        return int(text)
    if found := re.fullmatch(r"\(?(\d{1,6}),(\d{1,6})\)?", text):
        return int(found[1]), int(found[2])
    if (found := re.fullmatch(r"(\d{1,6})-(\d{1,6})", text)) and int(found[1]) <= int(found[2]):
        return range(int(found[1]), int(found[2]) + 1)
    if re.fullmatch(r"\[\d{1,6}(,\d{1,6})*\]", text):
        return [int(one) for one in text[1:-1].split(",")]
    refuse("cut", text, _FORMS)


_FORMS = (
    'L (such as 2), L,H for the U shape (such as 2,1), a range drawn each round (such as "0-3"), or a list with one '
    "cut per client"
)


def _one(spec: CutSpec, value: Any, layout: Layout) -> Cut:
    core, head = value if isinstance(value, tuple) and len(value) == 2 else (value, 0)
    if any(isinstance(n, bool) or not isinstance(n, Integral) for n in (core, head)):
        refuse("cut", spec, _FORMS)
    blocks = len(layout.blocks)
    if core < 0 or head < 0 or core + 1 >= blocks - head:
        numbered = ", ".join(f"{i}={name}" for i, name in enumerate(layout.blocks))
        most = blocks - 2 - max(head, 0)
        accepted = f"0 <= L <= {most} core blocks on the client" if most >= 0 else f"0 <= H <= {blocks - 2}"
        if head and most >= 0:
            accepted += f" with H={head} blocks back on it"
        refuse(
            "cut", spec, f"{accepted}, so that the server keeps at least one block; the model's blocks are {numbered}"
        )
    return Cut(int(core) + 1, blocks - int(head), blocks)
