"""The bar that shows data being read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress as ProgressBar

from smofi.data.decoded import ReadProgress


@contextmanager
def reading(name: str) -> Iterator[ReadProgress]:
    """A bar on standard error while a data set is read; on a terminal only, and removed at the end."""
    terminal = Console(stderr=True)
    with ProgressBar(console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"reading {name}", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
