"""A trained run, read from its folder: its configuration, its model, and how good that model was."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smofi import models
from smofi.cut import Cut, CutSpec, parse_cut
from smofi.errors import InputError, check_choice, refuse, refuse_unwanted
from smofi.export.request import PARTS, checked_config
from smofi.flat import Layout
from smofi.runs import DamagedFile, RunFolder, StoredCheckpoint

FACTS = {
    "table": ("columns", "label"),
    "picture": ("height", "width", "channels", "transparent", "upright", "middle_square"),
    "sound": ("rate", "samples", "window", "hop", "fft", "bands", "lowest", "highest", "floor", "byte_0", "byte_255"),
    "text": ("length", "alphabet", "normalise", "nearest", "decompose", "unknown"),
    "array": ("shape", "type"),
}
"""What must be known about raw input of each kind."""


@dataclass(frozen=True)
class Task:
    """Describe what the model takes and gives: the kind of input, its shape, the classes, how raw values are scaled.

    `preparation` is how raw input becomes the model's, as `Source.preparation` has it; None in older folders.
    """

    kind: str
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    preparation: Mapping[str, Any] | None = None

    def example(self, samples: int) -> Tensor:
        """Make inputs of the right type and shape, all zero."""
        return torch.zeros(samples, *self.input_shape, dtype=torch.int64 if self.kind == "text" else torch.float32)


@dataclass(frozen=True)
class TrainedRun:
    """Hold a run folder that was read: the model has its trained weights and is ready for inference.

    `latest` is the record of the last round behind the model; `unfinished` tells that it comes from a checkpoint,
    `damaged` which newer ones cannot be trusted.
    """

    config: Mapping[str, Any]
    task: Task
    model: nn.Sequential
    layout: Layout
    latest: Mapping[str, Any]
    unfinished: bool
    damaged: Sequence[DamagedFile] = ()

    @property
    def method(self) -> str:
        return str(self.config["method"][0])


def read_run(path: Path, best: bool = False) -> TrainedRun:
    """Read a run folder, as of its last or its best round; refuse one that is incomplete, damaged, or a comparison."""
    folder = RunFolder(path)
    config = checked_config(folder)
    task = _read_task(folder)
    model = models.build(
        config.model,
        seed=config.seed,
        input_shape=task.input_shape,
        classes=len(task.classes),
        width=config.width,
        norm=config.norm,
    )
    layout, finished = Layout.of(model), folder.has_model
    damaged: list[DamagedFile] = []
    if best and not folder.has_best:
        raise InputError(f"{path} has no best round: expected a run with a validation split, such as --validation 0.1")
    if best:
        round = _unpack(model, layout, folder.best(), folder)
    else:
        round = _load_model(model, folder) if finished else _load_newest(model, layout, folder, damaged)
    records = folder.records()  # read after the model: a run that goes on has recorded its round by now
    latest = records[round - 1] if 0 < round <= len(records) else {"round": round}
    return TrainedRun(config.model_dump(mode="json"), task, model.eval(), layout, latest, not finished, damaged)


def _read_task(folder: RunFolder) -> Task:
    """Read the task as the run recorded it, so that the data itself is not needed."""
    try:
        task = (folder.about() or {})["task"]
        lists = {key: tuple(task[key]) for key in ("input_shape", "classes", "mean", "deviation") if key in task}
        own = Task(str(task["kind"]), **lists, preparation=task.get("preparation"))
        sides, moments = own.input_shape, [own.mean, own.deviation]
        if own.preparation is not None:  # with the facts that the card and predict.py rely on
            raw: Any = own.preparation["raw_input"]
            if not isinstance(raw["kind"], str) or not all(name in raw for name in FACTS.get(raw["kind"], ())):
                raise TypeError("preparation lacks facts about raw input")
            sides += tuple(own.preparation.get("resize_by_area", ()))
            if (standardise := own.preparation.get("standardise")) is not None:
                moments += [standardise["mean"], standardise["deviation"]]
        if not all(type(side) is int and side > 0 for side in sides) or not own.classes:
            raise TypeError("input_shape, classes or resize_by_area are not accepted")
        if not all(isinstance(name, str) for name in own.classes):
            raise TypeError("classes are not words")
        if not all(isinstance(one, (int, float)) for some in moments for one in some):
            raise TypeError("mean and deviation are not numbers")
        return own
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{folder.about_file} cannot be used: expected the run's task ({error})") from error


def _load_model(model: nn.Module, folder: RunFolder) -> int:
    """Load the final weights into the model; return the round that they are of."""
    try:
        model.load_state_dict(folder.model(), strict=True)
    except RuntimeError as error:
        raise InputError(f"{folder.model_file} does not fit the model that config.yaml describes: {error}") from error
    return folder.ended() or 0


def _load_newest(model: nn.Module, layout: Layout, folder: RunFolder, damaged: list[DamagedFile]) -> int:
    """Load the newest checkpoint that is whole; `damaged` gets what is wrong with newer ones."""
    for round in reversed(folder.saved_rounds()):
        try:
            return _unpack(model, layout, folder.checkpoint(round), folder)
        except DamagedFile as error:
            damaged.append(error)
    why = f", and its checkpoints are damaged ({'; '.join(one.what for one in damaged)})" if damaged else ""
    remedy = "Put one of them back" if damaged else f"Let the run finish: smofi run --resume {folder.path}"
    none = f"there is no {folder.model_file.name} and no checkpoint{why}"
    raise InputError(f"{folder.path} contains no trained model: {none}. {remedy}")


def _unpack(model: nn.Module, layout: Layout, checkpoint: StoredCheckpoint, folder: RunFolder) -> int:
    """Load a checkpoint's weights into the model; return its round."""
    tensors = checkpoint.tensors
    sizes = tuple(tensors[name].numel() if name in tensors else 0 for name in ("weights", "statistics"))
    if sizes != (layout.size, layout.statistics_size):
        raise DamagedFile(
            f"the checkpoint of round {checkpoint.round} in {folder.path} does not fit the model that config.yaml "
            f"describes: it has {sizes[0]} parameters and {sizes[1]} statistics, expected {layout.size} and "
            f"{layout.statistics_size}"
        )
    layout.unpack(model, tensors["weights"], tensors["statistics"])
    return checkpoint.round


# --------------------------------------------------------------------------------------------------------------------
# The model in pieces: what the client computes and what the server computes.


@dataclass(frozen=True)
class ModelPiece:
    """Hold blocks that compute by themselves: their modules under their names in the whole model, and an input."""

    name: str
    module: nn.Sequential
    example: Tensor


def chosen_cut(run: TrainedRun, part: str | None, cut: CutSpec | None) -> Cut | None:
    """Choose where to split the model: where the run did, or at `cut`, which a run with several cuts needs."""
    if part is None:
        if cut is not None:
            refuse_unwanted("cut", cut, "the whole model is exported unsplit; a cut is for part client or server")
        return None
    check_choice("part", part, PARTS)
    if cut is not None:
        options = parse_cut(cut, run.layout, clients=1).options
        if len(options) != 1:
            refuse("cut", cut, "a single cut, such as 1 or 1,1")
        return options[0]
    trained = parse_cut(run.config["cut"], run.layout, run.config["clients"]).options
    if len(trained) > 1:
        cuts = ", ".join(dict.fromkeys(f'"{one}"' for one in trained))
        refuse("part", part, f"a cut too, because the run used several; cut is one of {cuts}")
    return trained[0]


def pieces(run: TrainedRun, part: str | None, cut: Cut | None) -> list[ModelPiece]:
    """Return the whole model, the server's part, or the client's: one piece, or front and back in the U shape."""
    first, last, blocks = (cut.first, cut.last, cut.blocks) if cut else (0, 0, len(run.model))
    ranges = [("front", range(first)), ("server", range(first, last)), ("back", range(last, blocks))]
    if part is None:
        wanted = {"back": "model"}
    elif part == "server":
        wanted = {"server": "model"}
    else:
        wanted = {"front": "front", "back": "back"} if cut and cut.u_shaped else {"front": "model"}
    named = list(run.model.named_children())
    found, x = [], run.task.example(2)  # two: torch.export treats a batch of one as a constant
    for place, indices in ranges:
        module = nn.Sequential(OrderedDict(named[index] for index in indices)).eval()
        if place in wanted:
            found.append(ModelPiece(wanted[place], module, x))
        with torch.no_grad():
            x = module(x)
    return found
