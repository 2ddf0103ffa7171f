"""The command line, and the only place that prints."""

from __future__ import annotations

import io
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Literal

import cyclopts
import pydantic
import torch
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.table import Table

import smofi
from smofi import experiment
from smofi.config import Config, Settings, config_yaml, read_config, sentence_of
from smofi.config import presets as list_presets
from smofi.config.federation import gather
from smofi.data import fetch as fetch_data
from smofi.data.decoded import Progress
from smofi.data.mix import class_counts
from smofi.engine.events import Event
from smofi.errors import SmofiError, TrainingWarning, check_choice, check_count, refuse
from smofi.experiment import FolderRun
from smofi.export import export_run
from smofi.methods import METHODS, load_plugins
from smofi.models import MODELS
from smofi.planning import plan_run
from smofi.planning.advice import advise as compare_cuts
from smofi.report import Run, draw, measure, save, table
from smofi.report.advice import advice_table, save_advice
from smofi.report.catalogue import data_table, preset_table
from smofi.report.devices import Fleet, devices_table, save_devices
from smofi.report.heterogeneity import Heterogeneity, heterogeneity_table, save_heterogeneity
from smofi.report.live import Live
from smofi.report.models import cuts_table, models_table, outline
from smofi.report.plan import plan_table
from smofi.report.saving import check_picture
from smofi.report.show import show_run
from smofi.report.timeline import read_timelines, save_timelines, timeline_table
from smofi.runs import RunFolder
from smofi.spec import describe
from smofi.track import TRACKERS, combine
from smofi.track import tracker as start_tracker

app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
console = Console()
ASKED: list[str] = []
"""The arguments of this command, for the workers it starts."""

Source = Annotated[str | None, Parameter(help="a YAML file or the name of a preset; flags win over it")]
Flags = Annotated[Settings, Parameter(name="*", negative=(), group="Settings")]
Threads = Annotated[int, Parameter(help="threads inside each operation")]
Scale = Annotated[str | None, Parameter(help="of a preset: full, or small for a version that suits a CPU")]
Display = Literal["auto", "live", "plain", "quiet", "jsonl"]


@app.command
def run(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    output: Annotated[Path | None, Parameter(help="the run's folder; if not given, a new one below runs/")] = None,
    resume: Annotated[Path | None, Parameter(help="continue the run in this folder")] = None,
    display: Annotated[Display, Parameter(help="live on a terminal, plain elsewhere, quiet, or jsonl")] = "auto",
    track: Annotated[list[str] | None, Parameter(help="also in tensorboard, wandb or mlflow", negative=())] = None,
    workers: Annotated[int | None, Parameter(help="processes that share the clients; one per core, or per GPU")] = None,
    threads: Threads = 1,
) -> int:
    """Train, compare methods, and draw their learning curves here and into a picture.

    Without arguments: FedAvg, FedAvgM and SMoFi side by side, on handwritten digits divided unevenly among 50 clients.
    Ctrl-C finishes the round, saves, and stops; `smofi run --resume DIR` goes on from there.
    """
    torch.set_num_threads(check_count("threads", threads, high=1024))
    for name in track or ():
        check_choice("track", name, TRACKERS)
    given = _given(flags)
    if resume is not None:
        if source is not None or output is not None or scale is not None:
            refuse("resume", str(resume), "no file, --scale or --output beside it: the run's folder has its settings")
        config, folder = experiment.stored_config(resume, given), resume
    else:
        config = _resolve(source, given, scale)
        folder = output or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{_plain_name(config.data)}"
    count = experiment.worker_count(workers, config)
    with experiment.workers(count, config.device, ASKED) as team:
        if experiment.follows():
            experiment.follow(config, resume)
            return 0
        live, command = Live(console, list(config.method), config.rounds, display), shlex.join(["smofi", *ASKED])
        with _reading(config.data) as progress:
            if resume is not None:
                runs = experiment.resume(folder, config, live, command, progress, team.crew)
            else:
                runs = experiment.start(config, folder, live, command, progress, team.crew)
        for number, one in enumerate(runs):
            history, now = one.session.run.history, one.session.run.now
            live.recall(number, [record.accuracy for record in history], now or None)
        live.say(
            f"{config.data} by {config.partition}, {config.model} cut at {config.cut}, {config.rounds} rounds, "
            f"seed {config.seed}, {count} worker{'s' * (count > 1)}, in {folder}"
        )
        team.launch(lambda: experiment.follow_on(runs))
        return _train(config, runs, live, folder, track or [])


@app.command
def plan(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    threads: Threads = 1,
) -> int:
    """Check a configuration and say what it will take: clients, steps, memory, time. Nothing is trained or written."""
    torch.set_num_threads(check_count("threads", threads, high=1024))
    config = _resolve(source, _given(flags), scale)
    with _reading(config.data) as progress:
        federation = gather(config, progress)
    console.print(plan_table([plan_run(config, method, federation) for method in config.method]))
    return 0


@app.command
def advise(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    output: Annotated[Path | None, Parameter(help="also draw it into this file: .png, .svg or .pdf")] = None,
) -> int:
    """Say which cut suits the clients' devices: the time of a round and a client's load at every cut of the model.

    Rounds are planned, by a full clock unless the configuration has another; nothing is trained.
    """
    if output is not None:
        check_picture(output)
    config = _with_clock(source, _given(flags), scale)
    with _reading(config.data) as progress:
        federation = gather(config, progress)
    advice = compare_cuts(config, federation)
    console.print(advice_table(advice))
    if output is not None:
        print(f"Picture: {save_advice(output, advice)}")
    return 0


@app.command
def show(folder: Path, /) -> int:
    """Show a run at a glance, finished or still going."""
    console.print(show_run(folder))
    return 0


@app.command
def timeline(
    folder: Path,
    /,
    *,
    round: Annotated[int | None, Parameter(help="which one, from 1; the last")] = None,
    output: Annotated[Path | None, Parameter(help="also draw it into this file: .png, .svg or .pdf")] = None,
) -> int:
    """Show what each client does in one round of a run with a clock: computing, sending, and waiting for others.

    Given the folder of a comparison, the methods are drawn below each other, over the same seconds.
    """
    if output is not None:
        check_picture(output)
    with _reading(str(folder)) as progress:
        timelines = read_timelines(folder, round, progress)
    for one in timelines:
        console.print(timeline_table(one), "", sep="\n")
    if output is not None:
        print(f"Picture: {save_timelines(output, timelines)}")
    return 0


@app.command
def export(
    folder: Path,
    destination: Path | None = None,
    /,
    *,
    format: Annotated[
        list[str] | None, Parameter(help="of safetensors, torch and onnx; all of them", negative=())
    ] = None,
    part: Annotated[str | None, Parameter(help="client or server, for split inference; the whole model")] = None,
    cut: Annotated[str | None, Parameter(help="where to part the model, if not where the run did")] = None,
    best: Annotated[
        bool, Parameter(help="the round with the best validation accuracy, not the last", negative=())
    ] = False,
) -> int:
    """Write a run's trained model with a model card, for plain torch, ONNX, or one side of the cut."""
    target = destination or folder / ("export" if part is None else f"export-{part}")
    exported = export_run(folder, target, format, part, cut, best)
    for note in exported.notes:
        print(f"smofi: {note}", file=sys.stderr)
    print("\n".join(str(exported.folder / name) for name in exported.files))
    return 0


@app.command
def config(source: Source = None, /, *, flags: Flags = Settings(), scale: Scale = None) -> int:  # noqa: B008  # frozen
    """Print a configuration in full, as YAML with a comment on every field."""
    print(config_yaml(_resolve(source, _given(flags), scale)), end="")
    return 0


@app.command
def presets() -> int:
    """List the presets: the paper's settings for each of its tasks, and versions of them for a CPU."""
    console.print(preset_table())
    console.print("Start one with: smofi run NAME --scale small. See all its settings with: smofi config NAME")
    return 0


@app.command
def data(
    name: Annotated[str | None, Parameter(help="a data set, or your own as folder:PATH; without one, a list")] = None,
    /,
    *,
    clients: Annotated[int | None, Parameter(help="number of clients the data is divided among")] = None,
    partition: Annotated[str | None, Parameter(help="dirichlet(gamma), iid, shards(k), natural or file:RUN")] = None,
    batch_size: Annotated[int | None, Parameter(help="samples that every client gets at least")] = None,
    seed: Annotated[int | None, Parameter(help="seed of the partition")] = None,
    data_folder: Annotated[str | None, Parameter(help="folder with the official files")] = None,
    image_size: Annotated[int | None, Parameter(help="bring images to this height and width")] = None,
    max_train: Annotated[int | None, Parameter(help="only the first so many samples")] = None,
    scale: Scale = None,
    output: Annotated[Path | None, Parameter(help="also draw it into this file: .png, .svg or .pdf")] = None,
    fetch: Annotated[bool, Parameter(help="bring it from the Hugging Face hub first", negative=())] = False,
    devices: Annotated[
        str | bool | None, Parameter(help="the clients' devices as well: phones, or a CSV file of yours", negative=())
    ] = None,
) -> int:
    """Show how a data set would be divided among clients: sizes, class mix, divergence from balance.

    What is not given is as in the preset of that name, if there is one: `smofi data cifar10` is the paper's partition.
    `smofi data --devices` shows what devices clients have; with a data set, how fast they are for the preset's model.
    """
    fleet = "phones" if devices is True else devices or None
    if output is not None:
        check_picture(output)
    if name is None:
        if fleet is None:
            console.print(data_table())
        else:
            _show_devices(Fleet.of(fleet, 100 if clients is None else clients, seed or 0), output)
        return 0
    if fetch:
        with _reading(name) as progress:
            fetch_data(name, progress)
    given = {
        "clients": clients,
        "partition": partition,
        "batch_size": batch_size,
        "seed": seed,
        "data_folder": data_folder,
        "image_size": image_size,
        "max_train": max_train,
    }
    given = {key: value for key, value in given.items() if value is not None}
    known = name in {preset.name for preset in list_presets()}
    config = read_config(name, given, scale=scale) if known else Config(data=name, **given)
    if fleet is not None:  # refused before anything is read
        endowed = Fleet.of(fleet, config.clients, config.seed)
    with _reading(name) as progress:
        federation = gather(config, progress)
    counts = class_counts(federation.source.train.labels, federation.parts, federation.source.classes)
    title = f"{config.data} by {config.partition} among {config.clients} clients, seed {config.seed}"
    shown = Heterogeneity(title, counts, federation.source.class_names, config.batch_size)
    source = federation.source
    console.print(heterogeneity_table(shown))
    shape = " x ".join(map(str, source.input_shape))
    for line in (f"a sample is {shape}, {len(federation.test):,} to test on", *source.remarks):
        console.print(line, markup=False, highlight=False)
    if output is not None:
        print(f"Picture: {save_heterogeneity(output, shown)}")
    if fleet is not None:
        if known:
            counted = outline(
                config.model, ",".join(map(str, source.input_shape)), source.classes, config.width, config.norm
            )
            endowed = Fleet.of(fleet, config.clients, config.seed, config.model, counted.costs.macs)
        console.print()
        _show_devices(endowed, output and output.with_stem(f"{output.stem}-devices"))
    return 0


def _show_devices(fleet: Fleet, output: Path | None) -> None:
    console.print(devices_table(fleet), highlight=False)
    if output is not None:
        print(f"Picture: {save_devices(output, fleet)}")


@app.command
def methods() -> int:
    """List the methods, how they are written and what they do. Join several with +."""
    load_plugins()
    _list("method", ((describe(builder), builder.__doc__ or "") for builder in METHODS.values()))
    return 0


@app.command
def models(
    name: Annotated[str | None, Parameter(help="one of them, or python:module:function, to see its every cut")] = None,
    /,
    *,
    input_shape: Annotated[str | None, Parameter(help="of a sample, as 3,64,64")] = None,
    classes: Annotated[int | None, Parameter(help="number of classes, or of characters")] = None,
    width: Annotated[int | None, Parameter(help="width of the model's first block")] = None,
    norm: Annotated[str | None, Parameter(help="batch or group")] = None,
    cuts: Annotated[bool, Parameter(help="every cut of every model", negative=())] = False,
) -> int:
    """List the models, what they cost, and what a cut leaves with the client: `smofi models resnet18`."""
    options: dict[str, Any] = {"input_shape": input_shape, "classes": classes, "width": width, "norm": norm}
    given = {key: value for key, value in options.items() if value is not None}
    if name is None and given:
        refuse(*next(iter(given.items())), "the name of a model along with it, as smofi models resnet18")
    outlines = [outline(one, **given) for one in ([name] if name else MODELS)]
    if not name and not cuts:
        _list("model", ((one.name, one.description) for one in outlines))
        console.print()
    for drawn in map(cuts_table, outlines) if name or cuts else [models_table(outlines)]:
        console.print(drawn)
    return 0


def _given(flags: Settings) -> dict[str, Any]:
    """The settings that the command line names."""
    return {name: getattr(flags, name) for name in flags.model_fields_set}


def _resolve(source: str | None, given: Mapping[str, Any], scale: str | None = None) -> Config:
    if source is None and scale is not None:
        refuse("scale", scale, "the name of a preset before it, as: smofi run cifar10 --scale small")
    return Config(**given) if source is None else read_config(source, given, scale=scale)


def _with_clock(source: str | None, given: Mapping[str, Any], scale: str | None) -> Config:
    """The configuration with a full clock, unless it has another; devices may be given without one."""
    full = _resolve(source, {**given, "clock": "full"}, scale)
    with suppress(SmofiError, pydantic.ValidationError):
        if (config := _resolve(source, given, scale)).clock != "none":
            return config
    return full


def _plain_name(data: str) -> str:
    """A data set's name as part of a folder's.

    >>> _plain_name("folder:/data/x rays")
    'folder-data-x-rays'
    """
    return re.sub(r"[^\w.]+", "-", data).strip("-.")


@contextmanager
def _reading(name: str) -> Iterator[Progress]:
    """Shows how far a data set is read, on a terminal only, and gone when it is done."""
    terminal = Console(stderr=True)
    with Bar(console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"reading {name}", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _train(config: Config, runs: list[FolderRun], live: Live, folder: Path, track: list[str]) -> int:
    """Train what is left to train, then report. Exit code 1 for a run that diverged, 128 + n after signal n."""
    started = time.perf_counter()
    results: dict[str, smofi.Result] = {}
    training: list[FolderRun] = []
    with _finishing_the_round(training) as caught, live, warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # Live shows the event that comes with it
        while runs and not caught:
            training[:] = [one] = [runs.pop(0)]  # no other name holds it, so its rows go when the next one comes
            results[one.name] = _follow(one, config, live, track, caught)
    if live.mode != "jsonl":
        _report(config, results, folder, time.perf_counter() - started, live.mode)
    if caught and (runs or any(result.interrupted for result in results.values())):
        print(f"smofi: interrupted; continue with: smofi run --resume {folder}", file=sys.stderr)
        return 128 + caught[0]
    return 1 if any(result.diverged for result in results.values()) else 0


def _follow(one: FolderRun, config: Config, live: Live, track: list[str], caught: list[int]) -> smofi.Result:
    """Train one run, seen by the display and the trackers."""
    told: list[bool] = []

    def tell(event: Event) -> None:
        if caught and not told:
            told.append(True)
            live.say("finishing the round, then saving; once more to quit at once")

    settings = config.model_dump() | {"method": one.name}
    trackers = [start_tracker(name, one.folder.path, settings, one.name) for name in track]
    with combine(live, tell, *trackers) as one.session.run.emit:
        result = one.train()
    for failed in (tracker.failed for tracker in trackers if tracker.failed):
        live.say(failed)
    return result


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

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report(config: Config, results: dict[str, smofi.Result], folder: Path, seconds: float, mode: str) -> None:
    curves = {name: [record.accuracy for record in result.history] for name, result in results.items()}
    ends = {name: [record.virtual_end for record in result.history] for name, result in results.items()}
    hours = {name: [end / 3600 for end in own if end is not None] for name, own in ends.items()}
    runs = [
        Run(name, curves[name], sum(record.seconds for record in result.history), hours=hours[name])
        for name, result in results.items()
        if any(accuracy is not None for accuracy in curves[name])
    ]
    for name, result in results.items():
        if result.stopped and mode != "quiet" and not result.diverged:
            console.print(f"{name}: {result.stopped}", markup=False, highlight=False)
    if not runs:
        return
    baseline = "fedavg" if any(run.name == "fedavg" for run in runs) else runs[0].name
    rows = measure(runs, baseline)
    shown = {name: curve for name, curve in curves.items() if curve}
    title = f"{config.data}, {config.clients} clients, {config.partition}, {config.model}"
    files = RunFolder(folder)
    try:
        pictures = [save(shown, files.curves_file, target=rows[0].target, title=title)]
        if config.clock != "none":
            pictures.append(save(shown, files.curves_over_hours_file, target=rows[0].target, title=title, hours=hours))
        picture = f"Picture{'s' * (len(pictures) > 1)}: {' and '.join(map(str, pictures))}"
    except OSError as error:
        picture = f"The picture could not be saved in {folder}: {error.strerror}"
    if mode != "quiet":
        console.print(table(rows))
        if mode != "live":  # whose last picture stays
            console.print(draw(shown, target=rows[0].target, width=min(console.width, 100), encoding=console.encoding))
        console.print(f"{seconds:.0f} s. {picture}", highlight=False, soft_wrap=True)


def _list(heading: str, entries: Iterable[tuple[str, str]]) -> None:
    listing = Table(heading, "what it does", box=None, padding=(0, 2, 0, 0))
    for name, text in entries:
        listing.add_row(escape(name), escape(" ".join(text.strip().split("\n\n")[0].split())))
    console.print(listing)


def _sentence(error: cyclopts.CycloptsError) -> str:
    """What is wrong with the command line, without the box and the type names around it."""
    cause = error.__cause__ or error.__context__
    return sentence_of(cause) if isinstance(cause, pydantic.ValidationError) else str(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """The `smofi` command. Exit code 2 for anything the user can mend."""
    ASKED[:] = sys.argv[1:] if arguments is None else arguments
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except cyclopts.CycloptsError as error:
        message = _sentence(error)
    except pydantic.ValidationError as error:
        message = sentence_of(error)
    except SmofiError as error:
        message = str(error)
    except KeyboardInterrupt:
        print("smofi: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1
    except OSError as error:
        message = str(error)
    print(f"smofi: {message}", file=sys.stderr)
    return 2
