"""The file formats: safetensors, `torch.export`, ONNX."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from smofi.export.trained import ModelPiece

ONNX_LIMIT = 1_500_000_000  # bytes; an ONNX file is limited to 2 GiB, larger weights go beside it


def write_safetensors(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    """All pieces in one file, under the names they have in the whole model."""
    tensors = {name: t.contiguous() for piece in pieces for name, t in piece.module.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt", "smofi": json.dumps(about)})
    return ["model.safetensors"]


def write_torch(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    """A file per piece for `torch.export.load`; the batch may have any size."""
    for piece in pieces:
        torch.export.save(_exported(piece), folder / f"{piece.name}.pt2")
    return [f"{piece.name}.pt2" for piece in pieces]


def write_onnx(folder: Path, pieces: list[ModelPiece], about: dict[str, Any]) -> list[str]:
    """A file per piece, from `input` to `output`; the batch may have any size, and its dimension is called `batch`."""
    for piece in pieces:
        path = folder / f"{piece.name}.onnx"
        size = sum(t.numel() * t.element_size() for t in piece.module.state_dict().values())
        with _without_warnings():
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


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide torch's own deprecation warnings, and its warning that torchvision is absent."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logger.setLevel(level)
