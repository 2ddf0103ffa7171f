"""Starting runs, in folders without one."""

from __future__ import annotations

from pathlib import Path

import torch

from smofi.config import Config
from smofi.config.federation import gather
from smofi.data.decoded import ReadProgress, silent
from smofi.engine.events import Callback
from smofi.engine.processes.workers import Workers
from smofi.errors import InputError
from smofi.experiment.opening import FolderRun, describe, opened, whole_config
from smofi.runs import RunFolder


def start(
    config: Config,
    path: Path,
    callback: Callback | None = None,
    command: str = "",
    progress: ReadProgress = silent,
    workers: Workers | None = None,
) -> list[FolderRun]:
    """Runs ready to train, one per method, in folders without a run; `progress` watches the data being read.

    They are shared by `workers`, or by the workers that this process is one of, which uses as many threads as `config`
    says from now on.
    """
    whole = RunFolder(path)
    _refuse_taken(whole)
    torch.set_num_threads(config.threads)
    config = config.with_absolute_paths()
    federation = gather(config, progress)
    with opened(config, federation, path, callback, workers) as runs:
        for folder in (whole, *(one.folder for one in runs)):
            _refuse_taken(folder)
        if len(runs) > 1:
            whole.write_config(whole_config(config, runs))
        describe(runs, config, federation, federation.source.fingerprint(), command)
        return runs


def _refuse_taken(folder: RunFolder) -> None:
    if folder.has_run:
        raise InputError(
            f"output={str(folder.path)!r} is not accepted: it already contains a run; expected a new folder, or: "
            f"smofi run --resume {folder.path}"
        )
