"""The file formats: safetensors, `torch.export`, ONNX."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from smofi.export.pieces import ModelPiece

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
    """A file per piece, from `input` to `output`; the batch may have any size."""
    for piece in pieces:
        size = sum(t.numel() * t.element_size() for t in piece.module.state_dict().values())
        with _without_warnings():
            torch.onnx.export(
                _exported(piece),
                f=folder / f"{piece.name}.onnx",
                input_names=["input"],
                output_names=["output"],
                dynamo=True,
                verbose=False,
                external_data=size > ONNX_LIMIT,
            )
    return [f"{piece.name}.onnx" for piece in pieces]


def _exported(piece: ModelPiece) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(piece.module, (piece.example,), dynamic_shapes=({0: batch},))


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
