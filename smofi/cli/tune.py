"""The command that chooses a method's parameters: tune."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter as Argument
from rich.table import Table
from rich.text import Text

from smofi.cli.arguments import SEVERAL, Display, Flags, Scale, Source, resolve, settings_given
from smofi.cli.claiming import RUNS
from smofi.cli.program import console
from smofi.cli.streams import loading
from smofi.cli.sweep import DryRun, Jobs, SweepOutput
from smofi.config import Config, Settings, config_yaml
from smofi.engine.metrics import headings
from smofi.errors import refuse_unwanted
from smofi.report.numbers import percent, percent_with_spread
from smofi.sweep.file import each_alone, labelled
from smofi.sweep.store import slug
from smofi.sweep.tuning import at_the_edge, best_of, held_out, tried, variants, within_spread

if TYPE_CHECKING:
    from smofi.sweep.tuning import Trial


def tune(
    method: Annotated[str, Argument(help="the method whose parameters are tuned, such as fedprox or fedprox+smofi")],
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    grid: Annotated[
        list[str] | None,
        Argument(help="values to try, such as mu=0.001,0.01; by default those in docs/sweeps.md", **SEVERAL),
    ] = None,
    output: SweepOutput = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    display: Annotated[
        Display, Argument(help="how progress is shown; auto: live on a terminal, plain elsewhere")
    ] = "auto",
) -> int:
    """Choose a method's parameters by the accuracy on validation data, a tenth of the training data held out.

    Every combination of the grid is trained with every seed. Parameters that are written in METHOD stay as they are.
    The test data has no say in what is chosen. The same command again goes on where it was.
    """
    given = settings_given(flags)
    if "method" in given:
        refuse_unwanted("method", list(given["method"]), "the method to tune comes first: smofi tune METHOD")
    tried_out = variants(method, grid or ())
    methods = [one.method for one in tried_out]
    config = resolve(source, {**given, "method": methods}, scale)
    config = config.model_copy(update={"validation": held_out(given, config)})
    cells = labelled(each_alone([config]), "the grid")
    folder = RUNS / f"tune-{slug(config.data)}-{slug(method)}" if output is None else output
    with loading():
        from smofi.cli.sweeping import Sweep, exit_code
    sweep = Sweep(cells, folder, jobs, config_yaml(config))
    if dry_run:
        return sweep.list()
    outcomes = sweep.run(display)
    trials = tried(tried_out, outcomes.all)
    best = best_of(trials)
    if display != "jsonl":
        _print(config, trials, best, folder)
    return exit_code(outcomes) or int(best is None)


def _print(config: Config, trials: Sequence[Trial], best: Trial | None, folder: Path) -> None:
    from smofi.cli.sweeping import print_line

    console.print(_table(config, trials, best))
    print_line(f"Runs: {folder}")
    if best is None:
        print_line("No combination has all its seeds: none is chosen.")
        return
    print_line(f"Best: {best.variant.method}. Use it with: --method {shlex.quote(best.variant.method)}")
    if close := within_spread(best, trials):
        names = ", ".join(trial.variant.method for trial in close)
        print_line(f"Within its standard deviation over seeds, so about as good: {names}")
    for parameter, which in at_the_edge(best, trials).items():
        value = best.variant.values[parameter]
        print_line(f"{parameter}={value:g} is the {which} value tried; a better one may lie beyond it, see --grid")


def _table(config: Config, trials: Sequence[Trial], best: Trial | None) -> Table:
    """The grid, a row for each combination; the best one is bold."""
    judged = next(name for metric, name in headings(config.metrics).items() if metric != "per_client")
    table = Table(title="on validation data, mean ± standard deviation over seeds", title_justify="left")
    for parameter in trials[0].variant.values:
        table.add_column(str(parameter), justify="right")
    for heading in (f"best {judged}", "mean over rounds", "seeds"):
        table.add_column(heading, justify="right")
    for trial in trials:
        cells = [f"{value:g}" for value in trial.variant.values.values()]
        if trial.best:
            mean = sum(trial.means) / len(trial.means)
            cells += [percent_with_spread(trial.mean, trial.spread), percent(mean)]
        else:
            cells += ["-", "-"]
        cells.append(f"{len(trial.best)}" + (f", {trial.missing}" if trial.missing else ""))
        table.add_row(*(Text(cell, style="bold" if trial is best else "") for cell in cells))
    return table
