"""Runs with folders of their own: a session per method and seed, each with its folder locked and described."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from smofi.config import Config, config_yaml
from smofi.config.federation import Federation
from smofi.engine.events import Callback
from smofi.engine.processes.starting import own_device
from smofi.engine.processes.workers import Workers, joined
from smofi.errors import InputError
from smofi.experiment.keeping import RunKeeper
from smofi.experiment.provenance import provenance
from smofi.runs import FolderLock, RunFolder, RunWriter, check_free, folders_for, folders_in
from smofi.training import Result, Session, prepare


@dataclass(frozen=True)
class FolderRun:
    """A session whose rounds are kept in a folder: that of the method `name` with a seed. `served`: clients compute for
    themselves, so that nothing was decided about how."""

    name: str
    seed: int
    session: Session
    keeper: RunKeeper
    served: bool = False

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


Federations: TypeAlias = Mapping[int, Federation]
"""The divided data of each seed."""


@contextmanager
def opened(
    config: Config,
    federations: Federations,
    path: Path,
    callback: Callback | None,
    workers: Workers | None,
    *,
    resumed: bool = False,
) -> Iterator[list[FolderRun]]:
    """A session per seed and method, each with its folder locked; all are closed if anything fails. A comparison's own
    folder is locked as long as this block lasts."""
    workers = workers or own_workers(config)
    sessions: dict[tuple[int, str], Session] = {}
    for seed in config.each_seed:
        if len(sessions) == len(config.method) and not resumed:  # the first seed decides how clients are computed
            config = config.model_copy(update={"executor": tuple(one.executor for one in sessions.values())})
        for method in config.method:
            arguments = own_arguments(config.with_seed(seed), federations[seed], method)
            sessions[seed, method] = prepare(**arguments, callback=callback, workers=workers)
    _remark_once(sessions.values())
    # those of a run that goes on are as they were named when it began
    folders = folders_in(path) if resumed else folders_for(path, config.method, config.each_seed)
    runs: list[FolderRun] = []
    whole = FolderLock(path) if len(sessions) > 1 else None
    try:
        for ((seed, method), session), folder in zip(sessions.items(), folders, strict=True):
            runs.append(FolderRun(method, seed, session, RunKeeper(folder.path, config.checkpoint_every)))
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


def describe_new(
    path: Path,
    runs: Sequence[FolderRun],
    config: Config,
    federations: Federations,
    data_hash: str,
    command: str,
    **more: Any,
) -> None:
    """Write what new runs are, and `more` about them, whose folders are locked: into each run's folder and, of several,
    into that of all."""
    check_free(path, [one.folder.path for one in runs if one.folder.path != path])  # another process may have begun
    try:
        _describe(runs, config, federations, data_hash, provenance(command) | more)
        if len(runs) > 1:
            compared = {one.folder.path.relative_to(path).as_posix(): one.keeper.writer.manifest.run for one in runs}
            RunWriter(RunFolder(path)).describe_comparison(whole_config(config, runs), compared)
    except OSError as error:
        raise InputError(f"output={str(path)!r} is not accepted: {error.strerror}") from error


def _describe(
    runs: Sequence[FolderRun], config: Config, federations: Federations, data_hash: str, origin: Mapping[str, Any]
) -> None:
    for one in runs:
        federation = federations[one.seed]
        source = federation.source
        about = {**origin, "seed": one.seed, "task": source.task(), "data_sha256": data_hash}
        about |= {"client_names": federation.client_names} if federation.client_names else {}
        decided = next(first for first in runs if first.name == one.name)  # for all seeds
        about |= {"devices_sha256": one.devices_hash} | _computed(config, decided) | one.judged
        one.keeper.writer.describe(own_config(config, one), about, federation.owners, source.train.labels.numpy())


def _computed(config: Config, one: FolderRun) -> dict[str, Any]:
    """With what a run begins to compute, and why its clients are computed like this."""
    why = one.session.run.simulation.execution.because(config.executor_of(one.name))
    return {"executor": one.executor, "executor_why": why, "threads": config.threads, "workers": _workers(one)}


def own_config(config: Config, one: FolderRun) -> str:
    """The configuration of one of the runs as it was resolved, as YAML."""
    decided = {} if one.served else {"executor": (one.executor,), "workers": _workers(one)}
    return config_yaml(config.with_seed(one.seed).model_copy(update={"method": (one.name,), **decided}))


def whole_config(config: Config, runs: Sequence[FolderRun]) -> str:
    """The configuration of all runs together, likewise."""
    if runs[0].served:
        return config_yaml(config)
    executors = tuple(one.executor for one in runs[: len(config.method)])
    decided = {"executor": executors if len(set(executors)) > 1 else executors[:1], "workers": _workers(runs[0])}
    return config_yaml(config.model_copy(update=decided))


def _workers(one: FolderRun) -> int:
    return one.session.run.workers.size
