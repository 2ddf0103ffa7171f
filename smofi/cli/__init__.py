"""The command line, and the only place that prints.

entry.py      the `smofi` command from its first moment on: signals, exit codes, streams that never end it
program.py    the program, and what it prints to       commands.py   all commands, and how one is called
flags.py      what several commands accept             train.py      run
plan.py       plan, advise, config                     sweep.py      sweep, tune
finished.py   show, compare, plot, timeline, report, export
choices.py    presets, data, methods, models
deployed.py   serve, join                              certs.py      certs init, issue, revoke, list

A command parses its arguments, refuses what is wrong with them, and only then loads what it works with: torch takes
seconds. It calls one function and prints what it returns.

Internal: may change without notice.
"""

from __future__ import annotations

from smofi.cli.entry import complain, main

__all__ = ["complain", "main"]
