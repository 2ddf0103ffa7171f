"""A run at a glance, from the files in its folder alone: finished, still going, interrupted or diverged.

snapshot.py    what the files say at this moment
facts.py       a run's settings, progress, files and diagnostics, as rows of text
views.py       one run with its curve, or several methods side by side
listing.py     the runs in a folder, a row for each

It only reads, and takes no lock, so that looking never disturbs the process that writes.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import RenderableType

from smofi.report.show.listing import RunsView, entries_below, missing_config
from smofi.report.show.snapshot import Snapshot, snapshots_in
from smofi.report.show.views import ComparisonView, RunView

__all__ = ["RunsView", "Snapshot", "entries_below", "missing_config", "show_runs", "snapshots_in"]


def show_runs(folder: Path, runs: list[Snapshot]) -> RenderableType:
    """What `smofi show` prints about the runs in a folder: the one whose folder it is, or those of a comparison."""
    return RunView(runs[0]) if runs[0].path == folder else ComparisonView(folder, runs)
