"""What a round costs, counted and not timed: instructions of Python, and bytes written to a folder. A busy machine
changes neither."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from smofi.engine.events import Callback, Event, RoundDone
from smofi.engine.run import Run


def instructions_of_third_round(run: Run, callback: Callback) -> int:
    """How many instructions of Python the run's third round from here takes, with all that is done after the second;
    then the run is interrupted. The two before look back at what was there."""
    counter, done = Instructions(), 0

    def follow(event: Event) -> None:
        nonlocal done
        callback(event)
        if isinstance(event, RoundDone):
            done += 1
            if done == 2:
                counter.start()
            elif done == 3:
                counter.stop()
                run.interrupt()

    run.emit = follow
    try:
        run.train()
    finally:
        counter.stop()
    return counter.count


class Instructions:
    """Counts the instructions of this thread, in functions that are called from `start` to `stop`."""

    def __init__(self) -> None:
        self.count = 0
        self.before: Callable[..., Any] | None = None
        self.counting = False

    def start(self) -> None:
        self.before, self.counting = sys.gettrace(), True
        sys.settrace(self._trace)

    def stop(self) -> None:
        if self.counting:
            sys.settrace(self.before)
            self.counting = False

    def _trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self._trace


class Written:
    """Counts the bytes that were written to the files of a folder since it was asked last: what was added at the end
    of a file that is otherwise as before, all of a file that is new or was replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Written(Path(folder))
    ...     _ = (Path(folder) / "a").write_text("12345")
    ...     first = written.bytes()
    ...     with open(Path(folder) / "a", "a") as file:
    ...         _ = file.write("67")
    ...     first, written.bytes()
    (5, 2)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen = self._files()

    def bytes(self) -> int:
        before, self.seen = self.seen, self._files()
        return sum(self._added(before.get(path), now) for path, now in self.seen.items())

    def _files(self) -> dict[Path, tuple[int, bytes]]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path: (path.stat().st_ino, path.read_bytes()) for path in files}

    @staticmethod
    def _added(before: tuple[int, bytes] | None, now: tuple[int, bytes]) -> int:
        if before and before[0] == now[0] and now[1].startswith(before[1]):
            return len(now[1]) - len(before[1])
        return len(now[1])
