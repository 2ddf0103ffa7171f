"""A run folder: configuration, provenance, partition, metrics, checkpoints, final model; one writer at a time."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors.torch import save
from torch import nn

from smofi.data.partitions.saved import partition_bytes
from smofi.engine.checkpoint import Checkpoint, DamagedCheckpoint, read_checkpoint, write_atomically, write_checkpoint
from smofi.engine.events import Record
from smofi.engine.run import Run
from smofi.engine.stopping import best_round
from smofi.errors import InputError, SmofiError, refuse

KEPT = 2


class RunFolder:
    """The files of one run. Whoever writes holds its lock until `close`."""

    def __init__(self, path: Path, checkpoint_every: int) -> None:
        self.path, self.every = path, checkpoint_every
        self.unsaved = False
        self.lock = _lock(path)

    def close(self) -> None:
        """Let others write."""
        self.lock.close()

    def describe(
        self, config: str, about: dict[str, Any], owners: npt.NDArray[np.int32], labels: npt.NDArray[np.int64]
    ) -> None:
        """Write what the run is before it starts. The configuration comes last: with it, the folder holds a run."""
        about = {**about, "partition_sha256": partition_hash(owners)}
        (self.path / "checkpoints").mkdir(exist_ok=True)
        write_atomically(self.path / "partition.safetensors", partition_bytes(owners, labels))
        write_atomically(self.path / "about.json", to_json(about, indent=1).encode())
        write_atomically(self.path / "config.yaml", config.encode())

    def check_data(self, owners: npt.NDArray[np.int32], data: str) -> None:
        """Refuse to go on with other data than the run began with, or with data divided in another way."""
        try:
            about = json.loads((self.path / "about.json").read_text())
            recorded = about["partition_sha256"]
        except (OSError, KeyError, json.JSONDecodeError) as error:
            raise InputError(f"{self.path / 'about.json'} cannot be read: {error}") from error
        if about.get("data_sha256", data) != data:
            raise InputError(
                f"{self.path} was made with other data (its hash is {about['data_sha256'][:12]}, now it is "
                f"{data[:12]}): expected the same samples in the same order"
            )
        if recorded != partition_hash(owners):
            raise InputError(
                f"{self.path} was made with another partition of the data (its hash is {recorded[:12]}, now it is "
                f"{partition_hash(owners)[:12]}): expected the same data files and the same version of smofi"
            )

    def check_devices(self, devices: str | None) -> None:
        """Refuse to go on with other devices than the run began with."""
        recorded = json.loads((self.path / "about.json").read_text()).get("devices_sha256", devices)
        if recorded != devices:
            raise InputError(
                f"{self.path} was made with other devices (their hash is {str(recorded)[:12]}, now it is "
                f"{str(devices)[:12]}): expected the same devices and availability"
            )

    def restore(self, run: Run) -> None:
        """Continue from the newest checkpoint that is whole, or from the beginning if there is none."""
        for path in sorted((self.path / "checkpoints").glob("round-*.safetensors"), reverse=True):
            try:
                run.restore(read_checkpoint(path))
                break
            except DamagedCheckpoint as error:
                run.warn(f"{error}; falling back to the one before")
                path.rename(path.with_suffix(".damaged"))
        if len(run.history) > run.rounds:
            refuse("rounds", run.rounds, f"at least {len(run.history)}, the rounds that {self.path} has behind it")
        if not run.over and run.stopping.reason(run.history) is None:
            for name in ("result.json", "model.safetensors"):  # they are of the rounds so far, and soon outdated
                (self.path / name).unlink(missing_ok=True)
        self._write_metrics(run.history)
        if run.over:  # its last round may have been evaluated just now
            self._keep_best(run)

    def after_round(self, run: Run) -> None:
        """Append the metrics; save a checkpoint when one is due. A disk that refuses is retried after every round."""
        try:
            if self.unsaved or run.diverged:  # the last good round may have been evaluated since
                self._write_metrics(run.history)
            else:
                self._append(run.history[-1])
            if self.unsaved or run.over or len(run.history) % self.every == 0:
                self.unsaved = True
                self._save(run.checkpoint())
                self.unsaved = False
            self._keep_best(run)
        except OSError as error:
            self.unsaved = True
            kept = self.saved_rounds()
            last = f"the last checkpoint is that of round {kept[-1]}" if kept else "there is no checkpoint yet"
            run.warn(
                f"round {len(run.history)} could not be saved in {self.path}: {error.strerror}; {last}. "
                f"The run goes on and tries again after the next round."
            )

    def saved_rounds(self) -> list[int]:
        """The rounds that have a checkpoint, ascending."""
        names = (path.name for path in (self.path / "checkpoints").glob("round-*.safetensors"))
        return sorted(int(found[1]) for name in names if (found := re.fullmatch(r"round-(\d+)\.safetensors", name)))

    def finish(self, run: Run, model: nn.Module) -> None:
        """Write the final model and how the run ended; raises a SmofiError if that, or the last round, is not saved."""
        accuracies = [record.accuracy for record in run.history if record.accuracy is not None]
        result = {
            "rounds": len(run.history),
            "stopped": run.stopped,
            "diverged": run.diverged,
            "best_accuracy": max(accuracies, default=None),
        }
        try:
            if self.unsaved:
                self._write_metrics(run.history)
                self._save(run.checkpoint())
            if run.cut_short:
                return
            tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
            write_atomically(self.path / "model.safetensors", save(tensors, metadata={"smofi": to_json(result)}))
            write_atomically(self.path / "result.json", to_json(result, indent=1).encode())
        except OSError as error:
            kept = self.saved_rounds()
            raise SmofiError(
                f"the result could not be written to {self.path}: {error.strerror}; rounds with a checkpoint: "
                f"{', '.join(map(str, kept)) or 'none'}. Make room and continue with: smofi run --resume {self.path}"
            ) from error

    def _write_metrics(self, history: list[Record]) -> None:
        lines = "".join(to_json(asdict(record)) + "\n" for record in history)
        write_atomically(self.path / "metrics.jsonl", lines.encode())

    def _append(self, record: Record) -> None:
        with open(self.path / "metrics.jsonl", "a") as file:
            file.write(to_json(asdict(record)) + "\n")

    def _keep_best(self, run: Run) -> None:
        if run.history and best_round(run.history) == len(run.history):
            write_checkpoint(self.path / "checkpoints" / "best.safetensors", run.checkpoint())

    def _save(self, checkpoint: Checkpoint) -> None:
        folder = self.path / "checkpoints"
        write_checkpoint(folder / f"round-{len(checkpoint.history):06d}.safetensors", checkpoint)
        for round in self.saved_rounds()[:-KEPT]:
            (folder / f"round-{round:06d}.safetensors").unlink(missing_ok=True)


def partition_hash(owners: npt.NDArray[np.int32]) -> str:
    """The fingerprint of who holds which sample.

    >>> partition_hash(np.zeros(3, dtype=np.int32))[:8]
    '15ec7bf0'
    """
    return hashlib.sha256(np.ascontiguousarray(owners, dtype="<i4").tobytes()).hexdigest()


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON: numbers that are not finite become null.

    >>> to_json({"loss": float("nan")})
    '{"loss": null}'
    """

    def strict(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {key: strict(one) for key, one in value.items()}
        return [strict(one) for one in value] if isinstance(value, (list, tuple)) else value

    return json.dumps(strict(value), indent=indent)


def _lock(path: Path) -> IO[str]:
    """Take the folder for writing, creating it if need be; the lock goes with the process, however that ends."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = open(path / ".lock", "a+")  # noqa: SIM115  # held open as long as the folder is written
    except OSError as error:
        raise InputError(f"output={str(path)!r} is not accepted: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise InputError(f"{path} is being written by another process (pid {holder}); wait for it or stop it") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
