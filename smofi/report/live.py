"""Show runs as they go: a picture that grows on a terminal, a line now and then elsewhere, JSON lines for programs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live as Frame
from rich.segment import Segment, Segments
from rich.text import Text

from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.errors import check_choice
from smofi.files import to_json
from smofi.plural import plural
from smofi.report.curves import NARROWEST, WIDEST, bar, can_braille, draw_curves
from smofi.report.numbers import hours_minutes_seconds, mebibytes, three_digits
from smofi.report.results import History, RunProgress, Scale, Thinned, seconds_left_in_all
from smofi.report.style import DIM, looks

# --------------------------------------------------------------------------------------------------------------------
# Following runs by their events.

MODES = ("auto", "live", "plain", "quiet", "jsonl")


class View:
    """A way to show events. What is said is for people; a warning stands out. This one shows nothing but warnings."""

    def __init__(self, console: Console, runs: Sequence[RunProgress], now: Callable[[], float]) -> None:
        self.console, self.runs, self.now = console, runs, now

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def show(self, event: Event, run: RunProgress) -> None: ...
    def say(self, text: str, warning: bool = False) -> None:
        if warning:
            _print(self.console, f"warning: {text}")


class Live:
    """The callback of several runs, seed by seed and method by method: follows each and shows it as `mode` says."""

    def __init__(
        self,
        console: Console,
        methods: Sequence[str],
        rounds: int,
        mode: str = "auto",
        *,
        seeds: Sequence[int] = (0,),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        check_choice("display", mode, MODES)
        if mode == "auto":
            mode = "live" if console.is_terminal and not console.is_dumb_terminal else "plain"
        self.mode, self.methods = mode, methods
        self.runs = [RunProgress(History(method, seed=seed), rounds) for seed in seeds for method in methods]
        self.current = -1
        view = {"live": Screen, "plain": Lines, "quiet": View, "jsonl": JsonLines}[mode]
        self.view = view(console, self.runs, now)

    def __enter__(self) -> Live:
        self.view.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.view.stop()

    def say(self, text: str) -> None:
        """Print a sentence for people: not with `quiet`, and not for programs."""
        self.view.say(text)

    def recall(self, number: int, history: History) -> None:
        """Give the run of this number, from 0, the rounds it did before it was resumed, for its curve and its best."""
        history.seconds = []  # they say nothing about the rounds of this process
        self.runs[number].history = history

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self.current += 1
            if self.current == 0:
                clients = f"{plural(event.clients, 'client')}, {event.per_round} a round"
                text = f"{clients}, {plural(event.parameters, 'parameter')}"
                if small := event.clients - event.eligible:
                    have, take = ("have", "take") if small > 1 else ("has", "takes")
                    text += f"; {plural(small, 'client')} {have} less than a batch and never {take} part"
                self.view.say(text)
            if event.computed and self.current < len(self.methods):  # once for all seeds
                self.view.say(f"{event.method}: {event.computed}")
        run = self.runs[max(0, self.current)]
        _follow(run, event)
        if isinstance(event, Warned):
            # before the first run has started, it may be any of them
            which = f"{_label(run, self.runs)}: " if self.current >= 0 else ""
            self.view.say(f"{which}{event.message}", warning=True)
        self.view.show(event, run)


def display(method: str, rounds: int) -> Live:
    """Return the display of one run that Python called, on standard error, which leaves standard output to what the
    program itself prints. A notebook colours that as errors, so there it is standard output."""
    console = Console(stderr=True)
    if console.is_jupyter:
        console = Console(file=sys.stdout, force_jupyter=False)
        live = Live(console, [method], rounds, "plain")
        live.view = NotebookLine(console, live.runs, time.monotonic)
        return live
    return Live(console, [method], rounds, "auto" if console.width >= NARROWEST else "plain")


def _follow(run: RunProgress, event: Event) -> None:
    history = run.history
    if isinstance(event, RunStarted):
        history.name, run.rounds, run.state = event.method, event.rounds, "running"
        if list(event.metrics) != list(history.metrics):
            history.judge_by(event.metrics)
        history.metrics = event.metrics
        history.begin_after(event.done)
    elif isinstance(event, RoundStarted):
        run.in_round, run.ticks = 0.0, max(event.steps, default=1)
    elif isinstance(event, TickDone):
        run.in_round = min(1.0, (event.tick + 1) / run.ticks)
    elif isinstance(event, RoundDone):
        run.in_round = 0.0
        history.add(event.record)
    elif isinstance(event, RunEnded):
        run.in_round, run.state = 0.0, "stopped" if event.stopped else "done"


def _label(run: RunProgress, runs: Sequence[RunProgress]) -> str:
    several = len({one.history.seed for one in runs}) > 1
    return f"{run.history.name}, seed {run.history.seed}" if several else run.history.name


def peak_memory() -> str:
    """Return the most memory this process has used so far; empty where the system does not say."""
    try:
        import resource
    except ImportError:
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mebibytes(peak if sys.platform == "darwin" else 1024 * peak)  # macOS counts bytes, others KiB


# --------------------------------------------------------------------------------------------------------------------
# Lines, for people and for programs.

LINE_EVERY = 2.0  # seconds


def _print(console: Console, text: str) -> None:
    """Print a line as it is: no colours, no wrapping."""
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)


class Lines(View):
    """A line for the first and the last round of a run, and for one in between whenever two seconds have passed. With
    several seeds, a line for each run that begins."""

    printed_at = -LINE_EVERY
    unprinted: Record | None = None  # the latest round, as long as it has no line

    def say(self, text: str, warning: bool = False) -> None:
        _print(self.console, f"warning: {text}" if warning else text)

    def show(self, event: Event, run: RunProgress) -> None:
        if isinstance(event, RunStarted) and (label := _label(run, self.runs)) != run.history.name:
            left = seconds_left_in_all(self.runs)
            time = f", about {hours_minutes_seconds(left)} left in all" if left is not None else ""
            number = sum(one.state != "waiting" for one in self.runs)
            self.say(f"run {number} of {len(self.runs)}: {label}{time}")
        if isinstance(event, RoundDone):
            self.unprinted = event.record
        first_or_last = len(run.history.seconds) == 1 or run.history.rounds == run.rounds
        due = isinstance(event, RoundDone) and (first_or_last or self.now() - self.printed_at >= LINE_EVERY)
        if self.unprinted and (due or isinstance(event, RunEnded)):  # it may have ended early
            _print(self.console, self._line(run, self.unprinted))
            self.printed_at, self.unprinted = self.now(), None

    def _line(self, run: RunProgress, record: Record) -> str:
        history = run.history
        name = f"{_label(run, self.runs):<{max(len(_label(one, self.runs)) for one in self.runs)}}"
        round = f"{history.rounds:>{len(str(run.rounds))}}/{run.rounds}"
        pace, left = three_digits(run.seconds_per_round), hours_minutes_seconds(run.seconds_left)
        virtual = ""
        if record.virtual_end is not None:
            last = f"(+{three_digits(record.virtual_seconds)} s)"
            virtual = f"virtual {hours_minutes_seconds(record.virtual_end):>7} {last:<11}  "
        metric = Scale.of([history])
        measured = f"{metric.short} {metric.text(history.last):>6}  best {metric.text(history.best):>6}  "
        for other in history.others:
            scale = Scale.of([other])
            measured += f"{scale.short} {scale.text(other.last):>6}  "
        line = (
            f"{name}  round {round}  {measured}train loss {record.train_loss:<8.4g}  {pace:>6} s/round  "
            f"{left:>7} left  {virtual}{peak_memory()}"
        )
        return line.rstrip()


class JsonLines(View):
    """A JSON object a line for every event but the ticks, of which a round may have thousands."""

    def say(self, text: str, warning: bool = False) -> None: ...
    def show(self, event: Event, run: RunProgress) -> None:
        if isinstance(event, TickDone):
            return
        fields = asdict(event.record if isinstance(event, RoundDone) else event)
        time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        which = {"method": run.history.name, "seed": run.history.seed}
        line = to_json({"event": type(event).__name__, "time": time, **which, **fields})
        self.console.file.write(f"{line}\n")
        self.console.file.flush()


REWRITTEN_EVERY = 0.25  # seconds
BAR = 20  # characters


class NotebookLine(View):
    """A line that is rewritten as the run goes; what is said stands above it."""

    written_at, line = 0.0, ""

    def stop(self) -> None:
        """Leave the line as it is: what comes next begins on a new one."""
        if self.line:
            self._write("\n")
            self.line = ""

    def say(self, text: str, warning: bool = False) -> None:
        line = self.line
        self._write(f"\r{f'warning: {text}' if warning else text:<{len(line)}}\n{line}")

    def show(self, event: Event, run: RunProgress) -> None:
        due = self.now() - self.written_at >= REWRITTEN_EVERY
        if isinstance(event, RunEnded) or (due and isinstance(event, RoundDone | TickDone)):
            before, self.line, self.written_at = self.line, self._of(run), self.now()
            if self.line != before:
                self._write(f"\r{self.line:<{len(before)}}")

    def _of(self, run: RunProgress) -> str:
        history, metric = run.history, Scale.of([run.history])
        known = [f"{history.name}  {''.join(bar(run.done, BAR, unicode=True))}  round {history.rounds}/{run.rounds}"]
        if history.last is not None:
            known.append(f"{metric.short} {metric.text(history.last)}, best {metric.text(history.best)}")
        if run.state != "running":
            known.append(run.state)
        elif run.seconds_left is not None:
            known.append(f"{hours_minutes_seconds(run.seconds_left)} left")
        return ", ".join(known)

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()


# --------------------------------------------------------------------------------------------------------------------
# The live picture of runs on a terminal: a row each, the curves as they grow, and a line about time and memory. Of
# several seeds, it shows the one that is being trained.

FRAME_EVERY = 0.25  # seconds
HIGHEST, LOWEST = 15, 6  # lines of the curves
OPTIONAL = ("virtual", "s/round", "best", "left")  # left out, in this order, where the terminal is too narrow
WIDER = ("left", "s/round", "virtual")


class Screen(View):
    """Redraws in place when something happened, four times a second at most; what was drawn last stays."""

    def __init__(self, console: Console, runs: Sequence[RunProgress], now: Callable[[], float]) -> None:
        super().__init__(console, runs, now)
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
    def shown(self) -> list[RunProgress]:
        """The runs with the seed that is being trained."""
        return [run for run in self.runs if run.history.seed == self.seed]

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

    def _thin(self) -> None:
        """Give all rounds to come their place already, so that the curves grow and nothing else moves."""
        rounds = max(max(run.rounds, run.history.rounds) for run in self.shown)
        self.thinned = [Thinned(run.history, rounds) for run in self.shown]

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
        rows = self._rows(self.console.width - 1)  # some terminals wrap a full line
        elapsed, left = self.now() - self.started, seconds_left_in_all(self.runs)
        done = sum(run.state in ("done", "stopped") for run in self.runs)
        texts = [f"{done} of {len(self.runs)} runs done"] if self.several_seeds else []
        texts.append(f"{hours_minutes_seconds(elapsed)} gone")
        if left is not None:
            texts.append(f"about {hours_minutes_seconds(left)} left in all")
        if peak := peak_memory():
            texts.append(f"peak memory {peak}")
        footer = Text(", ".join(texts), style=DIM, no_wrap=True, overflow="ellipsis")
        room = self.console.height - len(rows) - 4  # footer, legend, and a line for the cursor
        return Group(*rows, *self._drawn(min(room, HIGHEST)), footer)

    def _cells(self) -> tuple[dict[str, list[str]], list[str]]:
        """Return the texts of each column below its heading, and the headings that may be left out, first to last."""
        histories = [run.history for run in self.shown]
        metric = Scale.of(histories)
        columns: dict[str, Callable[[RunProgress], str]] = {
            "round": lambda run: f"{run.history.rounds}/{run.rounds}",
            metric.short: lambda run: metric.text(run.history.last),
            "best": lambda run: metric.text(run.history.best),
            "s/round": lambda run: three_digits(run.seconds_per_round),
            "left": lambda run: hours_minutes_seconds(run.seconds_left) if run.state == "running" else run.state,
        }
        if any(run.history.hours for run in self.shown):
            columns["virtual"] = lambda run: hours_minutes_seconds(run.history.virtual_seconds)
        cells = {head: [head, *map(column, self.shown)] for head, column in columns.items()}
        further = []
        for same in zip(*(history.others for history in histories), strict=False):
            other = Scale.of(same)
            further.append(other.short)
            cells[other.short] = [other.short, *(other.text(history.last) for history in same)]
        return cells, [*reversed(further), *OPTIONAL, metric.short]

    def _rows(self, width: int) -> list[Text]:
        cells, optional = self._cells()
        widths = {head: max(*map(len, texts), 7 if head in WIDER else 6) for head, texts in cells.items()}
        names = [run.history.name for run in self.shown]
        keys = looks(names)
        if len(names) > 1:  # these rows are the legend of the curves
            names = [f"{key.glyph} {name}" for key, name in zip(keys, names, strict=True)]
        heading = f"seed {self.seed}" if self.several_seeds else "method"
        longest = max(len(heading), *map(len, names))
        for head in optional:
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
                    filled, empty = bar(self.shown[number - 1].done, bar_width, unicode=self.unicode)
                line = Text("  ").join([line, Text(filled) + Text(empty, style=DIM)])
            texts = "".join(f"  {cells[head][number]:>{size}}" for head, size in widths.items())
            lines.append(line + Text(texts, style="" if number else DIM))
        lines[0].stylize(DIM)
        for line in lines:
            line.no_wrap, line.overflow = True, "crop"
        return lines

    def _drawn(self, height: int) -> list[RenderableType]:
        """Return the curves, drawn anew only after a round: they are most of the work."""
        if height < LOWEST or all(run.history.best is None for run in self.shown):
            return []
        width = max(NARROWEST, min(self.console.width - 1, WIDEST))
        key = (self.seed, width, height, *(run.history.rounds for run in self.shown))
        if self.curves[0] != key:
            histories = [History(one.history.name, one.values(), metrics=one.history.metrics) for one in self.thinned]
            rounds, encoding = self.thinned[0].rounds, self.console.encoding
            drawn = draw_curves(histories, width=width, height=height, encoding=encoding, rounds=rounds)
            without_legend = Text("\n").join(drawn.split("\n")[: height + 1])
            without_legend.no_wrap, without_legend.overflow = True, "crop"
            lines = self.console.render_lines(without_legend, pad=False)
            self.curves = (key, Segments([segment for line in lines for segment in [*line, Segment.line()]]))
        return [self.curves[1]]
