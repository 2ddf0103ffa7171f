"""Weights of a model that was another network under its name in an earlier version: they cannot be used any more."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from smofi.errors import InputError
from smofi.models.transformer import Embedding


def refuse_former(model: nn.Module, parameters: int, folder: Path, config_file: Path) -> None:
    """Refuse a run folder whose `parameters` are as many as the model used to have; others are not its concern."""
    embedding = next(model.children(), None)
    if not isinstance(embedding, Embedding):
        return
    # The earlier one had sinusoids for positions, and a normalisation behind its last layer.
    length, width = embedding.positions.weight.shape
    if parameters == sum(one.numel() for one in model.parameters()) - length * width + 2 * width:
        raise InputError(
            f"{folder} holds a transformer of an earlier version of smofi, which was another network (normalisation in "
            f"front of each sublayer, fixed positions): its weights cannot be used. Train the present one: "
            f"smofi run {config_file} --output NEW"
        )
