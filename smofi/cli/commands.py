"""All commands, and a sentence for every mistake."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cyclopts
import pydantic

from smofi.cli import data, folders, lists, plan, run
from smofi.cli.program import COMMAND_LINE, app
from smofi.cli.streams import complain, remark
from smofi.config import sentence_of
from smofi.errors import CacheWarning, SmofiError, shortened, shown

LONGEST_SENTENCE = 2000

COMMANDS: tuple[Callable[..., int], ...] = (
    run.run,
    plan.plan,
    plan.advise,
    folders.show,
    folders.timeline,
    folders.export,
    plan.config,
    lists.presets,
    data.data,
    lists.methods,
    lists.models,
)
for command in COMMANDS:
    app.command(command)


def call(arguments: list[str]) -> int:
    """Run the command that these arguments name. Exit code 2 for anything the user can correct."""
    COMMAND_LINE[:] = arguments
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _as_sentence(warnings.showwarning)
            return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except (cyclopts.CycloptsError, pydantic.ValidationError, SmofiError, OSError, MemoryError) as error:
        complain(shortened(_sentence(error), LONGEST_SENTENCE))
    return 2


def _as_sentence(show: Callable[..., None]) -> Callable[..., None]:
    """Shows warnings as before, but those about the cache without the line of code that gives them."""

    def sentence(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, CacheWarning):
            remark(f"warning: {message}")
        else:
            show(message, category, *where, **more)

    return sentence


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
