"""Runs that go on from their folders: the same settings, data and devices, from the last round that was saved.

At the end: the workers that share the first worker's runs, new or resumed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
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
from smofi.engine.processes import starting as processes
from smofi.engine.processes.counting import keep_busy
from smofi.engine.processes.workers import Workers
from smofi.errors import InputError, check_path, refuse
from smofi.experiment.opening import FolderRun, RunKeeper, opened, own_arguments, own_config, own_workers, whole_config
from smofi.memory import limited
from smofi.methods import parse_method
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
from smofi.training import Session, prepare

# --------------------------------------------------------------------------------------------------------------------
# Going on from what a folder has: the newest state that is whole, or a finished run's end. Nothing is restarted.


def restore(keeper: RunKeeper, session: Session) -> Callable[[], None]:
    """Make a run what it was when it was last saved; raise InputError if that is lost.

    No file is changed, except by the function that is returned: it makes the folder go with the run.
    """
    run, folder, writer, ended = session.run, keeper.folder, keeper.writer, keeper.writer.ended
    missing = writer.missing()
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

    def write() -> None:
        """List nothing that is lost, and cut off the rounds since then."""
        wrong = [error.what for error in unusable.values()] + [f"{folder.path / name} is missing" for name in missing]
        if wrong:
            needs = "the run is finished, and needs no state" if run.over else f"going on from round {len(run.history)}"
            run.warn(f"{'; '.join(wrong)}; {needs}")
        for round in unusable:
            writer.set_aside(round)
        writer.forget(missing)
        writer.write_records(map(asdict, run.history))
        if run.over:  # its last round may have been evaluated just now
            keeper.keep_best(run)

    return write


def record_of(fields: Mapping[str, Any], folder: RunFolder, gives_loss: bool) -> Record:
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
    writes = [restore(one.keeper, one.session) for one in runs]  # before anything is written: one may be refused
    try:
        for write in writes:
            write()
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
    own_copy = partition_in(path) if config.partition.startswith(SAVED) else None  # of another run's file
    divided = config.model_copy(update={"partition": f"{SAVED}{own_copy}"}) if own_copy else config
    federations = gather_each(divided, progress)
    if all("metrics" in about for about in abouts or abouts_in(path)):
        return config, federations
    if "top1" in config.metrics or federations[config.seed].validation is not None:
        others = (metric for metric in config.metrics if metric != "top1")
        config = config.model_copy(update={"metrics": ("top1", *others)})
    unnamed = {seed: replace(one, client_names=(), test_clients=None) for seed, one in federations.items()}
    return config, unnamed


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
    if "partition_sha256" not in about:
        raise InputError(f"{one.folder.about_file} cannot be used: expected the partition_sha256 of the run")
    partition = "data files and the same version of smofi"
    for name, what, now, expected in (
        ("data_sha256", "other data", data_hash, "samples in the same order"),
        ("partition_sha256", "another partition of the data", partition_hash(federation.owners), partition),
        ("devices_sha256", "other devices", one.devices_hash, "devices and availability"),
    ):
        if (before := about.get(name, now)) != now:
            raise InputError(
                f"{one.folder.path} was made with {what} (the hash is {str(before)[:12]}, now it is {str(now)[:12]}): "
                f"expected the same {expected}"
            )


# --------------------------------------------------------------------------------------------------------------------
# Workers: how many share a run, and what all but the first of them do.


def worker_count(config: Config, *, resumed: bool = False) -> int:
    """Return how many workers share a configured run; one where further ones would gain nothing, unless more are asked
    for. A run that is `resumed` keeps the number that it has."""
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
