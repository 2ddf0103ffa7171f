"""All commands, and how one is called."""

from __future__ import annotations

import warnings

import cyclopts
import pydantic

# as the help lists them
from smofi.cli import train, choices, sweep, finished, deployed  # noqa: F401  # isort: skip
from smofi.cli.entry import complain, remark
from smofi.cli.program import COMMAND_LINE, app
from smofi.config import sentence_of
from smofi.config.settings import SETTINGS
from smofi.errors import SmofiError, shortened

__all__ = ["app", "call"]

LONGEST_SENTENCE = 2000
SWITCHES = {f"--{name.replace('_', '-')}" for name, setting in SETTINGS.items() if setting.default is False}


def call(arguments: list[str]) -> int:
    """Run the command that these arguments name. Exit code 2 for anything the user can correct."""
    COMMAND_LINE[:] = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where, **more: remark(f"warning: {message}")
            return int(app(_switched(arguments), exit_on_error=False, print_error=False) or 0)
    except (cyclopts.CycloptsError, pydantic.ValidationError, SmofiError, OSError, MemoryError) as error:
        complain(shortened(_sentence(error), LONGEST_SENTENCE))
    return 2


def _switched(arguments: list[str]) -> list[str]:
    """Write `--compile false` as cyclopts does.

    >>> _switched(["run", "--compile", "false", "--rounds", "1"])
    ['run', '--compile=false', '--rounds', '1']
    """
    words: list[str] = []
    for word in arguments:
        if words and words[-1] in SWITCHES and word.lower() in ("true", "false", "yes", "no"):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _sentence(error: Exception) -> str:
    checked = error.__cause__ if isinstance(error, cyclopts.CycloptsError) else error
    if isinstance(checked, pydantic.ValidationError):
        return sentence_of(checked)
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "there is not enough memory"
