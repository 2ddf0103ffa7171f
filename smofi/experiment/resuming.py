"""Resuming runs: the same settings, the same data, the same devices, and on from the last round that was saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, run_config
from smofi.config.federation import Federation, gather_each
from smofi.config.lasting import as_begun, has_changed
from smofi.data.decoded import ReadProgress, silent
from smofi.data.partitions.saved import PREFIX as SAVED
from smofi.engine.events import Callback
from smofi.engine.processes.workers import Workers
from smofi.errors import InputError, check_path
from smofi.experiment.opening import FolderRun, opened, own_config, whole_config
from smofi.experiment.restoring import restore
from smofi.experiment.stored import stored_config
from smofi.runs import RunFolder, RunWriter, folders_in, partition_hash, partition_in


def resume(
    path: str | Path,
    settings: Config | Mapping[str, Any],
    callback: Callback | None = None,
    progress: ReadProgress = silent,
    workers: Workers | None = None,
) -> list[FolderRun]:
    """Runs ready to go on from where they were.

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
    """What the folders of all runs say about them; refused if one is gone."""
    return [folder.about() or {} for folder in folders_in(path)]


def as_started(
    config: Config, path: Path, abouts: Sequence[Mapping[str, Any]] | None = None, progress: ReadProgress = silent
) -> tuple[Config, dict[int, Federation]]:
    """The settings, and for each seed the data, as the run in this folder had them. Earlier versions kept nothing about
    metrics. They judged by the accuracy, and clients by the samples that they train on: such a run goes on so."""
    federations = gather_each(with_own_partition(config, path), progress)
    if all("metrics" in about for about in abouts or abouts_in(path)):
        return config, federations
    if "top1" in config.metrics or federations[config.seed].validation is not None:
        others = (metric for metric in config.metrics if metric != "top1")
        config = config.model_copy(update={"metrics": ("top1", *others)})
    unnamed = {seed: replace(one, client_names=(), test_clients=None) for seed, one in federations.items()}
    return config, unnamed


def with_own_partition(config: Config, path: Path) -> Config:
    """A run divided by another run's file has a copy of it, and no longer needs the other run."""
    copy = partition_in(path)
    if not config.partition.startswith(SAVED) or copy is None:
        return config
    return config.model_copy(update={"partition": f"{SAVED}{copy}"})


def _remarks(one: FolderRun, config: Config) -> list[str]:
    """That a name meant something else when the run was begun."""
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
