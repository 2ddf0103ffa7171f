"""Initial weights: He et al., "Delving deep into rectifiers", ICCV 2015."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn


def initialise(model: nn.Sequential, convolution_fan: Literal["fan_in", "fan_out"] = "fan_out") -> nn.Sequential:
    """He initialisation in place; biases start at zero, normalisations stay the identity.

    With "fan_out" a convolution keeps the size of gradients, with "fan_in" that of what passes forward.

    >>> initialise(nn.Sequential(nn.Linear(2, 3)))[0].bias.tolist()
    [0.0, 0.0, 0.0]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for layer in layers:
        # std = gain / sqrt(fan); the gain is sqrt(2) in front of a ReLU and 1 for the logits, which have none.
        nonlinearity = "linear" if layer is layers[-1] else "relu"
        fan = convolution_fan if isinstance(layer, nn.Conv2d) else "fan_in"
        nn.init.kaiming_normal_(layer.weight, mode=fan, nonlinearity=nonlinearity)  # type: ignore[arg-type, unused-ignore]
        if isinstance(layer, nn.Conv2d) and layer.groups > 1 and fan == "fan_out":
            # Torch counts the outputs of all groups into the fan, but an input feeds those of its own group only.
            with torch.no_grad():
                layer.weight.mul_(layer.groups**0.5)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model
