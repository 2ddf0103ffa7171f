"""What a run folder holds: its configuration, its model, and how good that model was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from smofi import data, models
from smofi.engine.checkpoint import DamagedCheckpoint, read_checkpoint
from smofi.errors import InputError
from smofi.flat import Layout

KEYS = (
    *("data", "clients", "partition", "model", "width", "norm", "method", "optimizer", "cut"),
    *("participation", "local_epochs", "batch_size", "seed"),
)


@dataclass(frozen=True)
class Task:
    """What the model takes and gives: the kind of input, its shape, the classes, how raw values are scaled."""

    kind: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    def example(self, samples: int) -> Tensor:
        """Inputs of the right type and shape, all zero."""
        return torch.zeros(samples, *self.input_shape, dtype=torch.int64 if self.kind == "text" else torch.float32)


@dataclass(frozen=True)
class TrainedRun:
    """A run folder, read: the model has its trained weights and is ready for inference.

    `latest` is the record of the last round behind the model; `unfinished` tells that it comes from a checkpoint.
    """

    config: Mapping[str, Any]
    task: Task
    model: nn.Sequential
    layout: Layout
    latest: Mapping[str, Any]
    unfinished: bool

    @property
    def method(self) -> str:
        """The one method of the run."""
        method = self.config["method"]
        return method if isinstance(method, str) else str(method[0])


def read_run(folder: Path, best: bool = False) -> TrainedRun:
    """Read a run folder, as of its last or its best round; refuses one that is incomplete, damaged, or a comparison."""
    config = _read_config(folder)
    task = _read_task(folder, config)
    model = models.build(
        config["model"],
        seed=config["seed"],
        input_shape=task.input_shape,
        classes=len(task.classes),
        width=config["width"],
        norm=config["norm"],
    )
    layout = Layout.of(model)
    finished = (folder / "model.safetensors").exists()
    if best:
        latest = _load_best(model, layout, folder)
    else:
        latest = _load_model(model, folder) if finished else _load_checkpoint(model, layout, folder)
    return TrainedRun(config, task, model.eval(), layout, latest, unfinished=not finished)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    if not path.is_file():
        raise InputError(f"{folder} is not a run folder: it has no config.yaml")
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} cannot be used: expected keys and values, as in a run's resolved configuration")
    if missing := [key for key in KEYS if key not in config]:
        raise InputError(f"{path} lacks {', '.join(missing)}: expected a run's resolved configuration")
    method = config["method"]
    if isinstance(method, list) and len(method) != 1:
        runs = sorted(str(one.parent) for one in folder.glob("*/config.yaml"))
        hint = f"; export one of its runs: {', '.join(runs)}" if runs else ""
        raise InputError(f"{folder} compares {len(method)} methods{hint}")
    return config


def _read_task(folder: Path, config: Mapping[str, Any]) -> Task:
    """As the run noted it down, so that the data itself need not be there."""
    path = folder / "about.json"
    try:
        found = json.loads(path.read_text())["task"] if path.exists() else None
        if found is not None:
            sequences = {key: tuple(value) for key, value in found.items() if key != "kind"}
            return Task(kind=str(found["kind"]), **sequences)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} cannot be used: {error}") from error
    source = data.load(config["data"], folder=config.get("data_folder"), image_size=config.get("image_size"))
    return Task(source.kind, source.input_shape, source.class_names)


def _load_model(model: nn.Module, folder: Path) -> dict[str, Any]:
    path = folder / "model.safetensors"
    try:
        model.load_state_dict(load_file(path), strict=True)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except RuntimeError as error:
        raise InputError(f"{path} does not fit the model that config.yaml describes: {error}") from error
    return _last_metrics(folder / "metrics.jsonl")


def _last_metrics(path: Path) -> dict[str, Any]:
    lines = path.read_text().splitlines() if path.exists() else []
    try:
        latest: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    except json.JSONDecodeError as error:
        raise InputError(f"{path} cannot be read: its last line is damaged ({error})") from error
    return latest


def _load_best(model: nn.Module, layout: Layout, folder: Path) -> dict[str, Any]:
    path = folder / "checkpoints" / "best.safetensors"
    if not path.exists():
        raise InputError(f"{folder} keeps no best round: expected a run with a validation split, as --validation 0.1")
    return _unpack(model, layout, path)


def _load_checkpoint(model: nn.Module, layout: Layout, folder: Path) -> dict[str, Any]:
    """The newest checkpoint that is whole."""
    damaged = ""
    for path in sorted((folder / "checkpoints").glob("round-*.safetensors"), reverse=True):
        try:
            return _unpack(model, layout, path)
        except (DamagedCheckpoint, KeyError) as error:
            damaged = f", and its checkpoints are damaged ({error})"
    raise InputError(
        f"{folder} holds no trained model: there is no model.safetensors and no checkpoint{damaged}. "
        f"Let the run finish: smofi run --resume {folder}"
    )


def _unpack(model: nn.Module, layout: Layout, path: Path) -> dict[str, Any]:
    """Load a checkpoint's weights into the model; returns its last round's record."""
    checkpoint = read_checkpoint(path)
    weights, statistics = checkpoint.tensors["weights"], checkpoint.tensors["statistics"]
    if (len(weights), len(statistics)) != (layout.size, layout.statistics_size):
        raise InputError(
            f"{path} does not fit the model that config.yaml describes: it holds {len(weights)} parameters and "
            f"{len(statistics)} statistics, expected {layout.size} and {layout.statistics_size}"
        )
    layout.unpack(model, weights, statistics)
    return asdict(checkpoint.history[-1]) if checkpoint.history else {}
