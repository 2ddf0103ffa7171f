"""The command that trains: run. Around the runs stand workers, a display, trackers, and signals that end them after a
round.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from smofi.cli.entry import LOST, complain, loading, remark
from smofi.cli.program import (
    COMMAND_LINE,
    HOW_TO_WRITE,
    NONE_GIVEN,
    ONE_OR_MORE,
    RUNS,
    Display,
    Flags,
    NewRun,
    Scale,
    Source,
    command,
    console,
    doc,
    print_line,
    reading,
    resolve_or_resume,
    settings_given,
)
from smofi.config import Config
from smofi.engine.processes.counting import keep_busy
from smofi.engine.processes.endings import Interrupted, follows, handled, in_turn
from smofi.errors import SmofiError, TrainingWarning, check_choice, refuse
from smofi.memory import refusing
from smofi.plural import plural
from smofi.runs import RunFolder, participants_in

if TYPE_CHECKING:
    from smofi.engine.events import Event
    from smofi.engine.processes.starting import Launcher
    from smofi.experiment import FolderRun
    from smofi.report.results import History
    from smofi.training import Result

NO_TRACKER = "none"
PAGE = Path("report.html")
WIDEST = 100  # of the curves, in characters


@command(
    "smofi run --method fedavg smofi --rounds 50 --output first",
    "smofi run cifar10 --scale small",
    "smofi run my.yaml --seeds 0-2",
    "smofi run --resume first",
    options=HOW_TO_WRITE,
)
def run(
    source: Source = None,
    /,
    *,
    flags: Flags = NONE_GIVEN,
    scale: Scale = None,
    output: NewRun = None,
    resume: Annotated[Path | None, doc("continue the run in this folder")] = None,
    display: Display = "auto",
    track: Annotated[
        list[str] | None,
        doc(
            "also record the run in tensorboard, wandb or mlflow; a resumed run keeps those it has, unless this is none"
        ),
        ONE_OR_MORE,
    ] = None,
) -> int:
    """Train, compare methods, and draw their learning curves on the terminal and into a picture.

    Without arguments: FedAvg, FedAvgM and SMoFi side by side, each with three seeds, on handwritten digits divided
    unevenly among 50 clients. With settings of your own there is one seed, unless --seeds gives more.
    Ctrl-C finishes the round, saves, and stops; `smofi run --resume DIR` goes on from there.
    """
    given = settings_given(flags)
    if track:
        from smofi.track import TRACKERS

        for name in track:
            check_choice("track", name, (*TRACKERS, NO_TRACKER))
        if NO_TRACKER in track and len(track) > 1:
            refuse("track", track, f"{NO_TRACKER} alone, or trackers without it")
    config = resolve_or_resume(source, given, scale, output, resume)
    if "workers" in given and config.workers and config.clients:
        keep_busy(config.workers, config.per_round, asked=True)  # refused at once; without clients, when they are known
    with loading():
        import torch

        from smofi.config.federation import gather
        from smofi.experiment.resuming import worker_count
        from smofi.track import trackers_of
    if config.clients is None:  # before workers are started: how many are useful depends on it
        with reading(config.data) as progress:
            config = config.divided(gather(config, progress))
    torch.set_num_threads(config.threads)  # before workers are started: that of a single thread can be forked
    if track is None:
        track = trackers_of(resume) if resume else []
    trackers = [name for name in track if name != NO_TRACKER]
    workers = worker_count(config, resumed=resume is not None and "workers" not in given)
    return Training(config, resume is not None, display, trackers).together(workers, resume or output)


class Training:
    """The runs of a command, one after the other."""

    def __init__(self, config: Config, resumed: bool, display: str, trackers: Sequence[str]) -> None:
        from smofi.report.live import Live

        self.config, self.resumed, self.trackers = config, resumed, trackers
        self.live = Live(console, list(config.method), config.rounds, display, seeds=config.each_seed)
        self.folder = Path()
        self.runs: list[FolderRun] = []
        self.current: FolderRun | None = None
        self.judged: dict[str, Any] = {}

    def together(self, workers: int, folder: Path | None) -> int:
        """Train with so many workers, of which this process is one. Return the exit code."""
        with loading():
            from smofi.engine.processes import starting
            from smofi.engine.processes.workers import WorkerGone
            from smofi.experiment.resuming import follow, follow_on
            from smofi.report.names import seeds_of
        config = self.config

        def report_loss(how: str) -> None:
            complain(self._after_loss(how))

        with (
            warnings.catch_warnings(),
            starting.workers(workers, config.device, COMMAND_LINE, complain, report_loss) as launcher,
        ):
            warnings.simplefilter("ignore", TrainingWarning)  # Live shows the event that comes with it
            if follows():
                follow(config, folder if self.resumed else None)
                return 0
            with new_folder(config.data) if folder is None else nullcontext(folder) as folder:
                self._open(folder, launcher)
            self.live.say(
                f"{config.data}, {config.partition}, {config.model} cut at {config.cut}, "
                f"{plural(config.rounds, 'round')}, {seeds_of(config)}, {plural(workers, 'worker')}, in {folder}"
            )
            if self.trackers:
                self.live.say(f"recorded in {' and '.join(self.trackers)}")
            launcher.launch(lambda: follow_on(self.runs))
            try:
                return self._train()
            except WorkerGone as error:
                raise SmofiError(self._after_loss(launcher.lost() or str(error))) from error

    def _open(self, folder: Path, launcher: Launcher) -> None:
        from smofi.experiment import resume, start
        from smofi.report.results import History

        self.folder = folder
        LOST.remark = f"the run goes on; see it with: smofi show {shlex.quote(str(folder))}"
        typed = shlex.join(["smofi", *COMMAND_LINE])
        with reading(self.config.data) as progress, refusing("the run"):
            self.runs = (
                resume(folder, self.config, self.live, progress, launcher.workers)
                if self.resumed
                else start(self.config, folder, self.live, typed, progress, launcher.workers)
            )
        self.judged = self.runs[0].judged  # of all of them
        for number, one in enumerate(self.runs):
            self.live.recall(number, History.of(one.name, one.session.run.history, one.seed, **self.judged))

    def _train(self) -> int:
        """Train what is left to train, then report. Exit code 1 for a run that diverged, 2 for one that could not be
        saved, 128 + n after signal n."""
        from smofi.experiment.opening import NotSaved

        started = time.perf_counter()
        results: dict[tuple[int, str], Result] = {}
        unsaved: list[NotSaved] = []
        with finishing_the_round(self._interrupt) as caught, self.live:
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
            print_results(self.config, self.folder, results, self.judged, seconds, self.live.mode)
        for lost in unsaved:
            complain(str(lost))
        if caught and (self.runs or any(result.interrupted for result in results.values())):
            remark(f"Interrupted; continue with: {self._resumption()}")
            return 128 + caught[0]
        if unsaved:
            return 2
        return 1 if any(result.diverged for result in results.values()) else 0

    def _interrupt(self) -> None:
        if self.current:
            self.current.session.run.interrupt()

    def _train_one(self, one: FolderRun, caught: list[int]) -> Result:
        from smofi.track import combine, tracker

        announced: list[bool] = []

        def announce(event: Event) -> None:
            if caught and not announced:
                announced.append(True)
                self.live.say("finishing the round, then saving; interrupt again to quit at once")

        own = self.config.with_seed(one.seed)
        settings = own.model_dump(exclude={"seeds"}) | {"method": one.name, "executor": one.executor}
        trackers = [tracker(name, one.folder.path, settings, self._label(one)) for name in self.trackers]
        with combine(self.live, announce, *trackers) as one.session.run.emit:
            result = one.train()
        for failed in (tracked.failed for tracked in trackers if tracked.failed):
            self.live.say(failed)
        return result

    def _after_loss(self, how: str) -> str:
        """Tell how a worker was lost, which round is saved, and the command that goes on."""
        one = self.current or (self.runs[0] if self.runs else None)
        saved = one.folder.saved_rounds() if one else []
        which = f" of {self._label(one)}" if one and one.folder.path != self.folder else ""
        safe = f"round {saved[-1]}{which} is saved: continue" if saved else f"no round{which} is saved yet: start again"
        return f"{how}, so the run cannot go on; {safe} with: {self._resumption()}"

    def _label(self, one: FolderRun) -> str:
        return f"{one.name}, seed {one.seed}" if self.config.seeds else one.name

    def _resumption(self) -> str:
        return f"smofi run --resume {shlex.quote(str(self.folder))}"


@contextmanager
def finishing_the_round(interrupt: Callable[[], object]) -> Iterator[list[int]]:
    """Let Ctrl-C, SIGTERM and a closed terminal end a run after its round, and a second one at once; their numbers are
    in the list."""
    caught: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        interrupt()

    def quit(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with handled(in_turn(stop, quit)):
        yield caught


@contextmanager
def new_folder(data: str) -> Iterator[Path]:
    """Make a folder below runs/ for this run alone, named after the time and the data; remove it again if this block
    fails."""
    first = not RUNS.exists()
    plain = re.sub(r"[^\w.]+", "-", data).strip("-.")
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{plain}"
    for number in count(1):  # several runs may start at the same moment
        folder = RUNS / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            if not folder.exists():
                raise
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if first:
            with suppress(OSError):  # another run has come in the meantime
                RUNS.rmdir()
        raise


# --------------------------------------------------------------------------------------------------------------------
# What is printed after training: the table, the curves, and where the pictures are.


def print_results(
    config: Config,
    folder: Path,
    results: Mapping[tuple[int, str], Result],
    judged: Mapping[str, Any],
    seconds: float,
    mode: str,
) -> None:
    """Compare the methods, by seed and name, as they are `judged`, and save their curves and their page in the folder;
    `quiet` saves only."""
    from smofi.report.curves import NARROWEST, draw_curves
    from smofi.report.results import History, compare
    from smofi.report.table import clients_table, results_table

    loud = mode != "quiet"
    for (seed, name), result in results.items():
        if result.stopped and loud and not result.diverged:
            print_line(f"{name}, seed {seed}: {result.stopped}" if config.seeds else f"{name}: {result.stopped}")
    histories = [
        History.of(name, result.history, seed, **judged) for (seed, name), result in results.items() if result.history
    ]
    rows = compare(histories)
    if not rows:
        return
    target = rows[0].target
    saved = _save_pictures(config, folder, histories, target)
    if loud:
        console.print(results_table(rows))
        if mode != "live" or config.seeds:  # the last picture stays, but it is that of one seed
            width = max(NARROWEST, min(console.width, WIDEST))
            console.print(draw_curves(histories, target=target, width=width, encoding=console.encoding))
        if (clients := clients_table([one for one in histories if one.seed == config.seed])) is not None:
            console.print(clients)
        console.print(f"{seconds:.0f} s. {saved}", highlight=False, soft_wrap=True)
    if len(results) > 1:
        try:
            from smofi.report.page import write_page

            page = f"Page: {write_page([folder], folder / PAGE)}"
        except Exception as error:  # whatever it is, the runs are done and saved
            page = f"The page could not be written: {error}"
        if loud:
            print_line(page)


def _save_pictures(config: Config, folder: Path, histories: Sequence[History], target: float) -> str:
    from smofi.report.figures import run_figure
    from smofi.report.names import details, setting

    files = RunFolder(folder)
    title = setting(config, participants_in(files))
    draw = partial(run_figure, histories, target, title, details(config))
    try:
        pictures = [draw().save(files.curves_file)]
        if config.clock != "none":
            pictures.append(draw(over_hours=True).save(files.curves_over_hours_file))
    except SmofiError as error:  # the training is done, and its results are worth more than a picture
        return f"The picture could not be saved: {error}"
    return f"Picture{'s' * (len(pictures) > 1)}: {' and '.join(map(str, pictures))}"
