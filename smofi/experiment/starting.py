"""Starting runs, in folders without one."""

from __future__ import annotations

from pathlib import Path

import torch

from smofi.config import Config
from smofi.config.federation import gather_each
from smofi.data.decoded import ReadProgress, silent
from smofi.engine.events import Callback
from smofi.engine.processes.workers import Workers
from smofi.errors import check_path
from smofi.experiment.opening import FolderRun, describe_new, opened
from smofi.runs import check_free, folders_for


def start(
    config: Config,
    path: str | Path,
    callback: Callback | None = None,
    command: str = "",
    progress: ReadProgress = silent,
    workers: Workers | None = None,
) -> list[FolderRun]:
    """Runs ready to train, one per method and seed, in folders without a run; `progress` watches the data being read.

    They are shared by `workers`, or by the workers that this process is one of, which uses as many threads as `config`
    says from now on.
    """
    path = check_path("path", path)
    below = [folder.path for folder in folders_for(path, config.method, config.each_seed) if folder.path != path]
    check_free(path, below)
    torch.set_num_threads(config.threads)
    config = config.with_absolute_paths()
    federations = gather_each(config, progress)
    first = federations[config.seed]
    config = config.divided(first)
    with opened(config, federations, path, callback, workers) as runs:
        describe_new(path, runs, config, federations, first.source.fingerprint(), command)
        return runs
