"""Several callbacks as one."""

from __future__ import annotations

from types import TracebackType

from smofi.engine.events import Callback, Event
from smofi.track.tracker import Tracker


class Combined:
    """Calls each callback with every event, in turn, and closes those that are trackers."""

    def __init__(self, callbacks: tuple[Callback, ...]) -> None:
        self.callbacks = callbacks

    def __call__(self, event: Event) -> None:
        """The callback of a run."""
        for callback in self.callbacks:
            callback(event)

    def close(self, completed: bool = True) -> None:
        """Close the trackers."""
        for callback in self.callbacks:
            if isinstance(callback, (Tracker, Combined)):
                callback.close(completed)

    def __enter__(self) -> Combined:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(completed=error is None)


def combine(*callbacks: Callback) -> Combined:
    """One callback that calls each of these, in this order.

    >>> from smofi.engine.events import Warned
    >>> seen = []
    >>> combine(seen.append, lambda event: seen.append(event.message))(Warned("careful"))
    >>> seen
    [Warned(message='careful'), 'careful']
    """
    return Combined(callbacks)
