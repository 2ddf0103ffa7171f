"""What `smofi reproduce` does once its arguments are accepted: its lists, runs and tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from smofi.cli.entry import complain, remark
from smofi.cli.flags import Display
from smofi.cli.program import COMMAND_LINE, console, reading
from smofi.cli.sweep import SweepDisplay, exit_code
from smofi.config.federation import read_source
from smofi.data.load import where
from smofi.engine.check import check_device
from smofi.errors import InputError
from smofi.plural import plural
from smofi.report.numbers import duration
from smofi.reproduce.estimate import Kind, check, estimate
from smofi.reproduce.items import HETEROGENEITY, ITEMS, SEEDS
from smofi.reproduce.page import Page, about
from smofi.reproduce.pictures import (
    CLIENTS_TITLE,
    client_sentences,
    clients_drawing,
    clients_of,
    read_clients,
    save_pictures,
    write_clients,
)
from smofi.reproduce.results import Asked, Measured, Results, collect, known_results, results_in, without
from smofi.reproduce.tables import findings, table_of, verdict
from smofi.sweep.running import Pace, check_alone, check_folder, paces_in, run_cells, usual_jobs
from smofi.sweep.store import Cell, Store

NUMBERS = ("runs", "done", "time left")


def list_items(asked: Asked) -> int:
    """All items with their runs, how many are done, and the time that the rest would take."""
    known, results = known_results(asked.known), _results(asked.store, asked.cells(list(ITEMS)))
    both = results.besides(known)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("item", "what it is", *NUMBERS):
        table.add_column(heading, justify="right" if heading in NUMBERS else "left")
    timed: dict[Kind, float] = {}
    with Console(stderr=True).status("timing steps"):
        for name, item in ITEMS.items():
            every, left = len(asked.cells([name])), without(both, [name], asked)
            time = duration(estimate(left, results, timed).seconds) if left else "-"
            table.add_row(name, item.title, str(every), str(every - len(left)), time)
    table.add_row(HETEROGENEITY, CLIENTS_TITLE, "-", "-", "-")
    console.print(table)
    how = "from finished runs of the same model in this folder"
    if timed:
        how += "; where there are none, from steps timed now"
    seeds = f"seeds {', '.join(map(str, asked.seeds))}" if asked.seeds else "three seeds, or five for table1 and table2"
    _say(
        f"Scale {asked.scale}, {seeds}, in {asked.store}{_and_known(asked)}. Items "
        f"share runs. The time is that of one run after the other in one process, {how}."
    )
    _say(f"Run one with: smofi reproduce NAME --scale {asked.scale}")
    return 0


def check_items(names: Sequence[str], asked: Asked) -> int:
    """Check every run that is not known, and list them."""
    known = known_results(asked.known)
    for name in names:
        every, cells = len(asked.cells([name])), without(known, [name], asked)
        for cell in cells:
            check(cell)
        found = f"{plural(len(cells), 'run')}, all can be run" if every else "needs data and no runs"
        if done := every - len(cells):
            found = f"{plural(done, 'result')} in {asked.known}, {found if cells else 'nothing left to run'}"
        console.print(Text(f"{name}: {found}", style="bold"))
        for cell in cells:
            config = cell.config
            settings = f"{config.model}, cut {config.cut}, {plural(config.rounds, 'round')}, {config.optimizer}"
            _say(f"  {cell.title}: {cell.method}; {settings}")
    return 0


def run_items(names: Sequence[str], asked: Asked, display: Display) -> int:
    """Run what is not done yet, then show the items. Exit code 1 if a run fails, 128 + n after signal n."""
    check_alone()
    check_folder(asked.store)
    known = known_results(asked.known)
    cells, store = without(known, names, asked), Store(asked.store)
    left = [cell for cell in cells if not _is_finished(store, cell)]
    _check_startable(left, asked)
    jobs = usual_jobs(left) if asked.jobs is None else asked.jobs
    code = 0
    if left:
        with SweepDisplay(console, Pace(cells, jobs, paces_in(store, left)), display) as shown:
            if done := len(asked.cells(names)) - len(cells):
                shown.say(f"{plural(done, 'result')} in {asked.known} will not be run again")
            shown.say(f"{plural(len(cells), 'run')} in {asked.store}, {len(cells) - len(left)} done, {jobs} at a time")
            outcomes = run_cells(cells, store, jobs, shown)
        for outcome in outcomes.all:
            if outcome.state in ("failed", "diverged"):
                complain(f"{outcome.cell.title} {outcome.state}: {outcome.words}")
        if outcomes.signal is not None:
            remark(f"Interrupted; continue with: {shlex.join(['smofi', *COMMAND_LINE])}")
        code = exit_code(outcomes)
    return code if code > 1 else max(code, show_items(names, asked))


def _check_startable(cells: Sequence[Cell], asked: Asked) -> None:
    """Refuse what would make every run fail: a device that is not there, or data of which there is none."""
    if cells:
        check_device(asked.device)
    if cells and not any(where(name) for name in {cell.config.data for cell in cells}):
        read_source(cells[0].config)  # which says how to get it


def _is_finished(store: Store, cell: Cell) -> bool:
    try:
        return store.finished(cell) is not None
    except InputError:  # which is said when its turn comes
        return False


def show_items(names: Sequence[str], asked: Asked) -> int:
    """Our numbers beside the paper's, and pictures."""
    known = known_results(asked.known)
    for name in names:
        if name == HETEROGENEITY:
            _show_heterogeneity(asked)
        else:
            _show_item(name, asked, known)
    return 0


def _show_item(name: str, asked: Asked, known: Results) -> None:
    item, scaled = ITEMS[name], ITEMS[name].at(asked.scale)
    results = _results(asked.store, asked.cells([name])).besides(known)
    panels = [Measured.of(panel, asked.seeds or item.seeds, results) for panel in scaled.panels]
    console.print(Text(f"\n{name}: {item.title}", style="bold"))
    for claim in item.claims:
        word, numbers = verdict(claim, panels)
        _say(f"The paper: {claim.words} Here it {word}: {numbers}.")
    for measured in panels:
        if not measured.all_histories:
            _say(f"{measured.panel.title}: no finished run in {asked.store}{_and_known(asked)}")
            continue
        table, left_out = table_of(item, measured).fitting(console.width)
        console.print(table)
        if left_out:
            _say(f"No room for: {'; '.join(left_out)}")
        for sentence in [about(measured), *findings(measured), *item.remarks]:
            _say(sentence)
    for path in save_pictures(asked.store, item, asked.scale, panels):
        print(f"Picture: {path}")


def _show_heterogeneity(asked: Asked) -> None:
    seed = (asked.seeds or SEEDS)[0]
    console.print(Text(f"\n{HETEROGENEITY}: {CLIENTS_TITLE}", style="bold"))
    with reading("the data") as progress:
        clients = clients_of(asked.scale, seed, progress)
    for sentence in client_sentences(clients):
        _say(sentence)
    write_clients(asked.store, clients, seed)
    path = clients_drawing(clients).save(asked.store / f"{HETEROGENEITY}.svg")
    print(f"Picture: {path}")


def collect_into(folder: Path, asked: Asked) -> int:
    """Add the finished runs of a folder, and its clients, to the files of another."""
    results = _results(asked.store)
    written = collect(folder, results.runs.values())
    clients = read_clients(asked.store)
    if not results.runs and not clients:
        raise InputError(f"{asked.store} has no finished run to add; --output names the folder of the runs")
    if clients:
        written.append(write_clients(folder, clients, (asked.seeds or SEEDS)[0]))
    for path in written:
        print(path)
    remark(f"{plural(len(results.runs), 'run')} from {asked.store}")
    return 0


def make_page(path: Path, seeds: Sequence[int] | None) -> int:
    """The page from the files beside it."""
    for written in Page(path, seeds).save():
        print(written)
    return 0


def _results(store: Path, cells: Iterable[Cell] | None = None) -> Results:
    results = results_in(store, cells)
    for sentence in results.unreadable:
        remark(f"left out: {sentence}")
    return results


def _and_known(asked: Asked) -> str:
    return f" and {asked.known}" if asked.known else ""


def _say(text: str) -> None:
    console.print(Text(text))
