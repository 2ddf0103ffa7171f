"""The two normalisations a convolutional model can be built with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smofi.errors import check_choice
from smofi.later import torch

if TYPE_CHECKING:
    from torch import nn

NORMS = ("batch", "group")


def groups_for(channels: int) -> int:
    """The most groups, up to eight, that divide the channels and leave at least two channels in each.

    A group of one channel would be instance normalisation, which forgets how strong each feature was.

    >>> groups_for(16), groups_for(12), groups_for(7), groups_for(1)
    (8, 6, 1, 1)
    """
    return max((groups for groups in range(1, min(8, channels // 2) + 1) if channels % groups == 0), default=1)


def normalisation(kind: str, channels: int) -> nn.Module:
    """BatchNorm or GroupNorm over `channels`.

    >>> normalisation("group", 16).num_groups
    8
    """
    check_choice("norm", kind, NORMS)
    return torch.nn.BatchNorm2d(channels) if kind == "batch" else torch.nn.GroupNorm(groups_for(channels), channels)
