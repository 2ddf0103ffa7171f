"""Runs as they go: a picture that grows on a terminal, a line now and then elsewhere, JSON lines for programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from types import TracebackType
from typing import Protocol

from rich.console import Console

from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.errors import check_choice
from smofi.files import to_json
from smofi.plural import plural
from smofi.report.history import History, Scale
from smofi.report.numbers import hours_minutes_seconds, three_digits
from smofi.report.progress import RunProgress, peak_memory, seconds_left_in_all
from smofi.report.screen import Screen

MODES = ("auto", "live", "plain", "quiet", "jsonl")
LINE_EVERY = 2.0  # seconds


class View(Protocol):
    """One way to show events."""

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def say(self, text: str, warning: bool = False) -> None: ...
    def show(self, event: Event, run: RunProgress) -> None: ...


class Live:
    """The callback of several runs, seed by seed and method by method: follows each and shows it as `mode` says.

    >>> with Live(Console(), ["smofi"], rounds=1, mode="plain") as live:
    ...     live.say("ready")
    ready
    """

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
        views: dict[str, Callable[[], View]] = {
            "live": lambda: Screen(console, self.runs, now),
            "plain": lambda: Lines(console, self.runs, now),
            "quiet": lambda: Quiet(console),
            "jsonl": lambda: JsonLines(console),
        }
        self.view = views[mode]()

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
        """Give the run of this number, from 0, the rounds it did before it was resumed, for its curve and its best.

        What those rounds took says nothing about the rounds of this process.
        """
        history.seconds = []
        self.runs[number].history = history

    def __call__(self, event: Event) -> None:
        """Take note of an event, and show it."""
        if isinstance(event, RunStarted):
            self.current += 1
            if self.current == 0:
                self.view.say(_about(event))
            if event.computed and self.current < len(self.methods):  # once for all seeds
                self.view.say(f"{event.method}: {event.computed}")
        run = self.runs[max(0, self.current)]
        _follow(run, event)
        if isinstance(event, Warned):
            if self.current >= 0:
                self.view.say(f"{_label(run, self.runs)}: {event.message}", warning=True)
            else:  # before the first run has started, it may be any of them
                self.view.say(event.message, warning=True)
        self.view.show(event, run)


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
    """Which of the runs it is: its method, and its seed if there are several.

    >>> runs = [RunProgress(History("smofi", seed=seed), 5) for seed in (0, 1)]
    >>> _label(runs[1], runs), _label(runs[0], runs[:1])
    ('smofi, seed 1', 'smofi')
    """
    several = len({one.history.seed for one in runs}) > 1
    return f"{run.history.name}, seed {run.history.seed}" if several else run.history.name


def _about(event: RunStarted) -> str:
    small = event.clients - event.eligible
    never = "has less than a batch and never takes part" if small == 1 else "have less than a batch and never take part"
    clients = f"{plural(event.clients, 'client')}, {event.per_round} a round"
    return f"{clients}, {plural(event.parameters, 'parameter')}" + (
        f"; {plural(small, 'client')} {never}" if small else ""
    )


class Quiet:
    """Warnings only."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def show(self, event: Event, run: RunProgress) -> None: ...

    def say(self, text: str, warning: bool = False) -> None:
        if warning:
            _print(self.console, f"warning: {text}")


class Lines:
    """A line for the first and the last round of a run, and for one in between whenever two seconds have passed. With
    several seeds, a line for each run that begins."""

    def __init__(self, console: Console, runs: Sequence[RunProgress], now: Callable[[], float]) -> None:
        self.console, self.runs, self.now = console, runs, now
        self.printed_at = -LINE_EVERY
        self.unprinted: Record | None = None  # the latest round, as long as it has no line

    def start(self) -> None: ...
    def stop(self) -> None: ...

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
            if (
                len(run.history.seconds) == 1
                or run.history.rounds == run.rounds
                or self.now() - self.printed_at >= LINE_EVERY
            ):
                self._flush(run)
        elif isinstance(event, RunEnded):  # it may have ended early
            self._flush(run)

    def _flush(self, run: RunProgress) -> None:
        if self.unprinted:
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


class JsonLines:
    """One JSON object a line for every event but the ticks, of which a round may have thousands."""

    def __init__(self, console: Console) -> None:
        self.file = console.file

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def say(self, text: str, warning: bool = False) -> None: ...  # a warning is an event of its own

    def show(self, event: Event, run: RunProgress) -> None:
        if isinstance(event, TickDone):
            return
        fields = asdict(event.record if isinstance(event, RoundDone) else event)
        time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        which = {"method": run.history.name, "seed": run.history.seed}
        self.file.write(to_json({"event": type(event).__name__, "time": time, **which, **fields}) + "\n")
        self.file.flush()


def _print(console: Console, text: str) -> None:
    """A line as it is: no colours, no wrapping."""
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
