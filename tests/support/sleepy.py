"""A model whose first block takes SLEEP seconds in training, where that is set: a slow device."""

from __future__ import annotations

import os
import time
from typing import Any

from torch import Tensor, nn


class Sleepy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            time.sleep(float(os.environ.get("SLEEP", "0")))
        outputs: Tensor = self.layer(inputs.flatten(1))
        return outputs


def network(input_shape: tuple[int, ...], classes: int, **options: Any) -> nn.Sequential:
    """Called by smofi for --model python:support.sleepy:network."""
    return nn.Sequential(nn.Identity(), Sleepy(), nn.Linear(10, classes))
