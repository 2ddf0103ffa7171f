"""All commands, and how one is called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import cyclopts
import pydantic

from smofi.cli import certs, compare, data, folders, join, lists, plan, plot, report, run, serve, sweep, tune
from smofi.cli.examples import epilogue
from smofi.cli.mistakes import Typed, sentence_for
from smofi.cli.program import COMMAND_LINE, app
from smofi.cli.streams import complain, remark
from smofi.errors import CacheWarning, DataWarning, SmofiError, shortened

LONGEST_SENTENCE = 2000

COMMANDS: tuple[Callable[..., int], ...] = (
    run.run,
    plan.plan,
    plan.advise,
    sweep.sweep,
    tune.tune,
    folders.show,
    compare.compare,
    plot.plot,
    folders.timeline,
    report.report,
    folders.export,
    plan.config,
    lists.presets,
    data.data,
    lists.methods,
    lists.models,
    serve.serve,
    join.join,
)
for place, command in enumerate(COMMANDS):
    app.command(command, help_epilogue=epilogue(command.__name__), sort_key=place)
certs.certs.sort_key = len(COMMANDS)
app.command(certs.certs)


def call(arguments: list[str]) -> int:
    """Run the command that these arguments name. Exit code 2 for anything the user can correct."""
    COMMAND_LINE[:] = arguments
    typed = Typed.of(app, arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _as_sentence(warnings.showwarning)
            return int(app(typed.plainly, exit_on_error=False, print_error=False) or 0)
    except (cyclopts.CycloptsError, pydantic.ValidationError, SmofiError, OSError, MemoryError) as error:
        complain(shortened(sentence_for(error, app, typed), LONGEST_SENTENCE))
    return 2


def _as_sentence(show: Callable[..., None]) -> Callable[..., None]:
    """Shows warnings as before, but those about the cache without the line of code that gives them."""

    def sentence(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, (CacheWarning, DataWarning)):
            remark(f"warning: {message}")
        else:
            show(message, category, *where, **more)

    return sentence
