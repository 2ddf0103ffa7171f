"""The program: its commands, what it was called with, and what it prints to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cyclopts
from rich.console import Console, ConsoleDimensions

import smofi

if TYPE_CHECKING:
    from smofi.data.decoded import ReadProgress

NARROWEST = 20
SEVERAL = "Options marked with dots take one or more values: --method fedavg smofi.\n"
SWITCHES = "Those without a value are on or off: --compile, --compile false, --no-compile.\n"
OPTIONAL = "An optional setting is left out with null: --max-train null.\n\n"
HOW_TO_WRITE = SEVERAL + SWITCHES + OPTIONAL


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
    """Write a default as an option would give it; none is shown for what is off or not given.

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
    default_parameter=cyclopts.Parameter(show_default=default_as_typed, negative_bool=(), negative_iterable=()),
    group_parameters=cyclopts.Group("Options", sort_key=-1),
)
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""


def command(
    *examples: str, options: str = "", name: str | None = None, of: cyclopts.App = app
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function a command, after those that are there; below its help stand how options are written, and
    examples."""

    def add(function: Callable[..., int]) -> Callable[..., int]:
        heading = [f"Example{'s' * (len(examples) > 1)}:"] if examples else []
        below = options + "\n".join([*heading, *examples])
        of.command(function, name=name, help_epilogue=below or None, sort_key=len(list(of)))
        return function

    return add


def print_line(text: object) -> None:
    """Print a line as it is: no colours, no wrapping."""
    console.print(str(text), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def reading(name: str) -> Iterator[ReadProgress]:
    """Show a bar on standard error while a data set is read; on a terminal only, and removed at the end."""
    from rich.progress import Progress

    terminal = Console(stderr=True)
    with Progress(console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"reading {name}", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
