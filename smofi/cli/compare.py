"""The command that makes the paper's table from finished runs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console, RenderableType

from smofi.cli.arguments import Runs
from smofi.cli.claiming import RUNS
from smofi.cli.program import console
from smofi.cli.streams import complain, loading
from smofi.errors import refuse
from smofi.report.asked import MADE, Target, check_new, format_of, write_file

WIDTH = 120  # characters of a table in a text file


def compare(
    *runs: Runs,
    target: Annotated[
        str, Parameter(help="what rounds are counted to: a share of the baseline's best, or an accuracy such as 70%")
    ] = "0.9",
    baseline: Annotated[str, Parameter(help="the method that the target is a share of")] = "fedavg",
    format: Annotated[
        str | None, Parameter(help="text, markdown, latex or csv; by default as the file's name ends, or text")
    ] = None,
    per_seed: Annotated[bool, Parameter(help="with csv: a row for each run", negative=())] = False,
    output: Annotated[
        Path | None,
        Parameter(name=["--output", "-o"], help="write the table into this file: .txt, .md, .tex or .csv"),
    ] = None,
    force: Annotated[bool, Parameter(help="replace the file even if smofi did not write it", negative=())] = False,
) -> int:
    """Make the paper's table from finished runs: accuracy, rounds and hours to a target, over seeds.

    Runs that differ in more than method and seed are in separate tables. Unfinished and diverged ones are left out, and
    named below. Exit code 2 if a run cannot be read.
    """
    form = format_of(format, output)
    wanted = Target.read(target)
    if per_seed and form != "csv":
        refuse("per_seed", True, "--format csv with it")
    if output is not None:
        check_new(output, force)
    with loading():
        from smofi.report.snapshots import gather
        from smofi.report.table import as_text, blocks_of, sheets_of, written_as
    gathered = gather(runs or (RUNS,))
    blocks = blocks_of(gathered, wanted, baseline)
    table = as_text(sheets_of(blocks)) if form == "text" else written_as(form, blocks, per_seed=per_seed)
    if output is not None:
        print(f"Table: {write_file(output, (table if isinstance(table, str) else plain(table)).encode())}")
    elif isinstance(table, str):
        print(table, end="")
    else:
        console.print(table)
    for sentence in gathered.unreadable:
        complain(sentence)
    return 2 if gathered.unreadable else 0


def plain(table: RenderableType) -> str:
    """What a terminal would show, for a file."""
    paper = Console(file=io.StringIO(), width=WIDTH, color_system=None, legacy_windows=False)
    text = "".join(segment.text for segment in paper.render(table))
    return "\n".join([MADE, "", *(line.rstrip() for line in text.splitlines()), ""])
