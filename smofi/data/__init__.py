"""The table of data sources, how their samples are handed to clients, and in which order clients read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smofi.data.batches import batch_order, select_clients
from smofi.data.digits import digits
from smofi.data.kinds import PARTITIONS, dirichlet, iid
from smofi.data.partition import partition
from smofi.data.source import Source
from smofi.errors import check_choice

__all__ = [
    "PARTITIONS",
    "SOURCES",
    "Entry",
    "Source",
    "batch_order",
    "digits",
    "dirichlet",
    "iid",
    "load",
    "partition",
    "select_clients",
]


@dataclass(frozen=True)
class Entry:
    """One source of the table: a line about it, and how it is read."""

    description: str
    read: Callable[[], Source]


SOURCES: dict[str, Entry] = {
    "digits": Entry("1,797 handwritten digits, 8x8 grey, 10 classes; comes with scikit-learn, no download", digits),
}


def load(name: str) -> Source:
    """A source of the table.

    >>> load("digits").classes
    10
    """
    return SOURCES[check_choice("data", name, SOURCES)].read()
