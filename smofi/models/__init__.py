"""The models by name. Every model is a sequence of blocks, so every model splits at every block.

The first block is the input block, the last the output block, those between are the core blocks a cut counts.

Public: the names in `__all__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.models.attention import transformer
    from smofi.models.building import build
    from smofi.models.catalogue import MODELS, Entry, check_model_name, options_of, takes
    from smofi.models.costing import costs
    from smofi.models.dropout import Dropout, step_keys
    from smofi.models.shortcuts import densenet121, densenet169, mobilenetv2, resnet8, resnet18, resnet34
    from smofi.models.stacks import cnn, mlp, vgg11, vgg16
else:
    load_later(
        __name__,
        building="build",
        catalogue="MODELS Entry check_model_name options_of takes",
        costing="costs",
        dropout="Dropout step_keys",
        shortcuts="densenet121 densenet169 mobilenetv2 resnet8 resnet18 resnet34",
        stacks="cnn mlp vgg11 vgg16",
        attention="transformer",
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
