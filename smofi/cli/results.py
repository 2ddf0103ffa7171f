"""What is printed after training: the table, the curves, and where the pictures are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from smofi.cli.program import console
from smofi.cli.report import PAGE
from smofi.config import Config
from smofi.errors import SmofiError
from smofi.report import NARROWEST, History, compare, draw_curves, results_table, save_curves
from smofi.report.names import details, setting
from smofi.report.table import clients_table
from smofi.runs import RunFolder, participants_in
from smofi.training import Result

WIDEST = 100  # of the curves, in characters


def print_results(
    config: Config,
    folder: Path,
    results: Mapping[tuple[int, str], Result],
    judged: Mapping[str, Any],
    seconds: float,
    mode: str,
) -> None:
    """Compare the methods, by seed and name, as they are `judged`, and save their curves in the folder; `quiet` saves
    only."""
    for (seed, name), result in results.items():
        if result.stopped and mode != "quiet" and not result.diverged:
            which = f"{name}, seed {seed}" if config.seeds else name
            console.print(f"{which}: {result.stopped}", markup=False, highlight=False)
    histories = [
        History.of(name, result.history, seed, **judged) for (seed, name), result in results.items() if result.history
    ]
    rows = compare(histories)
    if not rows:
        return
    target = rows[0].target
    saved = _save_pictures(config, folder, histories, target)
    if mode != "quiet":
        console.print(results_table(rows))
        if mode != "live" or config.seeds:  # the last picture stays, but it is that of one seed
            width = max(NARROWEST, min(console.width, WIDEST))
            console.print(draw_curves(histories, target=target, width=width, encoding=console.encoding))
        if (clients := clients_table([one for one in histories if one.seed == config.seed])) is not None:
            console.print(clients)
        console.print(f"{seconds:.0f} s. {saved}", highlight=False, soft_wrap=True)
    if len(results) > 1:
        page = _save_page(folder)
        if mode != "quiet":
            console.print(page, markup=False, highlight=False, soft_wrap=True)


def _save_page(folder: Path) -> str:
    """Write the page about all runs, and say where; like a picture, it is worth less than the results."""
    try:
        from smofi.report.page import write_page

        return f"Page: {write_page([folder], folder / PAGE)}"
    except Exception as error:  # whatever it is, the runs are done and saved
        return f"The page could not be written: {error}"


def _save_pictures(config: Config, folder: Path, histories: Sequence[History], target: float) -> str:
    """Save the curves over rounds, with a clock those over hours too, and say where."""
    files = RunFolder(folder)
    title = setting(config, participants_in(files))
    save = partial(save_curves, histories=histories, target=target, title=title, below=details(config))
    try:
        pictures = [save(files.curves_file)]
        if config.clock != "none":
            pictures.append(save(files.curves_over_hours_file, over_hours=True))
    except SmofiError as error:  # the training is done, and its results are worth more than a picture
        return f"The picture could not be saved: {error}"
    return f"Picture{'s' * (len(pictures) > 1)}: {' and '.join(map(str, pictures))}"
