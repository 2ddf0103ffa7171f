"""Commands about runs that are there: show, compare, plot, timeline, report, export."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console, RenderableType

from smofi.cli.entry import complain, loading, remark
from smofi.cli.program import ONE_OR_MORE, RUNS, Folder, Picture, Runs, command, console, doc, reading
from smofi.errors import check_choice, check_path, refuse
from smofi.export.request import FORMATS, check_request
from smofi.report.asked import (
    MADE,
    Request,
    Target,
    check_output,
    format_of,
    write_file,
)
from smofi.runs import folders_in

OUTPUT = ["--output", "-o"]
WIDTH = 120  # characters of a table in a text file


@command("smofi show first")
def show(
    folder: Annotated[Path, doc("the folder of a run or a comparison, or one that has several in it")] = RUNS,
    /,
) -> int:
    """Show a run at a glance, finished or still going; list the runs of a folder that has several, such as runs/.

    Exit code 2 if a file is damaged or missing.
    """
    with loading():
        from smofi.report.show import entries_below, missing_config, runs_table, show_runs
        from smofi.report.snapshots import snapshots_in
    if entries := entries_below(folder):
        console.print(runs_table(folder, entries))
        runs = [run for entry in entries for run in entry.runs]
        unreadable = [*missing_config(folder), *(entry.error for entry in entries if entry.error)]
    else:
        runs, unreadable = snapshots_in(folder), []
        console.print(show_runs(folder, runs, console))
    return _damaged([*unreadable, *(error for run in runs for error in run.damaged)])


def _damaged(found: Sequence[object]) -> int:
    for error in found:
        complain(str(error))
    return 2 if found else 0


@command(
    "smofi compare runs/first runs/second",
    "smofi compare sweep --target 1.0 --output table.tex",
    "smofi compare sweep --format csv --per-seed > runs.csv",
)
def compare(
    *runs: Runs,
    target: Annotated[
        str, doc("what rounds are counted to: a share of the baseline's best, or an accuracy such as 70%")
    ] = "0.9",
    baseline: Annotated[str, doc("the method that the target is a share of")] = "fedavg",
    format: Annotated[
        str | None, doc("text, markdown, latex or csv; by default as the file's name ends, or text")
    ] = None,
    per_seed: Annotated[bool, doc("with csv: a row for each run")] = False,
    output: Annotated[
        Path | None,
        Parameter(name=OUTPUT, help="write the table into this file: .txt, .md, .tex or .csv"),
    ] = None,
    force: Annotated[bool, doc("replace the file even if smofi did not write it")] = False,
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
        check_output(output, "--output", "table", force=force)
    with loading():
        from smofi.report.snapshots import gather
        from smofi.report.table import as_text, blocks_of, sheets_of, written_as
    setups, unreadable = gather(runs or (RUNS,))
    blocks = blocks_of(setups, wanted, baseline)
    table = as_text(sheets_of(blocks)) if form == "text" else written_as(form, blocks, per_seed=per_seed)
    if output is not None:
        print(f"Table: {write_file(output, (table if isinstance(table, str) else plain(table)).encode())}")
    elif isinstance(table, str):
        print(table, end="")
    else:
        console.print(table)
    return _damaged(unreadable)


def plain(table: RenderableType) -> str:
    """Return what a terminal would show, for a file."""
    paper = Console(file=io.StringIO(), width=WIDTH, color_system=None, legacy_windows=False)
    text = "".join(segment.text for segment in paper.render(table))
    return "\n".join([MADE, "", *(line.rstrip() for line in text.splitlines()), ""])


@command(
    "smofi plot runs/first -o curves.pdf",
    "smofi plot sweep --by partition --hours -o panels.pdf",
    "smofi plot sweep --kind bars --by model --value accuracy rounds -o bars.pdf",
    "smofi plot sweep --over alpha --value accuracy rounds -o alpha.pdf",
)
def plot(
    *runs: Runs,
    output: Annotated[Path, Parameter(name=OUTPUT, help="the figure: a file that ends in .svg, .pdf or .png")],
    kind: Annotated[
        str | None, doc("curves, panels (curves for each setup) or bars; by default curves or panels")
    ] = None,
    value: Annotated[
        tuple[str, ...],
        doc("of bars and points: accuracy (the best), mean (over rounds), rounds or hours (to the target)"),
        ONE_OR_MORE,
    ] = ("accuracy",),
    by: Annotated[
        str | None, doc("a panel or a group of bars for each value of this setting, or for each base")
    ] = None,
    over: Annotated[str | None, doc("points over this setting or parameter of a method, such as cut or alpha")] = None,
    hours: Annotated[bool, Parameter(help="curves over virtual hours, or over rounds", negative="--rounds")] = False,
    target: Annotated[
        str, doc("of rounds and hours: a share of the baseline's best, or an accuracy such as 70%")
    ] = "0.9",
    baseline: Annotated[str, doc("the method that the target is a share of; dashed among points")] = "fedavg",
    width: Annotated[str | None, doc("column or page; by default what suits the figure")] = None,
    own_axes: Annotated[
        bool,
        doc("each panel of curves has a range of values of its own; otherwise all the same"),
    ] = False,
    force: Annotated[bool, doc("replace the file even if smofi did not draw it")] = False,
) -> int:
    """Draw a figure for a paper from finished runs: curves with bands over seeds, bars or points with error bars.

    Bands and error bars are one standard deviation over seeds. Exit code 2 if a run cannot be read.
    """
    check_output(output, "--output", "picture", force=force)
    request = Request(kind, value, by, over, hours, Target.read(target), baseline, width)
    if own_axes:
        request.check_curves("own_axes")
    with loading():
        from smofi.report.figures import figure_of
        from smofi.report.snapshots import counted, gather
    setups, unreadable = gather(runs or (RUNS,))
    drawing = figure_of(counted(setups), request, own_axes=own_axes)
    print(f"Figure: {drawing.save(output)}")
    for sentence in (sentence for setup in setups for sentence in setup.left_out):
        remark(f"note: {sentence}")
    return _damaged(unreadable)


@command("smofi timeline first --round 3 --output round.png")
def timeline(
    folder: Folder,
    /,
    *,
    round: Annotated[int | None, doc("number of the round, from 1; by default the last")] = None,
    output: Picture = None,
) -> int:
    """Show what each client does in one round of a run with a clock: computing, sending, and waiting for others.

    Given the folder of a comparison, the methods are drawn below each other, over the same seconds; with several seeds,
    the runs with the first one.
    """
    if output is not None:
        check_output(output, "output", "picture", force=True)
    folders_in(folder)  # refused if it is none
    with loading():
        from smofi.report.timeline import read_timelines, timeline_table, timelines_picture
    with reading(str(folder)) as progress:
        timelines = read_timelines(folder, round, progress)
    for one in timelines:
        console.print(timeline_table(one), "", sep="\n")
    if output is not None:
        print(f"Picture: {timelines_picture(timelines).save(output)}")
    return 0


@command("smofi report first -o report.html", 'smofi report first second --title "Two partitions" -o both.html')
def report(
    *runs: Runs,
    output: Annotated[Path, Parameter(name=OUTPUT, help="the page, a file that ends in .html")] = Path("report.html"),
    title: Annotated[str | None, doc("the heading of the page")] = None,
    force: Annotated[bool, doc("overwrite the file even if it is not a page that smofi wrote")] = False,
) -> int:
    """Write runs as one HTML page: results, curves with bands over seeds, the clients' data, and what each run is.

    The page needs no network and no file beside it, so it can be given to others as it is.
    """
    check_output(output, "--output", "page", force=force)
    given = runs or (RUNS,)
    for run in given:
        if not check_path("RUN", run).is_dir():
            folders_in(run)  # refused: it is none
    with loading():
        from smofi.report.page import write_page
    print(f"Page: {write_page(given, output, title, force=force)}")
    return 0


@command("smofi export first exported --format safetensors onnx", "smofi export first --part client")
def export(
    folder: Folder,
    destination: Annotated[Path | None, doc("the folder to write to; by default export, in the run's folder")] = None,
    /,
    *,
    format: Annotated[list[str] | None, doc("safetensors, torch or onnx; by default all of them"), ONE_OR_MORE] = None,
    part: Annotated[str | None, doc("client or server, for split inference; by default the whole model")] = None,
    cut: Annotated[str | None, doc("where to split the model, if not where the run did")] = None,
    best: Annotated[bool, doc("export the round with the best validation accuracy, not the last")] = False,
) -> int:
    """Write a run's trained model for plain torch or ONNX, whole or one side of the cut, with a model card.

    The whole model comes with predict.py, which classifies raw input without smofi.
    """
    for name in format or ():
        check_choice("format", name, FORMATS)
    target = destination or folder / ("export" if part is None else f"export-{part}")
    check_request(folder, target, format, part)
    with loading():
        from smofi.export import export_run
    exported = export_run(folder, target, format, part, cut, best)
    for note in exported.notes:
        remark(f"note: {note}")
    print("\n".join(str(exported.folder / name) for name in exported.files))
    return 0
