"""The command that repeats the paper's tables and figures: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.arguments import Display, flag
from smofi.cli.claiming import RUNS
from smofi.cli.loading import loading
from smofi.cli.sweep import Jobs
from smofi.errors import check_choice, check_count, refuse
from smofi.reproduce.asked import Asked
from smofi.reproduce.items import HETEROGENEITY, ITEMS, SCALES
from smofi.reproduce.seeds import read_seeds
from smofi.settings import checks

EVERYTHING = "all"


def reproduce(
    *names: Annotated[str, Parameter(help="one or more items, or all; without any, they are listed")],
    scale: Annotated[
        str, Parameter(help="small, on Fashion-MNIST and in minutes on a CPU; or paper, its own tasks in full")
    ] = "small",
    seeds: Annotated[str, Parameter(help="such as 0-2 or 0,3,5")] = "0-2",
    jobs: Jobs = None,
    device: Annotated[str, flag("device")] = "cpu",
    output: Annotated[
        Path | None, Parameter(help="the folder of the runs and figures; by default runs/reproduce/SCALE")
    ] = None,
    display: Annotated[
        Display, Parameter(help="how progress is shown; auto: live on a terminal, plain elsewhere")
    ] = "auto",
    dry_run: Annotated[
        bool, Parameter(help="check every run completely, without data, and list them", negative=())
    ] = False,
    show: Annotated[bool, Parameter(help="run nothing: show what is finished", negative=())] = False,
    collect: Annotated[
        Path | None, Parameter(help="run nothing: add the finished runs to the CSV files of this folder")
    ] = None,
    page: Annotated[
        Path | None, Parameter(help="run nothing: make this page (.md) from the CSV files in the folder of its name")
    ] = None,
) -> int:
    """Repeat the paper's tables and figures: run what an item needs, and print our numbers beside the paper's.

    Finished runs are kept and used by all items; what is interrupted goes on from there. Exit code 1 if a run fails.
    """
    check_choice("scale", scale, SCALES)
    if jobs is not None:
        check_count("jobs", jobs, high=1024)
    modes = {"dry_run": dry_run, "show": show, "collect": collect, "page": page}
    modes_given = [name for name, value in modes.items() if value]
    if len(modes_given) > 1:
        first, second, *_ = modes_given
        refuse(second, modes[second], f"one at a time, not together with --{first.replace('_', '-')}")
    known = [*ITEMS, HETEROGENEITY]
    chosen = known if EVERYTHING in names else [check_choice("name", name, [*known, EVERYTHING]) for name in names]
    if page is not None and page.suffix != ".md":
        refuse("page", str(page), "a file name that ends in .md")
    asked = Asked(
        scale,
        read_seeds("seeds", seeds),
        RUNS / "reproduce" / scale if output is None else output,
        jobs,
        checks.device("device", device),
    )
    with loading():
        from smofi.cli import reproducing
    if page is not None:
        return reproducing.make_page(page, asked.seeds)
    if collect is not None:
        return reproducing.collect_into(collect, asked)
    if dry_run:
        return reproducing.check_items(chosen or known, asked)
    if not names:
        return reproducing.list_items(asked)
    return reproducing.show_items(chosen, asked) if show else reproducing.run_items(chosen, asked, display)
