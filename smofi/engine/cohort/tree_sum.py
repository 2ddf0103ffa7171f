"""Adding the vectors of rows in the order of the tree, whatever order they come in.

    total = TreeSum(vectors, branch, rows)
    for row in total.rows:
        number = vectors.take()
        torch.mul(weights[row], shares[row], out=vectors[number])
        total.add(row, number)
    total.result()

Rows that come in the order of the tree are added at once: then no more vectors exist at a time than the branch has
levels, and one. A row that comes earlier waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from smofi.engine.processes.tree import Branch


class Vectors:
    """Numbered vectors that sums share, made when they are needed and used again. The first are those `given`, which
    their owner reuses by itself."""

    def __init__(self, make: Callable[[], Tensor], given: Sequence[Tensor] = ()) -> None:
        self.make, self.all, self.given = make, list(given), len(given)
        self.free: list[int] = []

    def __getitem__(self, number: int) -> Tensor:
        return self.all[number]

    def take(self) -> int:
        """The number of a vector that no sum uses; whatever is in it may be overwritten."""
        if not self.free:
            self.free.append(len(self.all))
            self.all.append(self.make())
        return self.free.pop()

    def give(self, number: int) -> None:
        """It is used no more."""
        if number >= self.given:
            self.free.append(number)


class TreeSum:
    """The sum of one vector for each of these rows of a branch.

    `stack` has the sums of whole branches, by their numbers; `position` counts the rows that are added.
    """

    def __init__(self, vectors: Vectors, branch: Branch, rows: Sequence[int]) -> None:
        self.vectors, self.rows = vectors, branch.in_order(rows)
        self.joins = branch.joins(self.rows)
        self.waiting: dict[int, int] = {}
        self.stack: list[int] = []
        self.position = 0

    def add(self, row: int, number: int) -> None:
        """The row's vector; it is the sum's from now on."""
        self.waiting[row] = number
        while self.position < len(self.rows) and self.rows[self.position] in self.waiting:
            self._push(self.waiting.pop(self.rows[self.position]), self.joins[self.position])
            self.position += 1

    def move(self) -> None:
        """What was added last moves out of the vectors given by their owner, who is about to reuse them."""
        if self.stack and self.stack[-1] < self.vectors.given:
            number = self.vectors.take()
            self.vectors[number].copy_(self.vectors[self.stack[-1]])
            self.stack[-1] = number

    def result(self) -> Tensor | None:
        """The sum, None of no rows; all must have come."""
        return self.vectors[self.stack[0]] if self.stack else None

    def restart(self) -> None:
        """Begin anew, with the same rows."""
        for number in (*self.stack, *self.waiting.values()):
            self.vectors.give(number)
        self.stack.clear()
        self.waiting.clear()
        self.position = 0

    def _push(self, number: int, joins: int) -> None:
        stack, vectors = self.stack, self.vectors
        stack.append(number)
        for _ in range(joins):
            top = stack.pop()
            vectors[stack[-1]].add_(vectors[top])
            vectors.give(top)
