"""Follow the first of the workers that share a run; say how many there are."""

from __future__ import annotations

from pathlib import Path

import torch

from smofi.config import Config
from smofi.config.federation import gather_each
from smofi.engine.processes import starting as processes
from smofi.engine.processes.counting import keep_busy
from smofi.experiment.opening import FolderRun, own_arguments, own_workers
from smofi.experiment.resuming import as_started
from smofi.memory import limited
from smofi.methods import parse_method
from smofi.training import prepare


def worker_count(config: Config, *, resumed: bool = False) -> int:
    """Return how many workers share a configured run; one where further ones would gain nothing, unless more are asked
    for. A run that is `resumed` keeps the number that it has.

    >>> worker_count(Config(workers=3)), worker_count(Config(method="sflv2"))
    (3, 1)
    """
    one_server = all(parse_method(method).where.one_server for method in config.method)
    with limited(config.memory_limit):
        workers = processes.worker_count(
            config.workers, config.device, 1 if one_server or config.diagnose else config.per_round
        )
    return workers if resumed else keep_busy(workers, config.per_round, asked=config.workers is not None)


def follow(config: Config, resumed: Path | None = None) -> None:
    """Take part in the runs of the first worker, one after the other, for as long as it goes on."""
    torch.set_num_threads(config.threads)
    config, federations = as_started(config, resumed) if resumed else (config, gather_each(config))
    workers = own_workers(config)
    with processes.led_by_the_first(workers):
        for seed, federation in federations.items():
            for method in config.method:
                prepare(**own_arguments(config.with_seed(seed), federation, method), workers=workers).train()


def follow_on(runs: list[FolderRun]) -> None:
    """Take part in a worker forked from the first one, which has the runs as they were then."""
    for one in runs:
        one.close()  # still locked for the first one
    while runs:
        runs.pop(0).session.run.train()
