"""The live picture of runs on a terminal: a row each, the curves as they grow, and a line about time and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live as Frame
from rich.segment import Segment
from rich.text import Text

from smofi.engine.events import Event, RunEnded, RunStarted
from smofi.report.canvas import can_braille
from smofi.report.curves import FAINT, STYLES, draw
from smofi.report.progress import Progress, bar, clock, drawable, peak_memory, percent, three_digits

FRAME_EVERY = 0.25  # seconds
WIDEST, HIGHEST, LOWEST = 100, 15, 6  # of the curves
OPTIONAL = ("virtual", "s/round", "best")  # left out, in this order, where the terminal is too narrow
WIDER = ("left", "s/round", "virtual")


class Screen:
    """Redraws in place when something happened, four times a second at most; what was drawn last stays."""

    def __init__(self, console: Console, runs: Sequence[Progress], now: Callable[[], float]) -> None:
        self.console, self.runs, self.now = console, runs, now
        self.unicode = can_braille(console.encoding)
        self.frame = Frame(console=console, auto_refresh=False, vertical_overflow="crop")
        self.began = self.drawn_at = now()
        self.busy, self.held = False, list[tuple[str, bool]]()
        self.curves: tuple[object, RenderableType] = (None, "")

    def start(self) -> None:
        self.began = self.now()
        self.frame.start()

    def stop(self) -> None:
        self._draw()
        self.frame.stop()

    def say(self, text: str, warning: bool = False) -> None:
        """Print above the picture; a signal may come while it is being drawn, and what is said then waits."""
        if self.busy:
            self.held.append((text, warning))
        else:
            self.console.print(Text(text, style="yellow" if warning else ""), soft_wrap=not self.frame.is_started)

    def show(self, event: Event, run: Progress) -> None:
        # RoundDone too waits its turn: rounds may take milliseconds
        if isinstance(event, (RunStarted, RunEnded)) or self.now() - self.drawn_at >= FRAME_EVERY:
            self._draw()

    def _draw(self) -> None:
        if not self.frame.is_started:
            return
        self.busy = True
        try:
            self.frame.update(self.picture(), refresh=True)
        finally:
            self.busy = False
        self.drawn_at = self.now()
        while self.held:
            self.say(*self.held.pop(0))

    def picture(self) -> RenderableType:
        """All of it, for the terminal's present size."""
        rows = self._rows(self.console.width - 1)  # some terminals wrap a full line
        footer = Text(self._footer(), style=FAINT, no_wrap=True, overflow="ellipsis")
        room = self.console.height - len(rows) - 4  # footer, legend, and a line for the cursor
        return Group(*rows, *self._drawn(min(room, HIGHEST)), footer)

    def _rows(self, width: int) -> list[Text]:
        columns: dict[str, Callable[[Progress], str]] = {
            "round": lambda run: f"{run.done}/{run.rounds}",
            "last": lambda run: percent(run.last),
            "best": lambda run: percent(run.best),
            "s/round": lambda run: three_digits(run.pace),
            "left": lambda run: clock(run.left) if run.state == "running" else run.state,
        }
        if any(run.virtual is not None for run in self.runs):
            columns["virtual"] = lambda run: clock(run.virtual)
        cells = {head: [head, *map(column, self.runs)] for head, column in columns.items()}
        widths = {head: max(*map(len, texts), 7 if head in WIDER else 6) for head, texts in cells.items()}
        longest = max(6, *(len(run.name) for run in self.runs))
        for head in OPTIONAL:
            if sum(widths.values()) + 2 * len(widths) + min(longest, 12) > width:
                widths.pop(head, None)
        room = width - sum(widths.values()) - 2 * len(widths)
        name_width = min(longest, room)
        bar_width = min(30, room - name_width - 2)
        lines = []
        for number, name in enumerate(["method", *(run.name for run in self.runs)]):
            shown = name if len(name) <= name_width else name[: name_width - 1] + ("…" if self.unicode else ".")
            line = Text(f"{shown:<{name_width}}", style=STYLES[(number - 1) % len(STYLES)] if number else "")
            if bar_width >= 4:
                part = self.runs[number - 1].part if number else 0
                done, rest = bar(part, bar_width, unicode=self.unicode) if number else ("", " " * bar_width)
                line = Text("  ").join([line, Text(done) + Text(rest, style=FAINT)])
            texts = "".join(f"  {cells[head][number]:>{size}}" for head, size in widths.items())
            lines.append(line + Text(texts, style="" if number else FAINT))
        lines[0].stylize(FAINT)
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        return lines

    def _drawn(self, height: int) -> list[RenderableType]:
        """The curves, drawn anew only after a round: they are most of the work."""
        runs = [run for run in self.runs if drawable([run.accuracies])]
        if not runs or height < LOWEST:
            return []
        width = max(20, min(self.console.width - 1, WIDEST))
        key = (width, height, *(run.done for run in self.runs))
        if self.curves[0] != key:
            # all rounds to come have their place already, so that the curves grow and nothing else moves
            curves = {run.name: run.accuracies + [None] * (run.rounds - run.done) for run in self.runs}
            picture = draw(curves, width=width, height=height, encoding=self.console.encoding)
            # in colours, the rows above are the legend
            kept = picture.split("\n")[: height + 1] if self.unicode else picture.split("\n")
            self.curves = (key, Cached(self.console, Text("\n").join(kept)))
        return [self.curves[1]]

    def _footer(self) -> str:
        gone = self.now() - self.began
        known = [run.pace for run in self.runs if run.pace is not None]
        # a run that has not begun will take as long as the others
        ahead = [
            run.left if run.left is not None else (run.rounds - run.done) * sum(known) / len(known)
            for run in self.runs
            if known and run.state in ("running", "waiting")
        ]
        parts = [f"{clock(gone)} gone", *([f"about {clock(sum(ahead))} left in all"] if ahead else [])]
        return ", ".join([*parts, *([f"peak memory {peak}"] if (peak := peak_memory()) else [])])


class Cached:
    """Something already rendered."""

    def __init__(self, console: Console, text: Text) -> None:
        text.no_wrap, text.overflow = True, "crop"
        lines = console.render_lines(text, pad=False)
        self.segments = [segment for line in lines for segment in [*line, Segment.line()]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self.segments
