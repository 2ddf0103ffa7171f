"""The command that draws figures for a paper from finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.arguments import SEVERAL, Runs
from smofi.cli.claiming import RUNS
from smofi.cli.streams import complain, loading, remark
from smofi.report.asked import Request, Target, check_replaceable


def plot(
    *runs: Runs,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="the figure: a file that ends in .svg, .pdf or .png")
    ],
    kind: Annotated[
        str | None, Parameter(help="curves, panels (curves for each setup) or bars; by default curves or panels")
    ] = None,
    value: Annotated[
        tuple[str, ...],
        Parameter(
            help="of bars and points: accuracy (the best), mean (over rounds), rounds or hours (to the target)",
            **SEVERAL,
        ),
    ] = ("accuracy",),
    by: Annotated[
        str | None, Parameter(help="a panel or a group of bars for each value of this setting, or for each base")
    ] = None,
    over: Annotated[
        str | None, Parameter(help="points over this setting or parameter of a method, such as cut or alpha")
    ] = None,
    hours: Annotated[bool, Parameter(help="curves over virtual hours, or over rounds", negative="--rounds")] = False,
    target: Annotated[
        str, Parameter(help="of rounds and hours: a share of the baseline's best, or an accuracy such as 70%")
    ] = "0.9",
    baseline: Annotated[
        str, Parameter(help="the method that the target is a share of; dashed among points")
    ] = "fedavg",
    width: Annotated[str | None, Parameter(help="column or page; by default what suits the figure")] = None,
    own_axes: Annotated[
        bool,
        Parameter(help="each panel of curves has a range of values of its own; otherwise all the same", negative=()),
    ] = False,
    force: Annotated[bool, Parameter(help="replace the file even if smofi did not draw it", negative=())] = False,
) -> int:
    """Draw a figure for a paper from finished runs: curves with bands over seeds, bars or points with error bars.

    Bands and error bars are one standard deviation over seeds. Exit code 2 if a run cannot be read.
    """
    check_replaceable(output, "--output", force)
    request = Request(kind, value, by, over, hours, Target.read(target), baseline, width)
    if own_axes:
        request.check_curves("own_axes")
    with loading():
        from smofi.report.figures import figure_of
        from smofi.report.snapshots import gather
    gathered = gather(runs or (RUNS,))
    drawing = figure_of(gathered.counted, request, own_axes=own_axes)
    print(f"Figure: {drawing.save(output)}")
    for one in (one for left_out in gathered.left_out.values() for one in left_out):
        remark(f"note: {one.sentence}")
    for sentence in gathered.unreadable:
        complain(sentence)
    return 2 if gathered.unreadable else 0
