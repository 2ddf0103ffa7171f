"""The files of one run: their names, and reading and writing them. What is written is whole or absent.

Reading takes no lock, so that looking never disturbs the writer; a process that writes has the lock of `lock.py`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from smofi.errors import InputError
from smofi.files import to_json, write_atomically
from smofi.runs.checkpoint import StoredCheckpoint, read_checkpoint, write_checkpoint
from smofi.runs.partition import PARTITION, partition_hash, write_partition_file

CONFIG, ABOUT, METRICS, RESULT, MODEL = "config.yaml", "about.json", "metrics.jsonl", "result.json", "model.safetensors"
CHECKPOINTS, ROUND, BEST = "checkpoints", "round-{:06d}.safetensors", "best.safetensors"
CURVES, CURVES_OVER_HOURS = "curves.png", "curves-hours.png"
TRACKING, TENSORBOARD = "tracking.json", "tensorboard"


@dataclass(frozen=True)
class RunFolder:
    """A folder for one run, whether there is anything in it or not.

    >>> RunFolder(Path("runs/a")).config_file.as_posix()
    'runs/a/config.yaml'
    """

    path: Path

    # ------------------------------------------------------------------------------------------------- what there is

    @property
    def config_file(self) -> Path:
        """The resolved configuration. It is written last of all that describes a run."""
        return self.path / CONFIG

    @property
    def model_file(self) -> Path:
        """The final weights, by the model's own names."""
        return self.path / MODEL

    @property
    def about_file(self) -> Path:
        """Where the run comes from: versions, command, fingerprints."""
        return self.path / ABOUT

    @property
    def curves_file(self) -> Path:
        """The picture of accuracy over rounds."""
        return self.path / CURVES

    @property
    def curves_over_hours_file(self) -> Path:
        """The picture of accuracy over virtual time."""
        return self.path / CURVES_OVER_HOURS

    @property
    def tensorboard(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.path / TENSORBOARD

    @property
    def has_run(self) -> bool:
        """Whether a run was described here."""
        return self.config_file.exists()

    @property
    def has_rounds(self) -> bool:
        """Whether a run has recorded its rounds here."""
        return (self.path / METRICS).exists()

    @property
    def last_written(self) -> float:
        """When the latest round was recorded, in seconds since the epoch."""
        return (self.path / METRICS).stat().st_mtime

    @property
    def has_best(self) -> bool:
        """Whether the best round by validation accuracy is kept."""
        return self._checkpoint(BEST).exists()

    def saved_rounds(self) -> list[int]:
        """The rounds that have a checkpoint, ascending."""
        names = (path.name for path in (self.path / CHECKPOINTS).glob("round-*"))
        return sorted(int(found[1]) for name in names if (found := re.fullmatch(r"round-(\d+)\.safetensors", name)))

    # ------------------------------------------------------------------------------------------------------- reading

    def config(self) -> dict[str, Any] | None:
        """The settings as they are in the file, None if there is none."""
        return _read_mapping(self.config_file)

    def about(self) -> dict[str, Any] | None:
        """Where the run comes from, None if that was not recorded."""
        return _read_mapping(self.about_file)

    def result(self) -> dict[str, Any] | None:
        """How the run ended, None while it has not."""
        return _read_mapping(self.path / RESULT)

    def tracker_ids(self) -> dict[str, Any]:
        """The trackers' own names for this run, by tracker."""
        return _read_mapping(self.path / TRACKING) or {}

    def records(self) -> list[dict[str, Any]]:
        """The rounds on record. A last line without its end is still being written, and does not count."""
        path = self.path / METRICS
        records = []
        for number, line in enumerate(_read_text(path).split("\n")[:-1], start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise InputError(f"{path} cannot be read: line {number} is not the record of a round")
            records.append(record)
        return records

    def last_record(self) -> dict[str, Any]:
        """The record of the last round, empty if there is none. The run is over: the last line has to be whole."""
        path = self.path / METRICS
        lines = _read_text(path).splitlines()
        try:
            record = json.loads(lines[-1]) if lines else {}
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be read: its last line is damaged ({error})") from error
        if not isinstance(record, dict):
            raise InputError(f"{path} cannot be read: its last line is not the record of a round")
        return record

    def model(self) -> dict[str, Tensor]:
        """The final weights."""
        try:
            return load_file(self.model_file)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{self.model_file} cannot be read: {error}") from error

    def checkpoint(self, round: int) -> StoredCheckpoint:
        """The state after a round; raises DamagedCheckpoint if it cannot be trusted."""
        return read_checkpoint(self.checkpoint_file(round))

    def checkpoint_file(self, round: int) -> Path:
        """The file of the state after a round."""
        return self._checkpoint(ROUND.format(round))

    def best(self) -> StoredCheckpoint:
        """The state after the best round by validation accuracy."""
        return read_checkpoint(self.best_file)

    @property
    def best_file(self) -> Path:
        """The file of that state."""
        return self._checkpoint(BEST)

    # ------------------------------------------------------------------------------------------------------- writing

    def describe(
        self, config: str, about: Mapping[str, Any], owners: npt.NDArray[Any], labels: npt.NDArray[Any]
    ) -> None:
        """Write what the run is before it starts. The configuration comes last: with it, the folder has a run."""
        (self.path / CHECKPOINTS).mkdir(exist_ok=True)
        write_partition_file(self.path / PARTITION, owners, labels)
        about = {**about, "partition_sha256": partition_hash(owners)}
        write_atomically(self.about_file, to_json(about, indent=1).encode())
        self.write_config(config)

    def write_config(self, config: str) -> None:
        """Write the configuration, as YAML."""
        write_atomically(self.config_file, config.encode())

    def write_records(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Write the records of all rounds, in place of the old ones."""
        lines = "".join(to_json(record) + "\n" for record in records)
        write_atomically(self.path / METRICS, lines.encode())

    def append_record(self, record: Mapping[str, Any]) -> None:
        """Add the record of one more round, and flush it to the disk."""
        with open(self.path / METRICS, "ab") as file:
            file.write(f"{to_json(record)}\n".encode())
            file.flush()
            os.fsync(file.fileno())

    def save_checkpoint(self, checkpoint: StoredCheckpoint, keep: int) -> None:
        """Save the state after the last round of its history, and keep as many of the newest as `keep` says."""
        write_checkpoint(self.checkpoint_file(len(checkpoint.history)), checkpoint)
        for round in self.saved_rounds()[:-keep]:
            self.checkpoint_file(round).unlink(missing_ok=True)

    def save_best(self, checkpoint: StoredCheckpoint) -> None:
        """Save the state after the best round."""
        write_checkpoint(self.best_file, checkpoint)

    def set_aside(self, round: int) -> None:
        """Rename a damaged checkpoint, so that it no longer counts as one."""
        path = self.checkpoint_file(round)
        path.rename(path.with_suffix(".damaged"))

    def write_end(self, weights: Mapping[str, Tensor], result: Mapping[str, Any]) -> None:
        """Write the final model and how the run ended."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
        write_atomically(self.model_file, save(tensors, metadata={"smofi": to_json(result)}))
        write_atomically(self.path / RESULT, to_json(result, indent=1).encode())

    def remove_end(self) -> None:
        """Remove the files that say the run has ended, when it goes on."""
        for name in (RESULT, MODEL):
            (self.path / name).unlink(missing_ok=True)

    def write_tracker_id(self, tracker: str, id: str) -> None:
        """Record what a tracker calls this run."""
        write_atomically(self.path / TRACKING, to_json({**self.tracker_ids(), tracker: id}).encode())

    def _checkpoint(self, name: str) -> Path:
        return self.path / CHECKPOINTS / name


def _read_text(path: Path) -> str:
    """The content of a file, nothing if there is none."""
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _read_mapping(path: Path) -> dict[str, Any] | None:
    """A YAML or JSON file of names with values; None if there is none."""
    try:
        text = path.read_text("utf-8")
        content = yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} cannot be read: expected keys and values")
    return content
