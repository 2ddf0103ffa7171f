"""The command line, and the only place that prints.

program.py      the `smofi` command: what it prints to, and a sentence for every mistake
arguments.py    what several commands accept              reading.py     the bar that shows data being read
run.py          run                                       training.py    training with display, trackers and signals
plan.py         plan, advise, config                      results.py     what is printed after training
folders.py      show, timeline, export                    data.py        data
lists.py        methods, models, presets

A command parses its arguments, calls one function and prints what it returns.

Internal: may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable

from smofi.cli import data, folders, lists, plan, run
from smofi.cli.program import app, complain, main

__all__ = ["app", "complain", "main"]

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
