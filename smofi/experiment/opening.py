"""Runs in new folders: a session per method and seed, each with its folder locked, described, and saved as it goes."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from smofi.config import Config, config_yaml
from smofi.config.federation import Federation, gather_each
from smofi.data.decoded import ReadProgress, silent
from smofi.engine.events import Callback
from smofi.engine.processes.starting import own_device
from smofi.engine.processes.workers import Workers, joined
from smofi.engine.run import Run
from smofi.errors import InputError, SmofiError, check_path
from smofi.runs import (
    FolderLock,
    RunFolder,
    RunWriter,
    StoredCheckpoint,
    check_free,
    folders_for,
    folders_in,
    resuming_command,
)
from smofi.training import Result, Session, prepare


def provenance(command: str) -> dict[str, Any]:
    """Return where a result comes from: versions, platform, git state of the working folder, time and command."""
    versions: dict[str, str | None] = dict.fromkeys(("smofi", "torch", "numpy", "safetensors"))
    for package in versions:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    git = None
    with suppress(OSError, subprocess.SubprocessError):  # no repository, or no git
        commit, status = (
            subprocess.run(["git", *words], capture_output=True, text=True, timeout=5, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
        git = {"commit": commit, "dirty": bool(status)}
    return {
        **versions,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": git,
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": command,
    }


# --------------------------------------------------------------------------------------------------------------------
# Saving a run in its folder: when to save what.

KEPT_CHECKPOINTS = 2


class NotSaved(SmofiError):
    """A run whose end could not be saved; it has a result all the same."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class RunKeeper:
    """Save a run's rounds in a folder, which no other process may write until `close`.

    A finished run whose last state is lost has none to save.
    """

    def __init__(self, path: Path, checkpoint_every: int) -> None:
        self.folder, self.every = RunFolder(path), checkpoint_every
        self.unsaved, self.has_state = False, True
        self.lock = FolderLock(path)
        try:
            self.writer = RunWriter(self.folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.lock.release()

    def after_round(self, run: Run) -> None:
        """Append the record; save a checkpoint when one is due. If the disk fails, try again after every round. At the
        end of the run, `finish` saves the model first."""
        ends = run.over and not run.cut_short and not run.diverged
        due = (self.unsaved or run.over or len(run.history) % self.every == 0) and not ends
        try:
            self.writer.append_records(run.history, listed=not due)
            if due:
                self.unsaved = True
                self._save(run)
            else:
                self.keep_best(run)
            if run.diverged:  # the last good round may have been evaluated since
                self.writer.write_records(map(asdict, run.history))
        except OSError as error:
            self.unsaved = True
            with suppress(OSError):  # there may be room for the record
                self.writer.list_records()
            run.warn(
                f"round {len(run.history)} could not be saved in {self.folder.path}: {error.strerror}; {self._safe()}. "
                f"The run goes on and tries again after the next round."
            )

    def finish(self, run: Run, result: Result) -> None:
        """Write the final model and how the run ended, then the last state, from which more rounds may follow.

        Raise NotSaved if the model, or the state of an interrupted run, is not saved.
        """
        go_on = f"with: {resuming_command(self.folder)}"
        try:
            self.writer.append_records(run.history)
            if not run.cut_short:
                accuracies = [record.accuracy for record in run.history if record.accuracy is not None]
                how = {
                    "rounds": len(run.history),
                    "stopped": run.stopped,
                    "diverged": run.diverged,
                    "best_accuracy": max(accuracies, default=None),
                }
                self.writer.write_end(result.model.state_dict(), how)
        except OSError as error:
            with suppress(OSError):  # at least the state
                self._save(run)
            lost = f"the result could not be written to {self.folder.path}: {error.strerror}; {self._safe()}"
            raise NotSaved(f"{lost}. Free some space and continue {go_on}", result) from error
        try:
            if self.has_state and (self.unsaved or len(run.history) not in self.writer.saved_rounds):
                self._save(run)
        except OSError as error:
            lost = f"the state after round {len(run.history)} could not be saved: {error.strerror}; {self._safe()}"
            if run.cut_short:
                raise NotSaved(f"{lost}. Continue from there {go_on}", result) from error
            run.warn(f"{lost}. The final model is saved; more rounds would have to go on from there.")

    def _save(self, run: Run) -> None:
        self.writer.save(stored(run), KEPT_CHECKPOINTS, best=self._is_best(run))
        self.unsaved = False
        if self.writer.ended is not None and self.writer.ended < len(run.history):
            self.writer.remove_end()  # it is of earlier rounds, and a later state is safe

    def keep_best(self, run: Run) -> None:
        """Save the state after the last round if no other round is better."""
        if self._is_best(run):
            self.writer.save_best(stored(run))

    def _is_best(self, run: Run) -> bool:
        return self.has_state and bool(run.history) and run.best_round == len(run.history)

    def _safe(self) -> str:
        saved = self.writer.saved_rounds
        return f"the last checkpoint is that of round {saved[-1]}" if saved else "there is no checkpoint yet"


def stored(run: Run) -> StoredCheckpoint:
    checkpoint = run.checkpoint()
    return StoredCheckpoint(len(checkpoint.history), checkpoint.tensors, checkpoint.notes)


# --------------------------------------------------------------------------------------------------------------------
# Runs with folders of their own: a session per method and seed, each with its folder locked and described.


@dataclass(frozen=True)
class FolderRun:
    """A session whose rounds are kept in a folder: the method `name` with a seed. Clients of a `served` run compute for
    themselves, so that nothing is decided about how."""

    name: str
    seed: int
    session: Session
    keeper: RunKeeper
    served: bool = False

    @property
    def folder(self) -> RunFolder:
        return self.keeper.folder

    @property
    def executor(self) -> str:
        """Return the way its clients are computed, as decided."""
        return self.session.executor

    @property
    def workers(self) -> int:
        return self.session.run.workers.size

    @property
    def devices_hash(self) -> str | None:
        clock = self.session.run.planner.clock
        return clock.fingerprint if clock else None

    @property
    def judged(self) -> dict[str, Any]:
        """Return its metrics, beginning with the one it is judged by, and what a model reaches by chance."""
        evaluator = self.session.run.evaluator
        return {"metrics": evaluator.headings, "chance": evaluator.chance}

    def train(self) -> Result:
        """Train all rounds that are still to do, and keep them as they are done; then the final model."""
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
    config: Config,
    federations: Mapping[int, Federation],
    path: Path,
    callback: Callback | None,
    workers: Workers | None,
    *,
    resumed: bool = False,
) -> Iterator[list[FolderRun]]:
    """Yield a session per seed and method, each with its folder locked; close all if anything fails. A comparison's own
    folder is locked as long as this block lasts."""
    workers = workers or own_workers(config)
    sessions: list[tuple[int, str, Session]] = []
    remarks: set[str] = set()  # what several runs would remark, the first one does
    for seed in config.each_seed:
        if len(sessions) == len(config.method) and not resumed:  # the first seed decides how clients are computed
            config = config.model_copy(update={"executor": tuple(one.executor for _, _, one in sessions)})
        for method in config.method:
            arguments = own_arguments(config.with_seed(seed), federations[seed], method)
            session = prepare(**arguments, callback=callback, workers=workers)
            session.run.remarks = [remark for remark in session.run.remarks if remark not in remarks]
            remarks.update(session.run.remarks)
            sessions.append((seed, method, session))
    # those of a run that goes on are as they were named when it began
    folders = folders_in(path) if resumed else folders_for(path, config.method, config.each_seed)
    runs: list[FolderRun] = []
    whole = FolderLock(path) if len(sessions) > 1 else None
    try:
        for (seed, method, session), folder in zip(sessions, folders, strict=True):
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
    """Return the arguments of one of the runs, on this worker's own device."""
    return config.arguments(federation, method) | {"method": method, "device": own_device(config.device)}


def own_workers(config: Config) -> Workers:
    """Return the workers that share the runs and that this process was started as one of."""
    return joined(torch.device(own_device(config.device)))


def describe_new(
    path: Path,
    runs: Sequence[FolderRun],
    config: Config,
    federations: Mapping[int, Federation],
    data_hash: str,
    command: str,
    **more: Any,
) -> None:
    """Write what new runs are, and `more` about them, whose folders are locked: into each run's folder and, of several,
    into that of all."""
    check_free(path, [one.folder.path for one in runs if one.folder.path != path])  # another process may have begun
    origin = provenance(command) | more
    try:
        for one in runs:
            federation = federations[one.seed]
            source = federation.source
            about = {**origin, "seed": one.seed, "task": source.task(), "data_sha256": data_hash}
            about |= {"client_names": federation.client_names} if federation.client_names else {}
            first = next(first for first in runs if first.name == one.name)  # which decided for all seeds
            about |= {
                "devices_sha256": one.devices_hash,
                "executor": first.executor,
                "executor_why": first.session.run.simulation.execution.because(config.executor_of(one.name)),
                "threads": config.threads,
                "workers": one.workers,
                **one.judged,
            }
            one.keeper.writer.describe(own_config(config, one), about, federation.owners, source.train.labels.numpy())
        if len(runs) > 1:
            compared = {one.folder.path.relative_to(path).as_posix(): one.keeper.writer.manifest.run for one in runs}
            RunWriter(RunFolder(path)).describe_comparison(whole_config(config, runs), compared)
    except OSError as error:
        raise InputError(f"output={str(path)!r} is not accepted: {error.strerror}") from error


def own_config(config: Config, one: FolderRun) -> str:
    """Return the resolved configuration of one of the runs, as YAML."""
    return whole_config(config.with_seed(one.seed).model_copy(update={"method": (one.name,)}), [one])


def whole_config(config: Config, runs: Sequence[FolderRun]) -> str:
    """Return the resolved configuration of all runs together, as YAML."""
    if runs[0].served:
        return config_yaml(config)
    executors = tuple(one.executor for one in runs[: len(config.method)])
    decided = {"executor": executors if len(set(executors)) > 1 else executors[:1], "workers": runs[0].workers}
    return config_yaml(config.model_copy(update=decided))


# --------------------------------------------------------------------------------------------------------------------
# Starting runs, in folders without one.


def start(
    config: Config,
    path: str | Path,
    callback: Callback | None = None,
    command: str = "",
    progress: ReadProgress = silent,
    workers: Workers | None = None,
) -> list[FolderRun]:
    """Return runs ready to train, one per method and seed, in folders without a run.

    `progress` watches the data being read. The runs are shared by `workers`, or by the workers that this process is one
    of, which uses as many threads as `config` says from now on.
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
