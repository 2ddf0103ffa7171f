"""Runs with folders of their own: a session per method, each with its folder locked and described."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, config_yaml
from smofi.config.federation import Federation
from smofi.engine.events import Callback
from smofi.engine.processes.starting import own_device
from smofi.engine.processes.workers import Workers, joined
from smofi.experiment.keeping import RunKeeper
from smofi.experiment.provenance import provenance
from smofi.methods import parse_method
from smofi.runs import RunFolder, folders_for
from smofi.training import Result, Session, prepare


@dataclass(frozen=True)
class FolderRun:
    """A session whose rounds are kept in a folder."""

    name: str
    session: Session
    keeper: RunKeeper

    @property
    def folder(self) -> RunFolder:
        """The run's files."""
        return self.keeper.folder

    @property
    def devices_hash(self) -> str | None:
        """The fingerprint of the devices of the run's clock."""
        clock = self.session.run.planner.clock
        return clock.fingerprint if clock else None

    def train(self) -> Result:
        """All rounds that are still to do, kept as they are done; then the final model."""
        self.session.run.keeper = self.keeper
        try:
            result = self.session.train()
            self.keeper.finish(self.session.run, result.model)
        finally:
            self.close()
        return result

    def close(self) -> None:
        """Let others write the folder."""
        self.keeper.close()


@contextmanager
def opened(
    config: Config, federation: Federation, path: Path, callback: Callback | None, workers: Workers | None
) -> Iterator[list[FolderRun]]:
    """A session per method, each with its folder locked; all are closed if anything fails."""
    arguments, workers = shared_arguments(config, federation, workers)
    methods = [parse_method(text) for text in config.method]
    sessions = {
        method.name: prepare(**arguments, method=method, callback=callback, workers=workers) for method in methods
    }
    runs: list[FolderRun] = []
    try:
        for (name, session), folder in zip(sessions.items(), folders_for(path, list(sessions)), strict=True):
            runs.append(FolderRun(name, session, RunKeeper(folder.path, config.checkpoint_every)))
        yield runs
    except BaseException:
        for one in runs:
            one.close()
        raise


def shared_arguments(config: Config, federation: Federation, workers: Workers | None) -> tuple[dict[str, Any], Workers]:
    """The arguments of a run on this worker's own device, and the workers that share it."""
    device = own_device(config.device)
    return config.arguments(federation) | {"device": device}, workers or joined(torch.device(device))


def describe(runs: list[FolderRun], config: Config, federation: Federation, data_hash: str, command: str) -> None:
    """Write into each run's folder what the run is."""
    source = federation.source
    about = provenance(command) | {"seed": config.seed, "task": source.task(), "data_sha256": data_hash}
    for one in runs:
        own = about | {"devices_sha256": one.devices_hash}
        one.folder.describe(own_config(config, one), own, federation.owners, source.train.labels.numpy())


def own_config(config: Config, one: FolderRun) -> str:
    """The configuration of one of the runs, as YAML."""
    return config_yaml(config.model_copy(update={"method": (one.name,)}))
