"""The command line, and the only place that prints."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import cyclopts
import pydantic
import torch
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import smofi
from smofi.config import Config
from smofi.errors import InputError, SmofiError, TrainingWarning, check_count
from smofi.methods import METHODS, parse_method
from smofi.models import MODELS
from smofi.report import Run, draw, measure, save, table
from smofi.report.live import Live
from smofi.spec import describe

app = cyclopts.App(
    name="smofi",
    help="Split federated learning that works on heterogeneous data. Start with: smofi run",
    version=smofi.__version__,
    result_action="return_value",
)
console = Console()


@app.command
def run(
    *,
    config: Annotated[Config, Parameter(name="*", negative=())] = Config(),  # noqa: B008  # frozen
    threads: Annotated[int, Parameter(help="threads inside each operation")] = 1,
    output: Annotated[Path | None, Parameter(help="folder for picture and history; if not given, below runs/")] = None,
) -> int:
    """Train, compare methods, and draw their learning curves here and into a picture.

    Without flags: FedAvg, FedAvgM and SMoFi side by side, on handwritten digits divided unevenly among 50 clients.
    """
    torch.set_num_threads(check_count("threads", threads))
    methods = [parse_method(text) for text in config.method]
    if len({method.name for method in methods}) < len(methods):
        raise InputError(f"method={list(config.method)} is not accepted: expected each method once")
    arguments = config.arguments()
    live = Live(console, [method.name for method in methods], config.rounds)
    sessions = {method.name: smofi.prepare(**arguments, method=method, callback=live) for method in methods}
    folder = output or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{config.data}"
    _make_folder(folder)
    console.print(
        f"{config.data} by {config.partition}, {config.model} cut at {config.cut}, {config.rounds} rounds, "
        f"seed {config.seed}",
        highlight=False,
        markup=False,
    )
    started = time.perf_counter()
    with live, warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # Live shows the event that comes with it
        results = {name: sessions.pop(name).train() for name in list(sessions)}
    _report(config, results, folder, time.perf_counter() - started)
    return 1 if any(result.stopped for result in results.values()) else 0


@app.command
def methods() -> int:
    """List the methods, how they are written and what they do. Join several with +."""
    _list("method", ((describe(builder), builder.__doc__ or "") for builder in METHODS.values()))
    return 0


@app.command
def models() -> int:
    """List the models."""
    _list("model", ((name, entry.description) for name, entry in MODELS.items()))
    return 0


def _report(config: Config, results: dict[str, smofi.Result], folder: Path, seconds: float) -> None:
    curves = {name: [record.accuracy for record in result.history] for name, result in results.items()}
    history = {name: [asdict(record) for record in result.history] for name, result in results.items()}
    (folder / "history.json").write_text(json.dumps({"config": config.model_dump(), "history": history}, indent=1))
    runs = [
        Run(name, curves[name], sum(record.seconds for record in result.history))
        for name, result in results.items()
        if result.history
    ]
    if not runs:
        return
    rows = measure(runs, baseline="fedavg" if "fedavg" in results else runs[0].name)
    shown = {name: curve for name, curve in curves.items() if curve}
    console.print(table(rows))
    console.print(draw(shown, target=rows[0].target, width=min(console.width, 100), encoding=console.encoding))
    title = f"{config.data}, {config.clients} clients, {config.partition}, {config.model}"
    picture = save(shown, folder / "curves.png", target=rows[0].target, title=title)
    console.print(f"{seconds:.0f} s. Picture: {picture}  history: {folder / 'history.json'}", highlight=False)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".writable").touch()
        (folder / ".writable").unlink()
    except OSError as error:
        raise InputError(f"output={str(folder)!r} is not accepted: {error.strerror}") from None


def _list(heading: str, entries: Iterable[tuple[str, str]]) -> None:
    listing = Table(heading, "what it does", box=None, padding=(0, 2, 0, 0))
    for name, text in entries:
        listing.add_row(escape(name), escape(text.strip().splitlines()[0]))
    console.print(listing)


def _sentence(error: cyclopts.CycloptsError) -> str:
    """What is wrong with the command line, without the box and the type names around it."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, pydantic.ValidationError):
        first = cause.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        return f"{field}={first['input']!r} is not accepted: {first['msg'][0].lower()}{first['msg'][1:]}"
    return str(error)


def main(arguments: Sequence[str] | None = None) -> int:
    """The `smofi` command. Exit code 2 for anything the user can mend, 1 for a run that had to stop."""
    try:
        return int(app(arguments, exit_on_error=False, print_error=False) or 0)
    except cyclopts.CycloptsError as error:
        message = _sentence(error)
    except SmofiError as error:
        message = str(error)
    except KeyboardInterrupt:
        print("smofi: interrupted", file=sys.stderr)
        return 130
    print(f"smofi: {message}", file=sys.stderr)
    return 2
