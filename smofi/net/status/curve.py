"""The rounds of a run as points of a curve, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smofi.engine.events import Record
from smofi.net.plain import finite
from smofi.net.status.parts import Part

MOST_POINTS = 2000


@dataclass(frozen=True)
class Point:
    """One round: its metrics by name, its losses, and how long it took."""

    round: int
    values: dict[str, float | None]
    loss: float | None
    train_loss: float | None
    seconds: float | None

    @classmethod
    def of(cls, record: Record, metrics: dict[str, str]) -> Point:
        """What a record says of each metric."""
        values = {name: finite(record.value(name)) for name in metrics}
        return cls(record.round, values, finite(record.loss), finite(record.train_loss), finite(record.seconds))

    def plain(self) -> dict[str, Any]:
        return vars(self)


class Curve(Part[int, Point]):
    """Every round; of very many, every second one, then every fourth, ..."""

    def __init__(self) -> None:
        super().__init__()
        self.every = 1

    def add(self, point: Point, version: int) -> None:
        if point.round % self.every == 0:
            self.put(point.round, point, version)
        if len(self.items) > MOST_POINTS:
            self.every *= 2
            self.remove([round for round in self.items if round % self.every], version)

    def keep_until(self, last: int, version: int) -> None:
        """Forget the rounds after this one."""
        self.remove([round for round in self.items if round > last], version)
        if not self.items:
            self.every = 1
