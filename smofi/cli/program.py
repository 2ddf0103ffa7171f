"""The program: what it is called, what it was called with, and what it prints to."""

from __future__ import annotations

import cyclopts
from rich.console import Console, ConsoleDimensions

import smofi

NARROWEST = 20


class WideEnough(Console):
    """A console that never counts on fewer characters than anything can be drawn in: then its lines are wrapped."""

    @property
    def size(self) -> ConsoleDimensions:
        found = super().size
        return ConsoleDimensions(max(NARROWEST, found.width), found.height)

    @size.setter
    def size(self, wanted: tuple[int, int]) -> None:
        self.width, self.height = wanted


console = WideEnough()
app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    console=console,
)
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""
