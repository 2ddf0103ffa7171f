"""The models by name. Every model is a sequence of blocks, so every model splits at every block.

The first block is the input block, the last the output block, those between are the core blocks a cut counts.

Public: the names in `__all__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.models.architectures import (
        cnn,
        densenet121,
        densenet169,
        mlp,
        mobilenetv2,
        resnet8,
        resnet18,
        resnet34,
        transformer,
        vgg11,
        vgg16,
    )
    from smofi.models.building import build
    from smofi.models.costing import costs
    from smofi.models.dropout import Dropout, step_keys
    from smofi.models.known import MODELS, Entry, check_model_name, options_of, takes
else:
    load_later(
        __name__,
        architectures="cnn densenet121 densenet169 mlp mobilenetv2 resnet8 resnet18 resnet34 transformer vgg11 vgg16",
        building="build",
        costing="costs",
        dropout="Dropout step_keys",
        known="MODELS Entry check_model_name options_of takes",
    )

__all__ = [
    "MODELS",
    "Dropout",
    "Entry",
    "build",
    "check_model_name",
    "costs",
    "options_of",
    "step_keys",
    "takes",
    "cnn",
    "densenet121",
    "densenet169",
    "mlp",
    "mobilenetv2",
    "resnet8",
    "resnet18",
    "resnet34",
    "transformer",
    "vgg11",
    "vgg16",
]
