"""The command that runs many cells: sweep."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter
from rich.markup import escape

from smofi.cli.arguments import Display
from smofi.cli.claiming import RUNS
from smofi.cli.program import console
from smofi.cli.streams import loading
from smofi.errors import InputError
from smofi.sweep.file import read_sweep

Jobs: TypeAlias = Annotated[
    int | None,
    Parameter(help="how many cells run at a time, each with one worker; by default as many as there are cores"),
]
DryRun: TypeAlias = Annotated[
    bool, Parameter(help="list the cells, which of them are done, and about how long the others take", negative=())
]
SweepOutput: TypeAlias = Annotated[
    Path | None, Parameter(help="the folder of the sweep; the same one again goes on where it was")
]


def sweep(
    file: Annotated[Path, Parameter(help="a YAML file of settings with a grid or a list to vary")],
    /,
    *,
    output: SweepOutput = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    display: Annotated[
        Display, Parameter(help="how progress is shown; auto: live on a terminal, plain elsewhere")
    ] = "auto",
) -> int:
    """Train every cell of a grid or a list of settings: methods, seeds, partitions, cuts, or any other setting.

    Cells that are done are skipped, those that were interrupted go on, and one that fails stops no other. The folder is
    runs/NAME for NAME.yaml, unless --output says otherwise. Exit code 1 if a cell failed or diverged.
    """
    read = read_sweep(file)
    folder = RUNS / file.stem if output is None else output
    with loading():
        from smofi.cli.sweeping import Sweep, exit_code, print_line
    cells = Sweep(read.cells, folder, jobs, read.text)
    if dry_run:
        return cells.list()
    outcomes = cells.run(display)
    if display not in ("quiet", "jsonl"):
        _print_tables(outcomes.folders)
        quoted = shlex.quote(str(folder))
        print_line(f"Runs: {folder}")
        if outcomes.folders:
            print_line(f"Next: smofi compare {quoted}")
            print_line(f"      smofi report {quoted} -o {quoted}/report.html")
    return exit_code(outcomes)


def _print_tables(folders: Sequence[Path]) -> None:
    """A table for each setup of the sweep."""
    from smofi.cli.sweeping import print_line
    from smofi.report import compare, results_table
    from smofi.report.snapshots import read_runs, setups_of

    for setup in setups_of(read_runs(folders)):
        try:
            rows = compare(setup.histories)
        except InputError as error:  # of a sweep that is not finished
            print_line(f"{setup.name or 'results'}: {error}")
            continue
        if rows:
            console.print(results_table(rows, title=escape(setup.name) or None))
