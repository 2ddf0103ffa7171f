"""Runs that go on from their folders: the same settings, data and devices, from the last round that was saved."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, run_config
from smofi.config.federation import Federation, gather_each
from smofi.config.reading import as_begun, has_changed, stored_config
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions import PREFIX as SAVED
from smofi.engine.checkpoint import Checkpoint
from smofi.engine.events import Callback, Record
from smofi.engine.processes.workers import Workers
from smofi.engine.run import Run
from smofi.errors import InputError, check_path, refuse
from smofi.experiment.opening import FolderRun, RunKeeper, opened, own_config, whole_config
from smofi.plural import plural
from smofi.runs import (
    DamagedFile,
    RunFolder,
    RunWriter,
    StoredCheckpoint,
    UnreadableFile,
    folders_in,
    partition_hash,
    partition_in,
)
from smofi.training import Session

# --------------------------------------------------------------------------------------------------------------------
# Going on from what a folder has: the newest state that is whole, or a finished run's end. Nothing is restarted.


@dataclass(frozen=True)
class Restored:
    """A run that is what it was when it was last saved, and what its folder lacks: states and other files."""

    keeper: RunKeeper
    run: Run
    unusable: Mapping[int, DamagedFile]
    missing: Sequence[str]

    def write(self) -> None:
        """Make the folder go with the run: list nothing that is lost, and cut off the rounds since then."""
        run, folder, writer = self.run, self.keeper.folder, self.keeper.writer
        wrong = [error.what for error in self.unusable.values()]
        wrong += [f"{folder.path / name} is missing" for name in self.missing]
        if wrong:
            needs = "the run is finished, and needs no state" if run.over else f"going on from round {len(run.history)}"
            run.warn(f"{'; '.join(wrong)}; {needs}")
        for round in self.unusable:
            writer.set_aside(round)
        writer.forget(self.missing)
        writer.write_records(map(asdict, run.history))
        if run.over:  # its last round may have been evaluated just now
            self.keeper.keep_best(run)


def restore(keeper: RunKeeper, session: Session) -> Restored:
    """Make a run what it was when it was last saved; raise InputError if that is lost. Change no file."""
    run, folder, ended = session.run, keeper.folder, keeper.writer.ended
    missing = keeper.writer.missing()
    history = [record_of(fields, folder, run.evaluator.gives_loss) for fields in folder.records()]
    found, unusable = _newest(session, folder, len(history))
    done = max(ended or 0, found.round if found else 0)
    if done > run.rounds:
        refuse("rounds", run.rounds, f"at least {done}, the rounds that {folder.path} has already done")
    finished = history[:ended]
    nothing_left = len(finished) >= run.rounds or run.stopping.reason(finished) is not None
    if ended is not None and nothing_left and (found is None or found.round < ended):
        _restore_end(session, keeper, finished)
    elif found is not None:
        run.restore(Checkpoint(found.tensors, history[: found.round], found.notes))
    elif unusable or folder.has_model:
        lost = "; ".join(error.what for error in unusable.values()) or "there is none"
        why = "the state to go on from is lost"
        if ended is not None:
            why = f"it is finished after {plural(ended, 'round')}, and more need its last state"
        raise InputError(
            f"{folder.path} cannot go on: {why}: {lost}. Put the file back, or start anew in another folder: "
            f"smofi run {folder.config_file} --output NEW"
        )
    return Restored(keeper, run, unusable, missing)


def record_of(fields: Mapping[str, Any], folder: RunFolder, gives_loss: bool = True) -> Record:
    """Return a round as a run has it: JSON has null for numbers that are not finite, and for a test loss that was not
    asked for."""
    try:
        record = Record(**fields)
    except TypeError as error:
        raise InputError(f"{folder.path} has the rounds of another version of smofi: {error}") from None
    numbers = {name: math.nan for name in ("train_loss", "seconds", "learning_rate") if fields[name] is None}
    if record.metrics and record.loss is None and gives_loss:
        numbers["loss"] = math.nan
    diagnostics = {name: math.nan if value is None else value for name, value in record.diagnostics.items()}
    return Record(**{**fields, **numbers, "diagnostics": diagnostics})


def _newest(session: Session, folder: RunFolder, rounds: int) -> tuple[StoredCheckpoint | None, dict[int, DamagedFile]]:
    """Return the newest state that is whole and of this run, and why newer ones are not."""
    unusable: dict[int, DamagedFile] = {}
    for round in reversed(folder.saved_rounds()):
        try:
            checkpoint = folder.checkpoint(round)
            _check_fits(checkpoint, session, folder, rounds)
            return checkpoint, unusable
        except UnreadableFile:
            raise  # it may be whole
        except DamagedFile as error:
            unusable[round] = error
    return None, unusable


def _check_fits(checkpoint: StoredCheckpoint, session: Session, folder: RunFolder, rounds: int) -> None:
    """Refuse a state of another model or another method."""
    mine = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in session.run.state.tensors().items()}
    theirs = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in checkpoint.tensors.items()}
    if mine != theirs:
        name = next(name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name))
        raise DamagedFile(
            f"{folder.path}: the checkpoint of round {checkpoint.round} is of another model or method: {name} is "
            f"{theirs.get(name, 'missing')}, expected {mine.get(name, 'none')}"
        )
    if not 0 <= checkpoint.round <= rounds:
        raise DamagedFile(f"{folder.path}: round {checkpoint.round} has a checkpoint, but only {rounds} are on record")


def _restore_end(session: Session, keeper: RunKeeper, history: list[Record]) -> None:
    """Restore a finished run from its model: its last state is lost, and no longer needed."""
    run, model, folder = session.run, copy.deepcopy(session.model), keeper.folder
    stored = folder.model()
    try:
        model.load_state_dict(stored)
    except RuntimeError as error:
        raise InputError(f"{folder.model_file} does not fit the run's configuration: {error}") from None
    weights, statistics = session.layout.pack(model, run.state.weights.device)
    run.state.weights.copy_(weights)
    run.state.statistics.copy_(statistics)
    run.history, keeper.has_state = history, False


# --------------------------------------------------------------------------------------------------------------------
# Resuming runs: the same settings, the same data, the same devices, and on from the last round that was saved.


def resume(
    path: str | Path,
    settings: Config | Mapping[str, Any],
    callback: Callback | None = None,
    progress: ReadProgress = silent,
    workers: Workers | None = None,
) -> list[FolderRun]:
    """Return runs ready to go on from where they were.

    `settings` are those that are to change, or the whole configuration if `stored_config` has read it already.
    """
    path = check_path("path", path)
    config = settings if isinstance(settings, Config) else stored_config(path, settings)
    torch.set_num_threads(config.threads)
    abouts = abouts_in(path)
    config, federations = as_started(config, path, abouts, progress)
    with opened(config, federations, path, callback, workers, resumed=True) as runs:
        go_on(path, runs, abouts, config, federations)
        return runs


def go_on(
    path: Path,
    runs: Sequence[FolderRun],
    abouts: Sequence[Mapping[str, Any]],
    config: Config,
    federations: Mapping[int, Federation],
) -> None:
    """Make runs, whose folders are locked, what they were when they were last saved, and write how they go on."""
    data_hash = federations[config.seed].source.fingerprint()
    for one, about in zip(runs, abouts, strict=True):
        _check_same(one, about, federations[one.seed], data_hash)
        one.session.run.remarks += _remarks(one, config)
        if len(runs) > 1:
            run_config(one.folder)  # refused if it is not as it was saved
    restored = [restore(one.keeper, one.session) for one in runs]  # before anything is written: one may be refused
    try:
        for ready in restored:
            ready.write()
        for one in runs:
            one.keeper.writer.write_config(own_config(config, one))
        if len(runs) > 1:
            RunWriter(RunFolder(path)).write_config(whole_config(config, runs))
    except OSError as error:
        raise InputError(f"{path} cannot be resumed: {error.strerror}") from error


def abouts_in(path: Path) -> list[Mapping[str, Any]]:
    """Return what the folders of all runs say about them; refuse if one is gone."""
    return [folder.about() or {} for folder in folders_in(path)]


def as_started(
    config: Config, path: Path, abouts: Sequence[Mapping[str, Any]] | None = None, progress: ReadProgress = silent
) -> tuple[Config, dict[int, Federation]]:
    """Return the settings, and for each seed the data, as the run in this folder had them.

    Earlier versions kept nothing about metrics. They judged by the accuracy, and clients by the samples that they train
    on: such a run goes on so.
    """
    federations = gather_each(with_own_partition(config, path), progress)
    if all("metrics" in about for about in abouts or abouts_in(path)):
        return config, federations
    if "top1" in config.metrics or federations[config.seed].validation is not None:
        others = (metric for metric in config.metrics if metric != "top1")
        config = config.model_copy(update={"metrics": ("top1", *others)})
    unnamed = {seed: replace(one, client_names=(), test_clients=None) for seed, one in federations.items()}
    return config, unnamed


def with_own_partition(config: Config, path: Path) -> Config:
    """Read the partition of a run that was divided by another run's file from its own copy."""
    copy = partition_in(path)
    if not config.partition.startswith(SAVED) or copy is None:
        return config
    return config.model_copy(update={"partition": f"{SAVED}{copy}"})


def _remarks(one: FolderRun, config: Config) -> list[str]:
    """Say that a name meant something else when the run was begun."""
    now = {"method": one.name, "partition": config.partition, "devices": config.devices}
    if not has_changed(*now.values()):
        return []
    before = one.folder.config() or {}
    meant = as_begun(before)
    return [
        f"{one.folder.path} was begun when {before[name]} meant {now[name]}, and goes on as that"
        for name in now
        if name in before and before[name] != meant[name]
    ]


def _check_same(one: FolderRun, about: Mapping[str, Any], federation: Federation, data_hash: str) -> None:
    """Refuse to go on with other data than the run was started with, divided in another way, or on other devices."""
    folder = one.folder
    if "partition_sha256" not in about:
        raise InputError(f"{folder.about_file} cannot be used: expected the partition_sha256 of the run")
    if about.get("data_sha256", data_hash) != data_hash:
        raise InputError(
            f"{folder.path} was made with other data (its hash is {str(about['data_sha256'])[:12]}, now it is "
            f"{data_hash[:12]}): expected the same samples in the same order"
        )
    recorded, now = about["partition_sha256"], partition_hash(federation.owners)
    if recorded != now:
        raise InputError(
            f"{folder.path} was made with another partition of the data (its hash is {str(recorded)[:12]}, now it is "
            f"{now[:12]}): expected the same data files and the same version of smofi"
        )
    devices = about.get("devices_sha256", one.devices_hash)
    if devices != one.devices_hash:
        raise InputError(
            f"{folder.path} was made with other devices (their hash is {str(devices)[:12]}, now it is "
            f"{str(one.devices_hash)[:12]}): expected the same devices and availability"
        )
