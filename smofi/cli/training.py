"""Training with everything around it: workers, display, trackers, and signals that end a run after the round."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from smofi import experiment
from smofi.cli.arguments import Display
from smofi.cli.claiming import claimed_folder
from smofi.cli.program import COMMAND_LINE, console
from smofi.cli.reading import reading
from smofi.cli.results import print_results
from smofi.cli.streams import LOSS, complain, remark
from smofi.config import Config
from smofi.engine.events import Event
from smofi.engine.processes.endings import Interrupted, follows, handled, in_turn
from smofi.engine.processes.starting import Launcher
from smofi.engine.processes.starting import workers as started_workers
from smofi.engine.processes.workers import WorkerGone
from smofi.errors import SmofiError, TrainingWarning
from smofi.experiment import FolderRun
from smofi.experiment.following import follow, follow_on
from smofi.experiment.opening import NotSaved
from smofi.memory import refusing
from smofi.plural import plural
from smofi.report import History
from smofi.report.live import Live
from smofi.report.names import seeds_of
from smofi.track import combine, tracker
from smofi.training import Result


@dataclass(frozen=True)
class TrainingJob:
    """What is to be trained, in which folder (None for a new one), and how it is shown and tracked."""

    config: Config
    folder: Path | None
    resumed: bool
    display: Display
    trackers: Sequence[str]


def train_together(job: TrainingJob, workers: int) -> int:
    """Train with this many workers, of which this process is one. Returns the exit code."""
    config, training = job.config, Training(job)

    def report_loss(how: str) -> None:
        complain(training.after_loss(how))

    with (
        warnings.catch_warnings(),
        started_workers(workers, config.device, COMMAND_LINE, complain, report_loss) as launcher,
    ):
        warnings.simplefilter("ignore", TrainingWarning)  # Live shows the event that comes with it
        if follows():
            follow(config, job.folder if job.resumed else None)
            return 0
        with claimed_folder(config.data) if job.folder is None else nullcontext(job.folder) as folder:
            training.open(folder, launcher)
        training.live.say(
            f"{config.data}, {config.partition}, {config.model} cut at {config.cut}, "
            f"{plural(config.rounds, 'round')}, {seeds_of(config)}, {plural(workers, 'worker')}, in {folder}"
        )
        if job.trackers:
            training.live.say(f"recorded in {' and '.join(job.trackers)}")
        launcher.launch(lambda: follow_on(training.runs))
        try:
            return training.train()
        except WorkerGone as error:
            raise SmofiError(training.after_loss(launcher.lost() or str(error))) from error


class Training:
    """The runs of a job, one after the other."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        config = job.config
        self.live = Live(console, list(config.method), config.rounds, job.display, seeds=config.each_seed)
        self.folder = Path()
        self.runs: list[FolderRun] = []
        self.current: FolderRun | None = None
        self.judged: dict[str, Any] = {}

    def open(self, folder: Path, launcher: Launcher) -> None:
        """Get the runs ready to train, and show what they did before they were resumed."""
        self.folder = folder
        LOSS.remark = f"the run goes on; see it with: smofi show {shlex.quote(str(folder))}"
        config, command = self.job.config, shlex.join(["smofi", *COMMAND_LINE])
        with reading(config.data) as progress, refusing("the run"):
            self.runs = (
                experiment.resume(folder, config, self.live, progress, launcher.workers)
                if self.job.resumed
                else experiment.start(config, folder, self.live, command, progress, launcher.workers)
            )
        self.judged = self.runs[0].judged  # of all of them
        for number, one in enumerate(self.runs):
            self.live.recall(number, History.of(one.name, one.session.run.history, one.seed, **self.judged))

    def train(self) -> int:
        """Train what is left to train, then report. Exit code 1 for a run that diverged, 2 for one that could not be
        saved, 128 + n after signal n."""
        started = time.perf_counter()
        results: dict[tuple[int, str], Result] = {}
        unsaved: list[NotSaved] = []
        with self._finishing_the_round() as caught, self.live:
            while self.runs and not caught:
                # nothing else refers to it, so its rows are freed before the next one
                self.current = one = self.runs.pop(0)
                try:
                    results[one.seed, one.name] = self._train_one(one, caught)
                except NotSaved as error:  # the others may fare better
                    results[one.seed, one.name] = error.result
                    unsaved.append(error)
        if self.live.mode != "jsonl":
            seconds = time.perf_counter() - started
            print_results(self.job.config, self.folder, results, self.judged, seconds, self.live.mode)
        for lost in unsaved:
            complain(str(lost))
        if caught and (self.runs or any(result.interrupted for result in results.values())):
            remark(f"Interrupted; continue with: {self._resumption()}")
            return 128 + caught[0]
        if unsaved:
            return 2
        return 1 if any(result.diverged for result in results.values()) else 0

    def after_loss(self, how: str) -> str:
        """A sentence about a worker that is lost: how, which round is saved, and the command that goes on."""
        one = self.current or (self.runs[0] if self.runs else None)
        saved = one.folder.saved_rounds() if one else []
        which = f" of {self._called(one)}" if one and one.folder.path != self.folder else ""
        safe = f"round {saved[-1]}{which} is saved: continue" if saved else f"no round{which} is saved yet: start again"
        return f"{how}, so the run cannot go on; {safe} with: {self._resumption()}"

    def _called(self, one: FolderRun) -> str:
        """A run's method, and its seed if there are several."""
        return f"{one.name}, seed {one.seed}" if self.job.config.seeds else one.name

    def _resumption(self) -> str:
        return f"smofi run --resume {shlex.quote(str(self.folder))}"

    def _train_one(self, one: FolderRun, caught: list[int]) -> Result:
        """Train one run, seen by the display and the trackers."""
        announced: list[bool] = []

        def announce(event: Event) -> None:
            if caught and not announced:
                announced.append(True)
                self.live.say("finishing the round, then saving; interrupt again to quit at once")

        own = self.job.config.with_seed(one.seed)
        settings = own.model_dump(exclude={"seeds"}) | {"method": one.name, "executor": one.executor}
        trackers = [tracker(name, one.folder.path, settings, self._called(one)) for name in self.job.trackers]
        with combine(self.live, announce, *trackers) as one.session.run.emit:
            result = one.train()
        for failed in (tracked.failed for tracked in trackers if tracked.failed):
            self.live.say(failed)
        return result

    @contextmanager
    def _finishing_the_round(self) -> Iterator[list[int]]:
        """Ctrl-C, SIGTERM and a closed terminal end a run after the current round; a second one ends it at once."""
        caught: list[int] = []

        def stop(number: int, frame: FrameType | None) -> None:
            caught.append(number)
            if self.current:
                self.current.session.run.interrupt()

        def quit(number: int, frame: FrameType | None) -> None:
            raise Interrupted(number)

        with handled(in_turn(stop, quit)):
            yield caught
