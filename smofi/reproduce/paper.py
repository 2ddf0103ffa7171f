"""The numbers of the paper's tables, from the files beside this one; its figures come without numbers."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """A method in one setup, as printed: accuracy in percent and its standard deviation, rounds to the target ("258" or
    ">1000"), and the speed-up or the hours, where the table has them. `source` is the table's label in the paper."""

    source: str
    setup: str
    method: str
    accuracy: str
    std: str
    rounds: str
    speed_up: str
    hours: str

    @property
    def text(self) -> str:
        """All of it in one cell.

        >>> published("table2")["CIFAR-10, Dir 0.2", "SMoFi"].text
        '81.82 %, R 56, 29.02 h'
        """
        rest = [f"{self.speed_up}x"] if self.speed_up else [f"{self.hours} h"] if self.hours else []
        return ", ".join([f"{self.accuracy} %", f"R {self.rounds}", *rest])


TABLES = ("table1", "table2", "distributions", "participation", "text-audio")


@cache
def published(table: str) -> dict[tuple[str, str], Published]:
    """The rows of a table by setup and method.

    >>> published("table1")["Tiny-ImageNet, Dir 0.2", "FedNAR + SMoFi"].speed_up
    '10.25'
    """
    text = (files("smofi.reproduce") / "published" / f"{table}.csv").read_text(encoding="utf-8")
    rows = [Published(**row) for row in csv.DictReader(text.splitlines())]
    return {(row.setup, row.method): row for row in rows}
