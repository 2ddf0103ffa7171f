"""The `smofi` command."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import cyclopts
import pydantic
from rich.console import Console

import smofi
from smofi.config import sentence_of
from smofi.errors import SmofiError, shortened, shown

app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
console = Console()
LONGEST_SENTENCE = 2000
COMMAND_LINE: list[str] = []
"""What this command was called with, for the workers it starts and for the record."""


def complain(message: str) -> None:
    """Print a sentence about something that went wrong."""
    print(f"smofi: {message}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 2 for anything the user can correct."""
    COMMAND_LINE[:] = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except BrokenPipeError:
        return 1
    except (cyclopts.CycloptsError, pydantic.ValidationError, SmofiError, OSError, MemoryError) as error:
        complain(shortened(_sentence(error), LONGEST_SENTENCE))
    return 2


def _sentence(error: Exception) -> str:
    """What is wrong, without the box and the type names that cyclopts and pydantic put around it."""
    if isinstance(error, cyclopts.CycloptsError):
        cause = error.__cause__ or error.__context__
        if isinstance(cause, pydantic.ValidationError):
            return sentence_of(cause)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{shown(str(error.filename))}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return sentence_of(error) if isinstance(error, pydantic.ValidationError) else str(error)
