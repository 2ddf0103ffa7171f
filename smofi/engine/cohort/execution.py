"""How a simulation computes its clients: one by one, or many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from smofi.engine.at_once.padding import NONE, Padding
from smofi.errors import check_count
from smofi.spec import build_one

MOST_AT_ONCE = 64
"""More at once is not faster, and takes memory."""


@dataclass(frozen=True)
class Executor:
    """What is asked for: `auto`, `loop`, or `vmap`, at once while `at_least` clients are left to take the step.

    >>> str(parse_executor("vmap(3)")), str(parse_executor("vmap(at_least=1)"))
    ('vmap(at_least=3)', 'vmap')
    """

    name: str
    at_least: int = 1

    def __str__(self) -> str:
        return f"{self.name}(at_least={self.at_least})" if self.at_least > 1 else self.name


@dataclass(frozen=True)
class Execution:
    """Up to `at_once` clients are computed in one pass, as long as `at_least` of the round's are left; 0 is one by one.

    `measured` tells that timing decided, so that another machine may decide differently; `room_for` is how many clients
    there is memory for. With `padding`, a client's bits do not depend on the number of clients in its pass; None is for
    a model with which they do.

    >>> str(Execution(10, 3, why="as before")), Execution(10, 3).executor
    ('up to 10 clients at once, while 3 are left (as before)', 'vmap(at_least=3)')
    """

    at_once: int = 0
    at_least: int = 1
    why: str = ""
    measured: bool = False
    room_for: int = MOST_AT_ONCE
    padding: Padding | None = NONE

    @property
    def executor(self) -> str:
        """The setting that asks for just this, on any machine."""
        return str(Executor("vmap", self.at_least) if self.at_once else Executor("loop"))

    def because(self, asked: str) -> str:
        """Why it is this, given the setting.

        >>> Execution(why="a wire needs the split of each client to be executed").because("vmap")
        'vmap: a wire needs the split of each client to be executed'
        """
        if asked == self.executor:
            return "as asked"
        return f"{asked}{', measured' if self.measured else ''}: {self.why}"

    @property
    def numbers(self) -> list[int]:
        """What determines a run's bits, and how many clients at once: for other processes, and for when it goes on."""
        padding = self.padding or Padding(0, 0)
        return [self.at_once, self.at_least, padding.least, padding.multiple]

    def with_numbers(self, at_once: int, at_least: int, least: int = 0, multiple: int = 0) -> Execution:
        """The same with what `numbers` were."""
        return replace(self, at_once=at_once, at_least=at_least, padding=Padding(least, multiple) if least else None)

    def as_before(self, numbers: Sequence[int]) -> Execution:
        """The execution of a resumed run: where timing would decide, as it was, as far as there is memory.

        >>> Execution(measured=True).as_before([10, 3, 2, 1]).padding
        Padding(least=2, multiple=1)
        """
        if not self.measured:
            return self
        before = self.with_numbers(*numbers)
        return replace(before, at_once=min(before.at_once, self.room_for), why="as before")

    def __str__(self) -> str:
        how = f"up to {self.at_once} clients at once" if self.at_once else "client by client"
        left = f", while {self.at_least} are left" if self.at_once and self.at_least > 1 else ""
        return f"{how}{left} ({self.why})" if self.why else f"{how}{left}"


def parse_executor(text: str) -> Executor:
    """What a setting such as "loop" or "vmap(at_least=3)" asks for.

    >>> parse_executor("vmap(at_least=3)")
    Executor(name='vmap', at_least=3)
    """
    return build_one("executor", text, {"auto": auto, "loop": loop, "vmap": vmap}, "vmap(at_least=3)")


def auto() -> Executor:
    """Whichever of the two a quick measurement favours."""
    return Executor("auto")


def loop() -> Executor:
    """Client by client."""
    return Executor("loop")


def vmap(at_least: int = 1) -> Executor:
    """Many clients at once, while `at_least` of them are left to take the step."""
    return Executor("vmap", check_count("at_least", at_least))
