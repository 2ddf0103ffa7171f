"""Momentum fusion where clients may be lost in the middle of a round.

In a simulation it is known beforehand which step is a client's last. Here it is not: so the latest momentum of every
client that is to go on is kept, and counts on with the weight of its age once the client is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from smofi.engine.cohort.fusion import GOING_ON, Fusion
from smofi.engine.processes.tree import NOTHING


class LossyFusion(Fusion):
    """`latest` has the last momentum of each row that is to go on, `[moments, columns]`, and its step; `lost` are rows
    that were lost after they had taken the step of the tick that has begun."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.latest: dict[int, tuple[int, Tensor]] = {}
        self.lost: list[int] = []
        self.sum_of = {}  # before the first tick

    def begin(self, rows: Sequence[int]) -> list[int]:
        """As without losses, with what is left of those lost since."""
        for row in self.lost:
            self._keep(row)
        self.lost.clear()
        return super().begin(rows)

    def add(self, row: int, place: int | None = None) -> None:
        """As without losses; the momentum is copied before it becomes part of a sum."""
        if self.sum_of[row] is self.groups[GOING_ON]:
            columns, vector = self.columns[row], self.vectors[self.lent if place is None else place]
            own = vector[:, columns.start - self.low : columns.stop - self.low]
            kept = self.latest[row][1].copy_(own) if row in self.latest else own.clone()
            self.latest[row] = self.step, kept
        else:
            self.latest.pop(row, None)  # it finishes, and its momentum is kept anyway
        super().add(row, place)

    def lose(self, row: int, keep: bool = True) -> None:
        """The row takes no further step. If it is to take one in the tick that has begun and has not, its last momentum
        counts on from this tick, otherwise from the next; not at all, if it is not to be kept."""
        if not keep:
            self.latest.pop(row, None)
        if row in self.sum_of and row in self.missing:
            self.taken[row] -= 1
            number = self.vectors.take()
            self.vectors[number].fill_(NOTHING)
            self.sum_of[row].add(row, number)
            self._keep(row)
        else:
            self.lost.append(row)

    @property
    def missing(self) -> set[int]:
        """The rows that have not taken this tick's step yet."""
        return {row for total in self.groups.values() for row in total.rows[total.position :]} - {
            row for total in self.groups.values() for row in total.waiting
        }

    def _keep(self, row: int) -> None:
        """Its last momentum counts on; one that has taken no step has a momentum of zero."""
        if row not in self.latest:
            return
        step, own = self.latest.pop(row)
        columns, whole = self.columns[row], self.prior.new_full(self.prior.shape, NOTHING)
        whole[:, columns.start - self.low : columns.stop - self.low] = own
        self.kept[step, row] = whole
