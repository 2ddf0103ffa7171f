"""The live picture of runs on a terminal: a row each, the curves as they grow, and a line about time and memory. Of
several seeds, it shows the one that is being trained."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live as Frame
from rich.segment import Segment
from rich.text import Text

from smofi.engine.events import Event, RunEnded, RunStarted
from smofi.report.canvas import can_braille
from smofi.report.curves import NARROWEST, draw_curves
from smofi.report.curves.thinning import Thinned
from smofi.report.history import History, Scale
from smofi.report.numbers import hours_minutes_seconds, three_digits
from smofi.report.progress import RunProgress, bar, peak_memory, seconds_left_in_all
from smofi.report.style import DIM, looks

FRAME_EVERY = 0.25  # seconds
WIDEST, HIGHEST, LOWEST = 100, 15, 6  # of the curves
OPTIONAL = ("virtual", "s/round", "best", "left")  # left out, in this order, where the terminal is too narrow
WIDER = ("left", "s/round", "virtual")


class Screen:
    """Redraws in place when something happened, four times a second at most; what was drawn last stays."""

    def __init__(self, console: Console, runs: Sequence[RunProgress], now: Callable[[], float]) -> None:
        self.console, self.all, self.now = console, runs, now
        self.several_seeds = len({run.history.seed for run in runs}) > 1
        self.seed = runs[0].history.seed
        self.unicode = can_braille(console.encoding)
        self.frame = Frame(
            console=console,
            auto_refresh=False,
            vertical_overflow="crop",
            redirect_stdout=os.isatty(1),  # what goes to a file stays there
            redirect_stderr=os.isatty(2),
        )
        self.started = self.drawn_at = now()
        self.drawing, self.unsaid = False, list[tuple[str, bool]]()
        self.curves: tuple[object, RenderableType] = (None, "")
        self._thin()

    @property
    def runs(self) -> list[RunProgress]:
        """Those with the seed that is being trained."""
        return [run for run in self.all if run.history.seed == self.seed]

    def start(self) -> None:
        self.started = self.now()
        self._thin()
        self.frame.start()

    def stop(self) -> None:
        self._draw()
        self.frame.stop()

    def say(self, text: str, warning: bool = False) -> None:
        """Print above the picture; a signal may come while it is being drawn, and what is said then waits."""
        if self.drawing:
            self.unsaid.append((text, warning))
        else:
            self.console.print(Text(text, style="yellow" if warning else ""), soft_wrap=not self.frame.is_started)

    def show(self, event: Event, run: RunProgress) -> None:
        if isinstance(event, RunStarted):
            self.seed = run.history.seed
            self._thin()
        # RoundDone too waits its turn: rounds may take milliseconds
        if isinstance(event, (RunStarted, RunEnded)) or self.now() - self.drawn_at >= FRAME_EVERY:
            self._draw()

    def _draw(self) -> None:
        if not self.frame.is_started:
            return
        self.drawing = True
        try:
            self.frame.update(self.picture(), refresh=True)
        finally:
            self.drawing = False
        self.drawn_at = self.now()
        while self.unsaid:
            self.say(*self.unsaid.pop(0))

    def picture(self) -> RenderableType:
        """All of it, for the terminal's present size."""
        rows = self._rows(self.console.width - 1)  # some terminals wrap a full line
        footer = Text(self._footer(), style=DIM, no_wrap=True, overflow="ellipsis")
        room = self.console.height - len(rows) - 4  # footer, legend, and a line for the cursor
        return Group(*rows, *self._drawn(min(room, HIGHEST)), footer)

    def _rows(self, width: int) -> list[Text]:
        histories = [run.history for run in self.runs]
        metric = Scale.of(histories)
        columns: dict[str, Callable[[RunProgress], str]] = {
            "round": lambda run: f"{run.history.rounds}/{run.rounds}",
            metric.short: lambda run: metric.text(run.history.last),
            "best": lambda run: metric.text(run.history.best),
            "s/round": lambda run: three_digits(run.seconds_per_round),
            "left": lambda run: hours_minutes_seconds(run.seconds_left) if run.state == "running" else run.state,
        }
        if any(run.history.hours for run in self.runs):
            columns["virtual"] = lambda run: hours_minutes_seconds(run.history.virtual_seconds)
        cells = {head: [head, *map(column, self.runs)] for head, column in columns.items()}
        further = _further(histories)
        cells |= further
        widths = {head: max(*map(len, texts), 7 if head in WIDER else 6) for head, texts in cells.items()}
        names = [run.history.name for run in self.runs]
        keys = looks(names)
        if len(names) > 1:  # these rows are the legend of the curves
            names = [f"{key.glyph} {name}" for key, name in zip(keys, names, strict=True)]
        heading = f"seed {self.seed}" if self.several_seeds else "method"
        longest = max(len(heading), *map(len, names))
        for head in [*reversed(further), *OPTIONAL, metric.short]:
            if sum(widths.values()) + 2 * len(widths) + min(longest, 12) > width:
                widths.pop(head, None)
        room = width - sum(widths.values()) - 2 * len(widths)
        name_width = max(1, min(longest, room))
        bar_width = min(30, room - name_width - 2)
        lines = []
        for number, name in enumerate([heading, *names]):
            shown = name if len(name) <= name_width else name[: name_width - 1] + ("…" if self.unicode else ".")
            line = Text(f"{shown:<{name_width}}", style=keys[number - 1].colour if number else "")
            if bar_width >= 4:
                filled, empty = "", " " * bar_width
                if number:
                    filled, empty = bar(self.runs[number - 1].done, bar_width, unicode=self.unicode)
                line = Text("  ").join([line, Text(filled) + Text(empty, style=DIM)])
            texts = "".join(f"  {cells[head][number]:>{size}}" for head, size in widths.items())
            lines.append(line + Text(texts, style="" if number else DIM))
        lines[0].stylize(DIM)
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        return lines

    def _drawn(self, height: int) -> list[RenderableType]:
        """The curves, drawn anew only after a round: they are most of the work."""
        if height < LOWEST or all(run.history.best is None for run in self.runs):
            return []
        width = max(NARROWEST, min(self.console.width - 1, WIDEST))
        key = (self.seed, width, height, *(run.history.rounds for run in self.runs))
        if self.curves[0] != key:
            histories = [History(one.history.name, one.values(), metrics=one.history.metrics) for one in self.thinned]
            rounds, encoding = self.thinned[0].rounds, self.console.encoding
            picture = draw_curves(histories, width=width, height=height, encoding=encoding, rounds=rounds)
            without_legend = Text("\n").join(picture.split("\n")[: height + 1])
            self.curves = (key, Cached(self.console, without_legend))
        return [self.curves[1]]

    def _thin(self) -> None:
        """All rounds to come have their place already, so that the curves grow and nothing else moves."""
        rounds = max(max(run.rounds, run.history.rounds) for run in self.runs)
        self.thinned = [Thinned(run.history, rounds) for run in self.runs]

    def _footer(self) -> str:
        elapsed, left = self.now() - self.started, seconds_left_in_all(self.all)
        done = sum(run.state in ("done", "stopped") for run in self.all)
        texts = [f"{done} of {len(self.all)} runs done"] if self.several_seeds else []
        texts.append(f"{hours_minutes_seconds(elapsed)} gone")
        if left is not None:
            texts.append(f"about {hours_minutes_seconds(left)} left in all")
        if peak := peak_memory():
            texts.append(f"peak memory {peak}")
        return ", ".join(texts)


def _further(histories: Sequence[History]) -> dict[str, list[str]]:
    """A column for each further metric by its heading, which is the first cell: its latest value in every run."""
    columns = {}
    for same in zip(*(history.others for history in histories), strict=False):
        metric = Scale.of(same)
        columns[metric.short] = [metric.short, *(metric.text(history.last) for history in same)]
    return columns


class Cached:
    """Text that is already rendered."""

    def __init__(self, console: Console, text: Text) -> None:
        text.no_wrap, text.overflow = True, "crop"
        lines = console.render_lines(text, pad=False)
        self.segments = [segment for line in lines for segment in [*line, Segment.line()]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self.segments
