"""From a run folder to files that plain torch, ONNX Runtime or a model hub can use."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shutil
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import smofi
from smofi.cut import CutSpec
from smofi.errors import InputError, check_path
from smofi.export.card import (
    PREPROCESSING,
    RUNNABLE,
    model_card,
    preprocessing,
    why_no_program,
    without_places,
)
from smofi.export.request import FORMATS, checked_destination, chosen_formats
from smofi.export.trained import ModelPiece, chosen_cut, pieces, read_run


@dataclass(frozen=True)
class Exported:
    """Say what was written, and what the user should know: formats left out, a run that had not finished."""

    folder: Path
    files: tuple[str, ...]
    notes: tuple[str, ...]


def export_run(
    folder: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    formats: Sequence[str] | None = None,
    part: str | None = None,
    cut: CutSpec | None = None,
    best: bool = False,
) -> Exported:
    """Write the trained model of a run folder into `destination`, a new or an empty folder, with a model card.

    formats   of "safetensors", "torch" (`torch.export`) and "onnx"; if not given, all whose packages are installed
    part      "client" or "server" for one side of the cut; the client of a U-shaped cut has two modules, front and back
    cut       where to split the model, if not where the run did; needed if the run was cut at several places
    best      the model of the round with the best validation accuracy, rather than the last one

    >>> export_run("no/such/run", "exported")
    Traceback (most recent call last):
    smofi.errors.InputError: no/such/run is not a run folder: it has no config.yaml
    """
    chosen, notes = chosen_formats(formats)
    target = checked_destination(check_path("destination", destination))
    run = read_run(check_path("folder", folder), best)
    where = chosen_cut(run, part, cut)
    modules = pieces(run, part, where)
    notes += [error.what for error in run.damaged]
    missing = why_no_program(run, part, chosen)
    if missing and part is None and RUNNABLE & set(chosen):
        notes.append(f"predict.py is left out: {missing}")
    if run.unfinished and not best:
        notes.append(f"the run has not finished: exported its checkpoint after round {run.latest.get('round', 0)}")
    unfinished = target.with_name(f".{target.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(parents=True)
        about = {
            "version": smofi.__version__,
            "config": {key: without_places(value) for key, value in run.config.items()},
            "part": part,
            "cut": str(where) if where else None,
            "round": run.latest.get("round"),
            "accuracy": run.latest.get("accuracy"),
        }
        files = [name for one in chosen for name in FORMATS[one](unfinished, modules, about)]
        facts = json.dumps(preprocessing(run), ensure_ascii=False, indent=1) + "\n"
        (unfinished / PREPROCESSING).write_text(facts, encoding="utf-8")
        files.append(PREPROCESSING)
        if missing is None:
            assert run.task.preparation is not None
            for name in ("predict.py", f"read_{run.task.preparation['raw_input']['kind']}.py"):
                shutil.copyfile(Path(__file__).parent / "standalone" / name, unfinished / name)
                files.append(name)
        (unfinished / "README.md").write_text(model_card(run, part, where, modules, files, missing), encoding="utf-8")
        mode = stat.S_IMODE((unfinished / PREPROCESSING).stat().st_mode)
        for path in unfinished.iterdir():
            path.chmod(mode)  # safetensors' own is for the owner's eyes alone
        os.replace(unfinished, target)
    except OSError as error:
        raise InputError(f"destination={str(target)!r} is not accepted: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Exported(target, (*files, "README.md"), tuple(notes))


# --------------------------------------------------------------------------------------------------------------------
# The file formats: safetensors, `torch.export`, ONNX.

ONNX_LIMIT = 1_500_000_000  # bytes; an ONNX file is limited to 2 GiB, larger weights go beside it


def write_safetensors(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    tensors = {name: t.contiguous() for piece in pieces for name, t in piece.module.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt", "smofi": json.dumps(about)})
    return ["model.safetensors"]


def write_torch(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    """Write a file per piece for `torch.export.load`; the batch may have any size."""
    for piece in pieces:
        torch.export.save(_exported(piece), folder / f"{piece.name}.pt2")
    return [f"{piece.name}.pt2" for piece in pieces]


def write_onnx(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    """Write a file per piece, from `input` to `output`; the batch may have any size: its dimension is `batch`."""
    for piece in pieces:
        path = folder / f"{piece.name}.onnx"
        size = sum(t.numel() * t.element_size() for t in piece.module.state_dict().values())
        # torch warns of what it will change in itself, and that torchvision is absent
        logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.onnx.export(
                _exported(piece),
                f=path,
                input_names=["input"],
                output_names=["output"],
                dynamo=True,
                verbose=False,
                external_data=size > ONNX_LIMIT,
            )
        _tidy(path)
    return [f"{piece.name}.onnx" for piece in pieces]


def _exported(piece: ModelPiece) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(piece.module, (piece.example,), dynamic_shapes=({0: batch},))
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # with the paths of this machine
    return program


def _tidy(path: Path) -> None:
    """Call the batch dimension by its name, and leave out what torch noted about its own work."""
    onnx = importlib.import_module("onnx")
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    own_name = graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for value in (*graph.input, *graph.output, *graph.value_info):
        for size in (one for one in value.type.tensor_type.shape.dim if one.dim_param):
            size.dim_param = re.sub(rf"\b{re.escape(own_name)}\b", "batch", size.dim_param)
    nodes = [node for place in (graph, *model.functions) for node in place.node]
    for noted in (model, graph, *nodes, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        noted.ClearField("metadata_props")
        noted.ClearField("doc_string")
    onnx.save(model, path)
