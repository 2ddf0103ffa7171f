"""The command that repeats the paper's tables and figures: reproduce."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from smofi.cli.entry import loading
from smofi.cli.flags import RUNS, Display, doc, flag
from smofi.cli.program import command
from smofi.cli.sweep import Jobs
from smofi.errors import check_choice, check_count, refuse
from smofi.reproduce.items import HETEROGENEITY, ITEMS, SCALES
from smofi.reproduce.results import Asked
from smofi.settings import definition as checks
from smofi.settings.definition import read_seeds

EVERYTHING = "all"


@command(
    "smofi reproduce",
    "smofi reproduce table1 --scale small --jobs 2",
    "smofi reproduce all --scale paper --dry-run",
)
def reproduce(
    *names: Annotated[str, doc("one or more items, or all; without any, they are listed")],
    scale: Annotated[
        str, doc("small, on Fashion-MNIST and in minutes on a CPU; or paper, its own tasks in full")
    ] = "small",
    seeds: Annotated[
        str | None, doc("such as 0-2 or 0,3,5; by default 0-4 for table1 and table2, 0-2 for the others")
    ] = None,
    jobs: Jobs = None,
    device: Annotated[str, flag("device")] = "cpu",
    output: Annotated[Path | None, doc("the folder of the runs and figures; by default runs/reproduce/SCALE")] = None,
    known: Annotated[
        Path | None,
        doc("results in the CSV files of this folder count as done, and are shown with the others"),
    ] = None,
    display: Display = "auto",
    dry_run: Annotated[bool, doc("check every run completely, without data, and list them")] = False,
    show: Annotated[bool, doc("run nothing: show what is finished")] = False,
    collect: Annotated[Path | None, doc("run nothing: add the finished runs to the CSV files of this folder")] = None,
    page: Annotated[
        Path | None, doc("run nothing: make this page (.md) from the CSV files in the folder of its name")
    ] = None,
) -> int:
    """Repeat the paper's tables and figures: run what an item needs, and print our numbers beside the paper's.

    Finished runs are kept and used by all items; what is interrupted goes on from there. Exit code 1 if a run fails.
    """
    check_choice("scale", scale, SCALES)
    if jobs is not None:
        check_count("jobs", jobs, high=1024)
    _check_modes({"dry_run": dry_run, "show": show, "collect": collect, "page": page}, names, known)
    every = [*ITEMS, HETEROGENEITY]
    asked_for = [check_choice("name", name, [*every, EVERYTHING]) for name in names]
    chosen = every if EVERYTHING in names else list(dict.fromkeys(asked_for))
    asked = Asked(
        scale,
        None if seeds is None else read_seeds("seeds", seeds),
        RUNS / "reproduce" / scale if output is None else output,
        jobs,
        checks.device("device", device),
        known,
    )
    with loading():
        from smofi.cli import reproducing
    if page is not None:
        return reproducing.make_page(page, asked.seeds)
    if collect is not None:
        return reproducing.collect_into(collect, asked)
    if dry_run:
        return reproducing.check_items(chosen or every, asked)
    if not names:
        return reproducing.list_items(asked)
    return reproducing.show_items(chosen, asked) if show else reproducing.run_items(chosen, asked, display)


def _check_modes(modes: Mapping[str, bool | Path | None], names: Sequence[str], known: Path | None) -> None:
    """Refuse what does not go together."""
    given = {name: str(value) if isinstance(value, Path) else value for name, value in modes.items() if value}
    for second in list(given)[1:]:
        first = next(iter(given)).replace("_", "-")
        refuse(second, given[second], f"one at a time, not together with --{first}")
    for alone in [name for name in given if name in ("collect", "page")]:
        if known is not None:
            refuse("known", str(known), f"no --{alone} with it")
        if alone == "page" and not str(given[alone]).endswith(".md"):
            refuse(alone, given[alone], "a file name that ends in .md")
        if names:
            refuse(alone, given[alone], "no names of items with it, for it takes all that there is")
