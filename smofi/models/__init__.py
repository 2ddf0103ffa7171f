"""The models by name. Every model is a sequence of blocks, so every model splits at every block.

The first block is the input block, the last the output block, those between are the core blocks a cut counts.

Public: the names in `__all__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.models.building import build
    from smofi.models.catalogue import MODELS, Entry, check_model_name, options_of, takes
    from smofi.models.cnn import cnn
    from smofi.models.costs import costs
    from smofi.models.densenet import densenet121, densenet169
    from smofi.models.dropout import Dropout, step_keys
    from smofi.models.mlp import mlp
    from smofi.models.mobilenet import mobilenetv2
    from smofi.models.resnet import resnet8, resnet18, resnet34
    from smofi.models.transformer import transformer
    from smofi.models.vgg import vgg11, vgg16
else:
    load_later(
        __name__,
        building="build",
        catalogue="MODELS Entry check_model_name options_of takes",
        cnn="cnn",
        costs="costs",
        densenet="densenet121 densenet169",
        dropout="Dropout step_keys",
        mlp="mlp",
        mobilenet="mobilenetv2",
        resnet="resnet8 resnet18 resnet34",
        transformer="transformer",
        vgg="vgg11 vgg16",
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
