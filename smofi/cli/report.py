"""The command that writes runs as a page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.claiming import RUNS
from smofi.cli.streams import loading
from smofi.errors import check_path
from smofi.report.asked import check_page
from smofi.runs import folders_in

PAGE = Path("report.html")


def report(
    *runs: Annotated[
        Path, Parameter(help="folders of runs or comparisons, or folders with several below them; by default runs")
    ],
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="the page, a file that ends in .html")] = PAGE,
    title: Annotated[str | None, Parameter(help="the heading of the page")] = None,
    force: Annotated[
        bool, Parameter(help="overwrite the file even if it is not a page that smofi wrote", negative=())
    ] = False,
) -> int:
    """Write runs as one HTML page: results, curves with bands over seeds, the clients' data, and what each run is.

    The page needs no network and no file beside it, so it can be given to others as it is.
    """
    check_page(output, "--output", force=force)
    given = runs or (RUNS,)
    for run in given:
        if not check_path("RUN", run).is_dir():
            folders_in(run)  # refused: it is none
    with loading():
        from smofi.report.page import write_page
    print(f"Page: {write_page(given, output, title, force=force)}")
    return 0
