"""The command: `make paper ITEM=table1 ARGS="--seeds 0-4"` is `python -m paper table1 --seeds 0-4`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from paper.items import ITEMS, SCALES, SEEDS, Item, Panel
from paper.page import (
    CLIENTS_TITLE,
    HETEROGENEITY,
    Page,
    client_sentences,
    clients_drawing,
    clients_of,
    drawings,
    read_clients,
    write_clients,
)
from paper.results import Measured, Results, collect, read_results, results_in
from paper.tables import about, findings, table_of, verdict
from smofi.cli.sweep import SweepDisplay, exit_code
from smofi.config.definition import read_seeds
from smofi.config.federation import read_source
from smofi.cut import parse_cut
from smofi.data.loading import where
from smofi.engine.check import check_device
from smofi.errors import InputError, SmofiError, check_choice, check_count, refuse
from smofi.flat import Layout
from smofi.models import build
from smofi.plural import plural
from smofi.report.numbers import duration
from smofi.sweep.running import Pace, check_alone, check_folder, paces_in, run_cells, timed_paces, usual_jobs
from smofi.sweep.store import Cell, Store

NAMES = [*ITEMS, HETEROGENEITY]
ALL = "all"
console = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; a refusal is a sentence and exit code 2."""
    parser = argparse.ArgumentParser("paper", description="Repeat the paper's tables and figures.")
    add = parser.add_argument
    add("items", nargs="*", metavar="ITEM", help=f"one or more items, or {ALL}; without any, they are listed")
    add("--scale", default="small", help="small, on Fashion-MNIST and for a CPU; or paper, its own tasks in full")
    add("--seeds", help="such as 0-2 or 0,3,5; by default 0-4 for table1 and table2, 0-2 for the others")
    add("--jobs", type=int, help="how many runs at a time; by default as many as there are cores")
    add("--device", default="cpu", help="a torch device, such as cpu or cuda:0")
    add("--output", type=Path, help="the folder of the runs and figures; by default runs/paper/SCALE")
    add("--known", type=Path, help="results in the CSV files of this folder count as done, and are shown as well")
    add("--display", choices=["auto", "live", "plain", "jsonl", "quiet"], default="auto", help="how progress is shown")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--dry-run", action="store_true", help="check every run, without data, and list them")
    modes.add_argument("--show", action="store_true", help="run nothing: show what is finished")
    modes.add_argument("--collect", type=Path, metavar="DIR", help="add finished runs to the CSV files of this folder")
    modes.add_argument("--page", type=Path, metavar="FILE", help="make this page (.md) from the folder of its name")
    given = parser.parse_args(arguments)
    try:
        asked = Asked(given)
        if given.collect or given.page:
            if given.items or given.known:
                accepted = "no items and no --known with --collect and --page, which take all there is"
                refuse("items", given.items, accepted)
            return _make_page(given.page, asked) if given.page else _collect(given.collect, asked)
        if given.dry_run:
            return _check(asked)
        if given.show:
            return _show(asked)
        return _run(asked) if given.items else _list(asked)
    except SmofiError as error:
        return _complain(str(error))
    except KeyboardInterrupt:
        return 130


class Asked:
    """Read what the command is asked for: items and scale, seeds (None: each item's own), the folder of the runs, the
    number of runs at a time (None: one a core), the device, and results that count as done."""

    def __init__(self, given: argparse.Namespace) -> None:
        names = [check_choice("item", name, [*NAMES, ALL]) for name in given.items]
        self.names = NAMES if ALL in names or not names else list(dict.fromkeys(names))
        self.scale = check_choice("scale", given.scale, SCALES)
        self.seeds = None if given.seeds is None else read_seeds("seeds", given.seeds)
        self.jobs = None if given.jobs is None else check_count("jobs", given.jobs, high=1024)
        self.output = given.output or Path("runs/paper") / self.scale
        self.device, self.display = given.device, given.display
        self.known = read_results(given.known)
        if given.known and not self.known.runs:
            raise InputError(f"{given.known} has no results: expected a folder with CSV files that --collect makes")
        self.folders = f"{self.output} and {given.known}" if given.known else f"{self.output}"

    def cells(self, names: Iterable[str]) -> dict[str, tuple[Cell, Panel]]:
        """Return the runs of items by their keys, each once, with a panel it is in."""
        return {
            cell.key: (Cell(cell.config.model_copy(update={"device": self.device}), cell.label), panel)
            for item in (ITEMS[name] for name in names if name in ITEMS)
            for panel in item.at(self.scale)
            for cell in panel.cells(self.seeds or item.seeds).values()
        }

    @cached_property
    def own(self) -> Results:
        """The finished runs in the folder when the command began."""
        return self.finished()

    def finished(self) -> Results:
        """Return the finished runs in the folder, and say which cannot be read."""
        results = results_in(self.output)
        for sentence in results.unreadable:
            print(f"left out: {sentence}", file=sys.stderr)
        return results

    def left(self, names: Iterable[str]) -> list[Cell]:
        """Return the runs of items that are neither finished nor known."""
        return [cell for cell, _ in self.cells(names).values() if cell not in self.own and cell not in self.known]


# --------------------------------------------------------------------------------------------------------------------
# The list of items, and how long runs will take: from finished runs that are alike, or from steps timed now.


def _list(asked: Asked) -> int:
    table = Table("item", "what it is", box=None, padding=(0, 2, 0, 0))
    for heading in ("runs", "done", "time left"):
        table.add_column(heading, justify="right")
    paces = paces_in(Store(asked.output), asked.left(ITEMS))
    with Console(stderr=True).status("timing steps"):
        for name, item in ITEMS.items():
            every, left = len(asked.cells([name])), asked.left([name])
            table.add_row(name, item.title, str(every), str(every - len(left)), _time(left, paces))
    table.add_row(HETEROGENEITY, CLIENTS_TITLE, "-", "-", "-")
    console.print(table)
    return _say(
        f"Scale {asked.scale}, in {asked.folders}. Items share runs. The time is that of one run after the other, from "
        "finished runs in this folder with another seed or method, or else from steps timed now; ? without its data.",
        "Run one with: make paper ITEM=NAME",
    )


def _time(cells: Sequence[Cell], paces: Mapping[str, float]) -> str:
    """Write the time of cells: runs without a pace take what the others take, or what steps of the first take now."""
    known = [paces[cell.key] for cell in cells if cell.key in paces]
    if cells and not known:
        with suppress(InputError):  # there is no such data here
            known = [*timed_paces(cells[:1], lambda _: 1).values()]
        if not known:
            return "?"
    return duration(sum(paces.get(cell.key, fmean(known)) * cell.config.rounds for cell in cells)) if cells else "-"


# --------------------------------------------------------------------------------------------------------------------
# Runs checked without their data, and run.


def _check(asked: Asked) -> int:
    for name in asked.names:
        every = asked.cells([name]).values()
        left = [(cell, panel) for cell, panel in every if cell not in asked.known]
        for cell, panel in left:
            check_cell(cell, panel)
        found = f"{plural(len(left), 'run')}, all can be run; {plural(len(every) - len(left), 'known result')}"
        console.print(Text(f"{name}: {found if every else 'needs data and no runs'}", style="bold"))
        for cell, _ in left:
            config = cell.config
            settings = f"{config.model}, cut {config.cut}, {plural(config.rounds, 'round')}, {config.optimizer}"
            _say(f"  {cell.title}: {cell.method}; {settings}")
    return 0


def check_cell(cell: Cell, panel: Panel) -> None:
    """Refuse a cell whose model cannot be built or does not have its cut; its other settings have been checked."""
    config = cell.config
    try:
        layout = _layout(config.model, config.width, config.norm, panel.input, panel.classes)
        parse_cut(config.cut, layout, config.clients or 1)
    except InputError as error:
        raise InputError(f"{cell.title}: {error}") from None


@cache
def _layout(model: str, width: int | None, norm: str | None, shape: tuple[int, ...], classes: int) -> Layout:
    with torch.device("meta"):  # without numbers
        return Layout.of(build(model, seed=0, input_shape=shape, classes=classes, width=width, norm=norm))


def _run(asked: Asked) -> int:
    """Run what is not done yet, then show the items. Exit code 1 if a run fails, 128 + n after signal n."""
    check_alone()
    check_folder(asked.output)
    left = asked.left(asked.names)
    if not left:
        return _show(asked)
    check_device(asked.device)
    if not any(where(name) for name in {cell.config.data for cell in left}):
        read_source(left[0].config)  # which says how to get it
    store, jobs = Store(asked.output), asked.jobs or usual_jobs(left)
    shown = SweepDisplay(console, Pace(left, jobs, paces_in(store, left)), asked.display)
    with shown.bars:
        every = len(asked.cells(asked.names))
        shown.say(f"{plural(every, 'run')} in {asked.folders}, {every - len(left)} done, {jobs} at a time")
        outcomes = run_cells(left, store, jobs, shown)
    for outcome in outcomes.all:
        if outcome.state in ("failed", "diverged"):
            _complain(f"{outcome.cell.title} {outcome.state}: {outcome.words}")
    if outcomes.signal is not None:
        print("Interrupted; the same command goes on.", file=sys.stderr)
        return exit_code(outcomes)
    return max(exit_code(outcomes), _show(asked))


# --------------------------------------------------------------------------------------------------------------------
# Our numbers beside the paper's.


def _show(asked: Asked) -> int:
    results = asked.finished().besides(asked.known)
    for name in asked.names:
        if name == HETEROGENEITY:
            _show_clients(asked)
        else:
            _show_item(ITEMS[name], results, asked)
    return 0


def _show_item(item: Item, results: Results, asked: Asked) -> None:
    console.print(Text(f"\n{item.name}: {item.title}", style="bold"))
    panels = [Measured.of(panel, asked.seeds or item.seeds, results) for panel in item.at(asked.scale)]
    for claim in item.claims:
        word, numbers = verdict(claim, panels)
        _say(f"The paper: {claim.says} Here it {word}: {numbers}.")
    for measured in panels:
        if not measured.all_histories:
            _say(f"{measured.panel.title}: no finished run in {asked.folders}")
            continue
        _say("", measured.panel.title)
        console.print(Markdown(table_of(item, measured)))
        _say(about(measured), *findings(measured))
    _say(*item.remarks)
    for file, drawing in drawings(item, asked.scale, panels).items():
        asked.output.mkdir(parents=True, exist_ok=True)
        _say(f"Picture: {drawing.save(asked.output / file)}")


def _show_clients(asked: Asked) -> None:
    seed = (asked.seeds or SEEDS)[0]
    console.print(Text(f"\n{HETEROGENEITY}: {CLIENTS_TITLE}", style="bold"))
    clients = clients_of(asked.scale, seed)
    write_clients(asked.output, clients, seed)
    picture = clients_drawing(clients).save(asked.output / f"{HETEROGENEITY}.svg")
    _say(*client_sentences(clients), f"Picture: {picture}")


def _collect(folder: Path, asked: Asked) -> int:
    """Add the finished runs of a folder, and its clients, to the files of another."""
    clients = read_clients(asked.output)
    if not asked.own.runs and not clients:
        raise InputError(f"{asked.output} has no finished run to add; --output names the folder of the runs")
    written = collect(folder, asked.own.runs.values())
    if clients:
        written.append(write_clients(folder, clients, (asked.seeds or SEEDS)[0]))
    return _say(*written, f"{plural(len(asked.own.runs), 'run')} from {asked.output}")


def _make_page(path: Path, asked: Asked) -> int:
    if path.suffix != ".md":
        refuse("page", str(path), "a file name that ends in .md")
    return _say(*Page(path, asked.seeds).save())


def _say(*lines: object) -> int:
    for line in lines:
        console.print(Text(str(line)), soft_wrap=True)
    return 0


def _complain(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
