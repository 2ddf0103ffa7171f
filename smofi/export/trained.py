"""A trained run, read from its folder: its configuration, its model, and how good that model was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smofi import data, models
from smofi.errors import InputError
from smofi.flat import Layout
from smofi.runs import DamagedCheckpoint, RunFolder, StoredCheckpoint, folders_below

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


def read_run(path: Path, best: bool = False) -> TrainedRun:
    """Read a run folder, as of its last or its best round; refuses one that is incomplete, damaged, or a comparison."""
    folder = RunFolder(path)
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
    finished = folder.model_file.exists()
    if best:
        latest = _load_best(model, layout, folder)
    else:
        latest = _load_model(model, folder) if finished else _load_newest(model, layout, folder)
    return TrainedRun(config, task, model.eval(), layout, latest, unfinished=not finished)


def _read_config(folder: RunFolder) -> dict[str, Any]:
    config = folder.config()
    if config is None:
        raise InputError(f"{folder.path} is not a run folder: it has no {folder.config_file.name}")
    if missing := [key for key in KEYS if key not in config]:
        raise InputError(f"{folder.config_file} lacks {', '.join(missing)}: expected a run's resolved configuration")
    method = config["method"]
    if isinstance(method, list) and len(method) != 1:
        runs = [str(one.path) for one in folders_below(folder.path)]
        hint = f"; export one of its runs: {', '.join(runs)}" if runs else ""
        raise InputError(f"{folder.path} compares {len(method)} methods{hint}")
    return config


def _read_task(folder: RunFolder, config: Mapping[str, Any]) -> Task:
    """As the run recorded it, so that the data itself is not needed."""
    about = folder.about()
    if about is None:
        source = data.load(config["data"], folder=config.get("data_folder"), image_size=config.get("image_size"))
        return Task(source.kind, source.input_shape, source.class_names)
    try:
        task = about["task"]
        return Task(str(task["kind"]), **{key: tuple(value) for key, value in task.items() if key != "kind"})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{folder.about_file} cannot be used: {error}") from error


def _load_model(model: nn.Module, folder: RunFolder) -> dict[str, Any]:
    try:
        model.load_state_dict(folder.model(), strict=True)
    except RuntimeError as error:
        raise InputError(f"{folder.model_file} does not fit the model that config.yaml describes: {error}") from error
    return folder.last_record()


def _load_best(model: nn.Module, layout: Layout, folder: RunFolder) -> dict[str, Any]:
    if not folder.has_best:
        raise InputError(
            f"{folder.path} has no best round: expected a run with a validation split, such as --validation 0.1"
        )
    return _unpack(model, layout, folder.best(), folder.best_file)


def _load_newest(model: nn.Module, layout: Layout, folder: RunFolder) -> dict[str, Any]:
    """The newest checkpoint that is whole."""
    damaged = ""
    for round in reversed(folder.saved_rounds()):
        try:
            return _unpack(model, layout, folder.checkpoint(round), folder.checkpoint_file(round))
        except (DamagedCheckpoint, KeyError) as error:
            damaged = f", and its checkpoints are damaged ({error})"
    raise InputError(
        f"{folder.path} contains no trained model: there is no {folder.model_file.name} and no checkpoint{damaged}. "
        f"Let the run finish: smofi run --resume {folder.path}"
    )


def _unpack(model: nn.Module, layout: Layout, checkpoint: StoredCheckpoint, path: Path) -> dict[str, Any]:
    """Load a checkpoint's weights into the model; returns its last round's record."""
    weights, statistics = checkpoint.tensors["weights"], checkpoint.tensors["statistics"]
    if (len(weights), len(statistics)) != (layout.size, layout.statistics_size):
        raise InputError(
            f"{path} does not fit the model that config.yaml describes: it has {len(weights)} parameters and "
            f"{len(statistics)} statistics, expected {layout.size} and {layout.statistics_size}"
        )
    layout.unpack(model, weights, statistics)
    return checkpoint.history[-1] if checkpoint.history else {}
