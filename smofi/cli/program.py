"""The program: what it is called, what it was called with, and what it prints to."""

from __future__ import annotations

from typing import Any

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


def default_as_typed(value: Any) -> str | None:
    """A default as an option would give it; none is shown for what is off or not given.

    >>> default_as_typed(("fedavg", "smofi")), default_as_typed(100.0), default_as_typed(False)
    ('fedavg smofi', '100', None)
    """
    if value is None or value is False:
        return None
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


console = WideEnough()
app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    console=console,
    help_format="plaintext",  # Markdown takes a tenth of a second to load
    default_parameter=cyclopts.Parameter(show_default=default_as_typed),
    group_parameters=cyclopts.Group("Options", sort_key=-1),
)
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""
