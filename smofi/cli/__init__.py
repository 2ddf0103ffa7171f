"""The command line, and the only place that prints.

entry.py      the `smofi` command from its first moment on: signals, exit codes, streams that never end it
program.py    the program, what it prints to, and flags that several commands accept
commands.py   all commands, and how one is called
train.py      run
choices.py    plan, advise, config; presets, data, methods, models
sweep.py      sweep, tune
finished.py   show, compare, plot, timeline, report, export
deployed.py   serve, join; certs init, issue, revoke, list

A command parses its arguments, refuses what is wrong with them, and only then loads what it works with: torch takes
seconds. It calls one function and prints what it returns.

Internal: may change without notice.
"""

from __future__ import annotations

from smofi.cli.entry import complain, main

__all__ = ["complain", "main"]
