"""A run that shows how it goes: the display of `smofi run`, for Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from smofi.engine.events import Event
from smofi.engine.run import Run
from smofi.errors import TrainingWarning


@contextmanager
def shown(run: Run) -> Iterator[None]:
    """The run's events go to a display as well as to its callback."""
    # The report stands above this room and is loaded only here, when it is asked for: pyproject.toml has the exception.
    from smofi.report.inline import display

    callback = run.emit
    with warnings.catch_warnings(), display(run.planner.method.name, run.rounds) as live:
        warnings.simplefilter("ignore", TrainingWarning)  # the display shows the event that comes with it

        def both(event: Event) -> None:
            live(event)
            callback(event)

        run.emit = both
        try:
            yield
        finally:
            run.emit = callback
