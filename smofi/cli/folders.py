"""Commands about a run's folder: show, timeline, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.arguments import SEVERAL, Folder, Picture
from smofi.cli.claiming import RUNS
from smofi.cli.program import console
from smofi.cli.streams import complain, loading, remark
from smofi.errors import check_choice
from smofi.export.request import FORMATS, check_request
from smofi.report.asked import check_picture
from smofi.runs import folders_in


def show(
    folder: Annotated[
        Path, Parameter(help="the folder of a run or a comparison, or one that has several in it")
    ] = RUNS,
    /,
) -> int:
    """Show a run at a glance, finished or still going; list the runs of a folder that has several, such as runs/.

    Exit code 2 if a file is damaged or missing.
    """
    with loading():
        from smofi.report.show import RunsView, entries_below, missing_config, show_runs
        from smofi.report.snapshots import snapshots_in
    if entries := entries_below(folder):
        console.print(RunsView(folder, entries))
        runs = [run for entry in entries for run in entry.runs]
        unreadable = [*missing_config(folder), *(entry.error for entry in entries if entry.error)]
    else:
        runs, unreadable = snapshots_in(folder), []
        console.print(show_runs(folder, runs))
    damaged = [*unreadable, *(error for run in runs for error in run.damaged)]
    for error in damaged:
        complain(str(error))
    return 2 if damaged else 0


def timeline(
    folder: Folder,
    /,
    *,
    round: Annotated[int | None, Parameter(help="number of the round, from 1; by default the last")] = None,
    output: Picture = None,
) -> int:
    """Show what each client does in one round of a run with a clock: computing, sending, and waiting for others.

    Given the folder of a comparison, the methods are drawn below each other, over the same seconds; with several seeds,
    the runs with the first one.
    """
    if output is not None:
        check_picture(output, "output")
    folders_in(folder)  # refused if it is none
    with loading():
        from smofi.cli.reading import reading
        from smofi.report.timeline import read_timelines, save_timelines, timeline_table
    with reading(str(folder)) as progress:
        timelines = read_timelines(folder, round, progress)
    for one in timelines:
        console.print(timeline_table(one), "", sep="\n")
    if output is not None:
        print(f"Picture: {save_timelines(output, timelines)}")
    return 0


def export(
    folder: Folder,
    destination: Annotated[
        Path | None, Parameter(help="the folder to write to; by default export, in the run's folder")
    ] = None,
    /,
    *,
    format: Annotated[
        list[str] | None, Parameter(help="safetensors, torch or onnx; by default all of them", **SEVERAL)
    ] = None,
    part: Annotated[
        str | None, Parameter(help="client or server, for split inference; by default the whole model")
    ] = None,
    cut: Annotated[str | None, Parameter(help="where to split the model, if not where the run did")] = None,
    best: Annotated[
        bool, Parameter(help="export the round with the best validation accuracy, not the last", negative=())
    ] = False,
) -> int:
    """Write a run's trained model for plain torch or ONNX, whole or one side of the cut, with a model card.

    The whole model comes with predict.py, which classifies raw input without smofi.
    """
    for name in format or ():
        check_choice("--format", name, FORMATS)
    target = destination or folder / ("export" if part is None else f"export-{part}")
    check_request(folder, target, format, part)
    with loading():
        from smofi.export import export_run
    exported = export_run(folder, target, format, part, cut, best)
    for note in exported.notes:
        remark(f"note: {note}")
    print("\n".join(str(exported.folder / name) for name in exported.files))
    return 0
