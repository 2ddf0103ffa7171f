"""The command that repeats the paper's tables and figures: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.claiming import RUNS
from smofi.cli.loading import loading
from smofi.errors import check_choice, check_count, refuse
from smofi.reproduce.items import ITEMS, SCALES
from smofi.reproduce.seeds import read_seeds


def reproduce(
    *names: Annotated[str, Parameter(help="one or more items, or all; without any, they are listed")],
    scale: Annotated[
        str, Parameter(help="small, on Fashion-MNIST and in minutes on a CPU; or paper, its own tasks in full")
    ] = "small",
    seeds: Annotated[str, Parameter(help="such as 0-2 or 0,3,5")] = "0-2",
    jobs: Annotated[int, Parameter(help="runs at a time")] = 1,
    output: Annotated[
        Path | None, Parameter(help="the folder of the runs and figures; by default runs/reproduce/SCALE")
    ] = None,
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
    check_count("jobs", jobs)
    given = read_seeds("seeds", seeds)
    modes = {"dry_run": dry_run, "show": show, "collect": collect, "page": page}
    asked = [name for name, value in modes.items() if value]
    if len(asked) > 1:
        refuse(asked[1], modes[asked[1]], f"one at a time, not together with --{asked[0].replace('_', '-')}")
    chosen = list(ITEMS) if "all" in names else [check_choice("name", name, ITEMS) for name in names]
    store = output or RUNS / "reproduce" / scale
    with loading():
        from smofi.cli import reproducing
    if page is not None:
        return reproducing.make_page(page, given)
    if collect is not None:
        return reproducing.collect_into(collect, store)
    if not names and not dry_run:
        return reproducing.list_items(scale, given, store)
    items = [ITEMS[name].at(scale) for name in chosen or ITEMS]
    if dry_run:
        return reproducing.check_items(items, given)
    code = 0 if show else reproducing.run_items(items, given, store, jobs)
    for one in items:
        reproducing.print_item(one, given, store)
    return code
