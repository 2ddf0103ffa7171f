"""Training with everything around it: workers, display, trackers, and signals that end a run after the round."""

from __future__ import annotations

import shlex
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Literal, TypeAlias

from smofi import experiment
from smofi.cli.program import COMMAND_LINE, complain, console
from smofi.cli.reading import reading
from smofi.cli.results import print_results
from smofi.config import Config
from smofi.engine.events import Event
from smofi.engine.processes.endings import ENDINGS
from smofi.engine.processes.starting import Launcher, follows
from smofi.engine.processes.starting import workers as started_workers
from smofi.errors import TrainingWarning
from smofi.experiment import FolderRun
from smofi.experiment.following import follow, follow_on
from smofi.report import History
from smofi.report.live import Live
from smofi.track import combine, tracker
from smofi.training import Result

Display: TypeAlias = Literal["auto", "live", "plain", "quiet", "jsonl"]


@dataclass(frozen=True)
class TrainingJob:
    """What is to be trained, in which folder, and how it is shown and tracked."""

    config: Config
    folder: Path
    resumed: bool
    display: Display
    trackers: Sequence[str]


def train_together(job: TrainingJob, workers: int) -> int:
    """Train with this many workers, of which this process is one. Returns the exit code."""
    config = job.config
    with started_workers(workers, config.device, COMMAND_LINE, complain) as launcher:
        if follows():
            follow(config, job.folder if job.resumed else None)
            return 0
        live = Live(console, list(config.method), config.rounds, job.display)
        runs = _open(job, live, launcher)
        live.say(
            f"{config.data} by {config.partition}, {config.model} cut at {config.cut}, {config.rounds} rounds, "
            f"seed {config.seed}, {workers} worker{'s' * (workers > 1)}, in {job.folder}"
        )
        launcher.launch(lambda: follow_on(runs))
        return _train_all(job, runs, live)


def _open(job: TrainingJob, live: Live, launcher: Launcher) -> list[FolderRun]:
    """The runs ready to train, and what they did before they were resumed shown."""
    command = shlex.join(["smofi", *COMMAND_LINE])
    with reading(job.config.data) as progress, _shown_by_events():
        runs = (
            experiment.resume(job.folder, job.config, live, progress, launcher.workers)
            if job.resumed
            else experiment.start(job.config, job.folder, live, command, progress, launcher.workers)
        )
    for number, (method, one) in enumerate(zip(job.config.method, runs, strict=True)):
        live.recall(number, History.of(method, one.session.run.history))
    return runs


def _train_all(job: TrainingJob, runs: list[FolderRun], live: Live) -> int:
    """Train what is left to train, then report. Exit code 1 for a run that diverged, 128 + n after signal n."""
    started = time.perf_counter()
    results: dict[str, Result] = {}
    training: list[FolderRun] = []
    with _finishing_the_round(training) as caught, live, _shown_by_events():
        while runs and not caught:
            training[:] = [one] = [runs.pop(0)]  # nothing else refers to it, so its rows are freed before the next one
            results[one.name] = _train_one(job, one, live, caught)
    if live.mode != "jsonl":
        print_results(job.config, job.folder, results, time.perf_counter() - started, live.mode)
    if caught and (runs or any(result.interrupted for result in results.values())):
        complain(f"interrupted; continue with: smofi run --resume {job.folder}")
        return 128 + caught[0]
    return 1 if any(result.diverged for result in results.values()) else 0


def _train_one(job: TrainingJob, one: FolderRun, live: Live, caught: list[int]) -> Result:
    """Train one run, seen by the display and the trackers."""
    announced: list[bool] = []

    def announce(event: Event) -> None:
        if caught and not announced:
            announced.append(True)
            live.say("finishing the round, then saving; interrupt again to quit at once")

    settings = job.config.model_dump() | {"method": one.name, "executor": one.executor}
    trackers = [tracker(name, one.folder.path, settings, one.name) for name in job.trackers]
    with combine(live, announce, *trackers) as one.session.run.emit:
        result = one.train()
    for failed in (tracked.failed for tracked in trackers if tracked.failed):
        live.say(failed)
    return result


@contextmanager
def _shown_by_events() -> Iterator[None]:
    """Python's own warnings are left out: Live shows the event that comes with each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)
        yield


@contextmanager
def _finishing_the_round(training: list[FolderRun]) -> Iterator[list[int]]:
    """Ctrl-C, SIGTERM and a closed terminal end a run after the current round; a second one ends it at once."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)
        for one in training:
            one.session.run.interrupt()

    before = {number: signal.signal(number, stop) for number in ENDINGS}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
