"""Commands that train nothing: plan, advise, config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.cli.entry import loading
from smofi.cli.flags import NONE_GIVEN, Flags, Picture, Scale, Source, resolve, resolve_with_clock, settings_given
from smofi.cli.program import HOW_TO_WRITE, command, console, reading
from smofi.config import Config, config_yaml
from smofi.memory import refusing
from smofi.report.asked import check_output

if TYPE_CHECKING:
    from smofi.config.federation import Federation

MEASURED = 2.0
"""Seconds for which the steps of a method are timed."""


@command("smofi plan cifar10 --workers 2", "smofi plan my.yaml --method smofi --seeds 0-2", options=HOW_TO_WRITE)
def plan(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None) -> int:
    """Check a configuration and say what it will take: clients, steps, memory, time. Nothing is trained or written.

    Memory and time are those of a run with as many workers as `smofi run` would start, or as --workers says; with
    several seeds, the time is that of all their runs, one after the other.
    """
    config = resolve(source, settings_given(flags), scale)
    with loading():
        import torch

        from smofi.experiment.following import worker_count
        from smofi.planning import over_seeds, plan_run
        from smofi.report.plan import plan_table
    torch.set_num_threads(config.threads)
    config, federations = divided(config)
    workers, deadline = worker_count(config), MEASURED / len(federations)
    with refusing(f"a run of {config.model} on {config.data}"):
        summaries = [
            over_seeds(
                [
                    plan_run(config.with_seed(seed), method, federation, workers=workers, deadline=deadline)
                    for seed, federation in federations.items()
                ]
            )
            for method in config.method
        ]
    console.print(plan_table(summaries, console.width))
    return 0


@command("smofi advise cifar10 --scale small --output cuts.png", options=HOW_TO_WRITE)
def advise(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None, output: Picture = None) -> int:
    """Say which cut suits the clients' devices: the time of a round and a client's load at every cut of the model.

    Rounds are planned, by a full clock unless the configuration has another, with each seed; nothing is trained.
    """
    if output is not None:
        check_output(output, "output", "picture", force=True)
    config = resolve_with_clock(source, settings_given(flags), scale)
    with loading():
        from smofi.planning.advice import advise_each
        from smofi.report.plan import advice_picture, advice_table
    config, federations = divided(config)
    with refusing(f"a run of {config.model} on {config.data}"):
        advice = advise_each(config, federations)
    console.print(advice_table(advice, console))
    if output is not None:
        print(f"Picture: {advice_picture(advice).save(output)}")
    return 0


def divided(config: Config) -> tuple[Config, dict[int, Federation]]:
    """Read the data, and divide it with each seed."""
    with loading():
        from smofi.config.federation import gather_each
    with reading(config.data) as progress:
        federations = gather_each(config, progress)
    return config.divided(federations[config.seed]), federations


@command("smofi config cifar10 --scale small > my.yaml", options=HOW_TO_WRITE)
def config(source: Source = None, /, *, flags: Flags = NONE_GIVEN, scale: Scale = None) -> int:
    """Print a configuration in full, as YAML with a comment on every field."""
    print(config_yaml(resolve(source, settings_given(flags), scale)), end="")
    return 0
