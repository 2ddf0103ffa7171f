"""Initial weights: He et al., "Delving deep into rectifiers", ICCV 2015."""

from __future__ import annotations

from torch import nn


def initialise(model: nn.Sequential) -> nn.Sequential:
    """He initialisation in place; biases start at zero, normalisations stay the identity.

    >>> initialise(nn.Sequential(nn.Linear(2, 3)))[0].bias.tolist()
    [0.0, 0.0, 0.0]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    for layer in layers:
        # std = gain / sqrt(fan); the gain is sqrt(2) in front of a ReLU and 1 for the logits, which have none.
        nonlinearity = "linear" if layer is layers[-1] else "relu"
        fan = "fan_out" if isinstance(layer, nn.Conv2d) else "fan_in"
        nn.init.kaiming_normal_(layer.weight, mode=fan, nonlinearity=nonlinearity)  # type: ignore[arg-type, unused-ignore]
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model
