"""Commands that train nothing: plan, advise, config."""

from __future__ import annotations

from smofi.cli.arguments import Flags, Picture, Scale, Source, resolve, resolve_with_clock, settings_given
from smofi.cli.loading import loading
from smofi.cli.program import console
from smofi.config import Settings, config_yaml
from smofi.memory import refusing
from smofi.report.saving import check_picture


def plan(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
) -> int:
    """Check a configuration and say what it will take: clients, steps, memory, time. Nothing is trained or written.

    Memory and time are those of a run with as many workers as `smofi run` would start, or as --workers says.
    """
    config = resolve(source, settings_given(flags), scale)
    with loading():
        import torch

        from smofi.cli.reading import reading
        from smofi.config.federation import gather
        from smofi.experiment.following import worker_count
        from smofi.planning import plan_run
        from smofi.report.plan import plan_table
    torch.set_num_threads(config.threads)
    with reading(config.data) as progress:
        federation = gather(config, progress)
    config = config.divided(federation)
    workers = worker_count(config)
    with refusing(f"a run of {config.model} on {config.data}"):
        summaries = [plan_run(config, method, federation, workers=workers) for method in config.method]
    console.print(plan_table(summaries))
    return 0


def advise(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    output: Picture = None,
) -> int:
    """Say which cut suits the clients' devices: the time of a round and a client's load at every cut of the model.

    Rounds are planned, by a full clock unless the configuration has another; nothing is trained.
    """
    if output is not None:
        check_picture(output, "output")
    config = resolve_with_clock(source, settings_given(flags), scale)
    with loading():
        from smofi.cli.reading import reading
        from smofi.config.federation import gather
        from smofi.planning.advice import advise as compare_cuts
        from smofi.report.advice import advice_table, save_advice
    with reading(config.data) as progress:
        federation = gather(config, progress)
    config = config.divided(federation)
    with refusing(f"a run of {config.model} on {config.data}"):
        advice = compare_cuts(config, federation)
    console.print(advice_table(advice))
    if output is not None:
        print(f"Picture: {save_advice(output, advice)}")
    return 0


def config(source: Source = None, /, *, flags: Flags = Settings(), scale: Scale = None) -> int:  # noqa: B008  # frozen
    """Print a configuration in full, as YAML with a comment on every field."""
    print(config_yaml(resolve(source, settings_given(flags), scale)), end="")
    return 0
