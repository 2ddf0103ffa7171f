"""The command line, and the only place that prints.

entry.py        the `smofi` command from its first moment on: signals, exit codes
loading.py      what a command works with, loaded once its arguments are accepted
streams.py      standard output and error that never end a command
commands.py     all commands, and how one is called       program.py     the program, and what it prints to
typed.py        what was typed, flag by flag              mistakes.py    a sentence for every mistake
arguments.py    what several commands accept              examples.py    what stands below a command's help
reading.py      the bar that shows data being read        report.py      report
run.py          run                                       training.py    training with display, trackers and signals
claiming.py     a new folder for a run                    results.py     what is printed after training
plan.py         plan, advise, config                      data.py        data
sweep.py        sweep                                     sweeping.py    many cells with one display
sweep_display.py   a sweep as it goes                     tune.py        tune
compare.py      compare                                   plot.py        plot
folders.py      show, timeline, export                    lists.py       methods, models, presets
serve.py        serve                                     join.py        join
deployment_flags.py   the flags of both, in groups
certs.py        certs init, issue, revoke, list

A command parses its arguments, refuses what is wrong with them, and only then loads what it works with: torch takes
seconds. It calls one function and prints what it returns.

Internal: may change without notice.
"""

from __future__ import annotations

from smofi.cli.entry import main
from smofi.cli.streams import complain

__all__ = ["complain", "main"]
