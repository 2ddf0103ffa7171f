"""Runs with folders of their own: a session per method, each with its folder locked and described."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
from smofi.runs import FolderLock, RunFolder, folders_for, folders_in
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
    def executor(self) -> str:
        """How its clients are computed, as it was decided."""
        return self.session.executor

    @property
    def devices_hash(self) -> str | None:
        """The fingerprint of the devices of the run's clock."""
        clock = self.session.run.planner.clock
        return clock.fingerprint if clock else None

    @property
    def judged(self) -> dict[str, Any]:
        """What its metrics are called, the one that is judged first, and what a model reaches by chance."""
        evaluator = self.session.run.evaluator
        return {"metrics": evaluator.headings, "chance": evaluator.chance}

    def train(self) -> Result:
        """All rounds that are still to do, kept as they are done; then the final model."""
        self.session.run.keeper = self.keeper
        try:
            result = self.session.train()
            self.keeper.finish(self.session.run, result)
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
    """A session per method, each with its folder locked; all are closed if anything fails. A comparison's own folder is
    locked as long as this block lasts."""
    workers = workers or own_workers(config)
    sessions = {
        method: prepare(**own_arguments(config, federation, method), callback=callback, workers=workers)
        for method in config.method
    }
    _remark_once(sessions.values())
    runs: list[FolderRun] = []
    whole = FolderLock(path) if len(sessions) > 1 else None
    try:
        # those of a run that goes on are as they were named when it began
        folders = folders_in(path) if RunFolder(path).has_run else folders_for(path, list(sessions))
        for (name, session), folder in zip(sessions.items(), folders, strict=True):
            runs.append(FolderRun(name, session, RunKeeper(folder.path, config.checkpoint_every)))
        yield runs
    except BaseException:
        for one in runs:
            one.close()
        raise
    finally:
        if whole:
            whole.release()


def own_arguments(config: Config, federation: Federation, method: str) -> dict[str, Any]:
    """The arguments of one of the runs, on this worker's own device."""
    return config.arguments(federation, method) | {"method": method, "device": own_device(config.device)}


def own_workers(config: Config) -> Workers:
    """The workers that share the runs, as this process sees them that was started as one of them."""
    return joined(torch.device(own_device(config.device)))


def _remark_once(sessions: Iterable[Session]) -> None:
    """What several runs would remark, the first one does."""
    made: set[str] = set()
    for session in sessions:
        session.run.remarks = [remark for remark in session.run.remarks if remark not in made]
        made.update(session.run.remarks)


def describe(runs: list[FolderRun], config: Config, federation: Federation, data_hash: str, command: str) -> None:
    """Write into each run's folder what the run is."""
    source = federation.source
    about = provenance(command) | {"seed": config.seed, "task": source.task(), "data_sha256": data_hash}
    about |= {"client_names": federation.client_names} if federation.client_names else {}
    for one in runs:
        own = about | {"devices_sha256": one.devices_hash} | _computed(config, one) | one.judged
        one.keeper.writer.describe(own_config(config, one), own, federation.owners, source.train.labels.numpy())


def _computed(config: Config, one: FolderRun) -> dict[str, Any]:
    """With what a run begins to compute, and why its clients are computed like this."""
    why = one.session.run.simulation.execution.because(config.executor_of(one.name))
    return {"executor": one.executor, "executor_why": why, "threads": config.threads, "workers": _workers(one)}


def own_config(config: Config, one: FolderRun) -> str:
    """The configuration of one of the runs as it was resolved, as YAML."""
    decided = {"executor": (one.executor,), "workers": _workers(one)}
    return config_yaml(config.model_copy(update={"method": (one.name,), **decided}))


def whole_config(config: Config, runs: Sequence[FolderRun]) -> str:
    """The configuration of all runs together, likewise."""
    executors = tuple(one.executor for one in runs)
    decided = {"executor": executors if len(set(executors)) > 1 else executors[:1], "workers": _workers(runs[0])}
    return config_yaml(config.model_copy(update=decided))


def _workers(one: FolderRun) -> int:
    return one.session.run.workers.size
