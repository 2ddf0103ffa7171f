"""What `smofi reproduce` does once its arguments are accepted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from smofi.cli.program import console
from smofi.cli.streams import complain, remark
from smofi.plural import plural
from smofi.report.numbers import duration
from smofi.reproduce.checking import check
from smofi.reproduce.estimate import estimate
from smofi.reproduce.files import collect
from smofi.reproduce.findings import findings
from smofi.reproduce.items import ITEMS, Scaled
from smofi.reproduce.measured import Measured
from smofi.reproduce.page import Page, about
from smofi.reproduce.pictures import save_pictures
from smofi.reproduce.results import Results, results_in
from smofi.reproduce.tables import table_of
from smofi.sweep.cells import Cell
from smofi.sweep.running import CellEvent, Ended, Started, run_cells
from smofi.sweep.store import Store


def list_items(scale: str, seeds: Sequence[int], store: Path) -> int:
    """All items with their runs, how many are done, and the time that the rest would take."""
    cells = {name: item.at(scale).cells(seeds) for name, item in ITEMS.items()}
    results = _results(store, {cell.key: cell for own in cells.values() for cell in own}.values())
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("item", "what it is", "runs", "done", "time left"):
        table.add_column(heading, justify="right" if heading in ("runs", "done", "time left") else "left")
    timed = False
    for name, own in cells.items():
        left = [cell for cell in own if cell not in results]
        time = estimate(left, results)
        timed |= not time.measured
        table.add_row(name, ITEMS[name].title, str(len(own)), str(len(own) - len(left)), _left(left, time.seconds))
    console.print(table)
    how = "from finished runs of the same model in this folder"
    if timed:
        how += ", where there are none from a step timed now, client by client"
    console.print(
        Text(
            f"Scale {scale}, seeds {', '.join(map(str, seeds))}, in {store}. Items share runs. Times are of one run "
            f"after the other in one process, {how}.\nRun one with: smofi reproduce NAME --scale {scale}"
        )
    )
    return 0


def _left(cells: Sequence[Cell], seconds: float) -> str:
    return duration(seconds) if cells else "-"


def check_items(items: Sequence[Scaled], seeds: Sequence[int]) -> int:
    """Check every cell, and list them."""
    for one in items:
        cells = one.cells(seeds)
        for cell in cells:
            check(cell)
        console.print(Text(f"{one.item.name}: {plural(len(cells), 'run')}, all can be run", style="bold"))
        for cell in cells:
            config = cell.config
            about = f"{config.model}, cut {config.cut}, {plural(config.rounds, 'round')}, {config.optimizer}"
            console.print(Text(f"  {cell.title}: {cell.method}; {about}"))
    return 0


def run_items(items: Sequence[Scaled], seeds: Sequence[int], store: Path, jobs: int) -> int:
    """Run what is not done yet. Exit code 1 if a run fails, 128 + n after signal n."""
    cells = list({cell.key: cell for one in items for cell in one.cells(seeds)}.values())
    store.mkdir(parents=True, exist_ok=True)
    outcomes = run_cells(cells, Store(store), jobs, _Watch(len(cells)))
    for failed in outcomes.failed:
        complain(f"{failed.cell.title}: {failed.words}")
    return 128 + outcomes.signal if outcomes.signal else 1 if outcomes.failed else 0


class _Watch:
    """Says which runs start and end."""

    def __init__(self, cells: int) -> None:
        self.cells, self.ended = cells, 0

    def __call__(self, event: CellEvent) -> None:
        if isinstance(event, Started):
            remark(f"{event.cell.title}: {'goes on' if event.resumed else 'starts'} in {event.folder}")
        elif isinstance(event, Ended):
            self.ended += 1
            if event.outcome.ran:
                took = duration(event.outcome.seconds)
                remark(f"{self.ended} of {self.cells}: {event.outcome.cell.title}: {event.outcome.state}, {took}")


def print_item(one: Scaled, seeds: Sequence[int], store: Path) -> None:
    """Our numbers beside the paper's, and a picture."""
    results = _results(store, one.cells(seeds))
    panels = [Measured.of(panel, seeds, results) for panel in one.panels]
    console.print(Text(f"\n{one.item.name}: {one.item.title}", style="bold"))
    for claim in one.item.claims:
        console.print(Text(f"The paper: {claim}"))
    for measured in panels:
        if not measured.all_histories:
            console.print(Text(f"{measured.panel.title}: no finished run in {store}"))
            continue
        table, left_out = table_of(one.item, measured).fitting(console.width)
        console.print(table)
        if left_out:
            console.print(Text(f"No room for: {', '.join(left_out)}"))
        for sentence in [about(measured), *findings(measured)]:
            console.print(Text(sentence))
    for remark_ in one.item.remarks:
        console.print(Text(remark_))
    for path in save_pictures(store, one.item, one.scale, panels):
        print(f"Picture: {path}")


def collect_into(folder: Path, store: Path) -> int:
    """Add the finished runs of a folder to the files of another."""
    results = _results(store)
    for path in collect(folder, results.runs.values()):
        print(path)
    remark(f"{plural(len(results.runs), 'run')} from {store}")
    return 0


def make_page(path: Path, seeds: Sequence[int]) -> int:
    """The page from the files beside it."""
    for written in Page(path, seeds).save():
        print(written)
    return 0


def _results(store: Path, cells: Iterable[Cell] | None = None) -> Results:
    results = results_in(store, cells)
    for sentence in results.unreadable:
        remark(f"left out: {sentence}")
    return results
