"""Configured runs with folders of their own: started, resumed, and several methods side by side.

one method        DIR/            is its run folder
several methods   DIR/<method>/   is a run folder each, and DIR/config.yaml names them all
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, changed_fields, config_yaml, read_config
from smofi.config.federation import Federation, gather
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions.saved import FILE as PARTITION
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.engine.checkpoint import write_atomically
from smofi.engine.events import Callback
from smofi.engine.folder import RunFolder
from smofi.engine.processes import workers as processes
from smofi.engine.processes.crew import Crew, joined
from smofi.engine.processes.workers import own_device
from smofi.errors import InputError
from smofi.experiment.provenance import provenance
from smofi.methods import parse_method
from smofi.training import Result, Session, prepare


@dataclass(frozen=True)
class FolderRun:
    """A session whose rounds are kept in a folder."""

    name: str
    session: Session
    folder: RunFolder

    def train(self) -> Result:
        """All rounds that are still to do, kept as they are done; then the final model."""
        self.session.run.keeper = self.folder
        try:
            result = self.session.train()
            self.folder.finish(self.session.run, result.model)
        finally:
            self.folder.close()
        return result


def follow(config: Config, resumed: Path | None = None) -> None:
    """Take part in the runs of the first worker, method after method, for as long as it goes on."""
    arguments, crew = _shared(config, gather(_by_own_file(config, resumed) if resumed else config), None)
    for method in config.method:
        prepare(**arguments, method=method, crew=crew).train()


def follow_on(runs: list[FolderRun]) -> None:
    """The same in a worker forked from the first one, which has the runs as they were then."""
    for one in runs:
        one.folder.close()  # still locked for the first one
    while runs:
        runs.pop(0).session.run.train()


def start(
    config: Config,
    path: Path,
    callback: Callback | None = None,
    command: str = "",
    progress: ReadProgress = silent,
    crew: Crew | None = None,
) -> list[FolderRun]:
    """Runs ready to train, one per method, in folders that hold no run yet; `progress` watches the data being read.

    They are shared by `crew`, or by those that this process finds itself among.
    """
    _refuse_taken(path)
    config = config.with_absolute_paths()
    federation = gather(config, progress)
    with _opened(config, federation, path, callback, crew) as runs:
        for place in (path, *(one.folder.path for one in runs)):
            _refuse_taken(place)
        if len(runs) > 1:
            write_atomically(path / "config.yaml", config_yaml(config).encode())
        _describe(runs, config, federation, command)
        return runs


def resume(
    path: Path,
    overrides: Mapping[str, Any],
    callback: Callback | None = None,
    command: str = "",
    progress: ReadProgress = silent,
    crew: Crew | None = None,
) -> list[FolderRun]:
    """Runs ready to go on from where they were; refuses, field by field, to go on as something else."""
    before, config = stored_config(path), stored_config(path, overrides)
    if changed := changed_fields(before, config):
        raise InputError(f"{path} cannot be resumed with other settings: " + "; ".join(changed))
    federation = gather(_by_own_file(config, path), progress)
    data = federation.source.fingerprint()
    with _opened(config, federation, path, callback, crew) as runs:
        begun = [one for one in runs if (one.folder.path / "config.yaml").exists()]
        for one in begun:
            one.folder.check_data(federation.owners, data)
            one.folder.check_devices(_fingerprint(one))
            one.folder.restore(one.session.run)
            write_atomically(one.folder.path / "config.yaml", config_yaml(_alone(config, one)).encode())
        _describe([one for one in runs if one not in begun], config, federation, command)
        if len(runs) > 1:
            write_atomically(path / "config.yaml", config_yaml(config).encode())
        return runs


def stored_config(path: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration of the run in this folder, with what is to change."""
    if not (path / "config.yaml").exists():
        raise InputError(f"resume={str(path)!r} is not accepted: expected a run folder, and it has no config.yaml")
    return read_config(path / "config.yaml", overrides or {})


def worker_count(asked: int | None, config: Config) -> int:
    """How many workers share a configured run; one, unless asked for more, where further ones would have nothing to do.

    >>> worker_count(3, Config()), worker_count(None, Config(method="sflv2"))
    (3, 1)
    """
    one_server = all(parse_method(method).where.one_server for method in config.method)
    useful = 1 if one_server or config.diagnose else round(config.participation * config.clients)
    return processes.worker_count(asked, config.device, useful)


def folder_name(method: str) -> str:
    """A method's name as the name of a folder.

    >>> folder_name("fedprox(mu=0.01)+smofi")
    'fedprox-mu=0.01-smofi'
    """
    return re.sub(r"[^\w.=]+", "-", method).strip("-")


def _by_own_file(config: Config, path: Path) -> Config:
    """A run divided by another run's file has a copy of it, and no longer needs the other run."""
    copies = sorted([*path.glob(PARTITION), *path.glob(f"*/{PARTITION}")])
    if not config.partition.startswith(SAVED) or not copies:
        return config
    return config.model_copy(update={"partition": f"{SAVED}{copies[0]}"})


def _alone(config: Config, one: FolderRun) -> Config:
    return config.model_copy(update={"method": (one.name,)})


def _describe(runs: list[FolderRun], config: Config, federation: Federation, command: str) -> None:
    source = federation.source
    about = provenance(command) | {"seed": config.seed, "task": source.task(), "data_sha256": source.fingerprint()}
    for one in runs:
        labels, own = source.train.labels.numpy(), about | {"devices_sha256": _fingerprint(one)}
        one.folder.describe(config_yaml(_alone(config, one)), own, federation.owners, labels)


def _fingerprint(one: FolderRun) -> str | None:
    """That of the devices a run's clock knows."""
    clock = one.session.run.planner.clock
    return clock.fingerprint if clock else None


def _refuse_taken(path: Path) -> None:
    if (path / "config.yaml").exists():
        raise InputError(
            f"output={str(path)!r} is not accepted: it holds a run already; expected a new folder, or: "
            f"smofi run --resume {path}"
        )


def _shared(config: Config, federation: Federation, crew: Crew | None) -> tuple[dict[str, Any], Crew]:
    """The arguments of a run on this worker's own device, and the workers that share it."""
    device = own_device(config.device)
    return config.arguments(federation) | {"device": device}, crew or joined(torch.device(device))


@contextmanager
def _opened(
    config: Config, federation: Federation, path: Path, callback: Callback | None, crew: Crew | None
) -> Iterator[list[FolderRun]]:
    """A session per method, each with its folder locked; all let go if anything fails."""
    arguments, crew = _shared(config, federation, crew)
    methods = [parse_method(text) for text in config.method]
    sessions = {method.name: prepare(**arguments, method=method, callback=callback, crew=crew) for method in methods}
    runs: list[FolderRun] = []
    try:
        for name, session in sessions.items():
            place = path / folder_name(name) if len(sessions) > 1 else path
            runs.append(FolderRun(name, session, RunFolder(place, config.checkpoint_every)))
        yield runs
    except BaseException:
        for one in runs:
            one.folder.close()
        raise
