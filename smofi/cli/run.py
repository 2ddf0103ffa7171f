"""The command that trains: run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from smofi.cli.arguments import SEVERAL, Display, Flags, Scale, Source, resolve, settings_given
from smofi.cli.streams import loading
from smofi.config import Settings, stored_config
from smofi.engine.processes.counting import keep_busy
from smofi.errors import InputError, check_choice, refuse

NO_TRACKER = "none"


def run(
    source: Source = None,
    /,
    *,
    flags: Flags = Settings(),  # noqa: B008  # frozen
    scale: Scale = None,
    output: Annotated[Path | None, Parameter(help="the folder of the new run; by default one below runs/")] = None,
    resume: Annotated[Path | None, Parameter(help="continue the run in this folder")] = None,
    display: Annotated[
        Display, Parameter(help="how progress is shown; auto: live on a terminal, plain elsewhere")
    ] = "auto",
    track: Annotated[
        list[str] | None,
        Parameter(
            help="also record the run in tensorboard, wandb or mlflow; a resumed run keeps those it has, unless this "
            "is none",
            **SEVERAL,
        ),
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
    if resume is None:
        config = resolve(source, given, scale)
        folder = output
    else:
        if source is not None or output is not None or scale is not None:
            raise InputError(
                f"resume={str(resume)!r} is not accepted with a file, --scale or --output: the run's folder has its "
                "settings"
            )
        config, folder = stored_config(resume, given), resume
    if "workers" in given and config.workers and config.clients:
        keep_busy(config.workers, config.per_round, asked=True)  # refused at once; without clients, when they are known
    with loading():
        import torch

        from smofi.cli.reading import reading
        from smofi.cli.training import TrainingJob, train_together
        from smofi.config.federation import gather
        from smofi.experiment.following import worker_count
    if config.clients is None:  # before workers are started: how many are useful depends on it
        with reading(config.data) as progress:
            config = config.divided(gather(config, progress))
    torch.set_num_threads(config.threads)  # before workers are started: that of a single thread can be forked
    job = TrainingJob(config, folder, resume is not None, display, _trackers(track, resume))
    return train_together(job, worker_count(config, resumed=resume is not None and "workers" not in given))


def _trackers(wanted: list[str] | None, resumed: Path | None) -> tuple[str, ...]:
    """The trackers asked for; a resumed run keeps those it has, unless it is told otherwise."""
    if wanted is not None and NO_TRACKER in wanted and len(wanted) > 1:
        refuse("track", wanted, f"{NO_TRACKER} alone, or trackers without it")
    if wanted is None:
        from smofi.track import trackers_of

        return tuple(trackers_of(resumed)) if resumed else ()
    return tuple(name for name in wanted if name != NO_TRACKER)
