"""The normalisations a convolutional model can be built with: batch, group, or group(n) for n groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smofi.errors import InputError, check_count, refuse
from smofi.later import torch
from smofi.spec import build_one

if TYPE_CHECKING:
    from torch import nn

EXAMPLE = "group(2)"


def parse_norm(text: str) -> str | int | None:
    """The number of groups; "group" where each layer has its own number, None for BatchNorm.

    >>> parse_norm("batch"), parse_norm("group"), parse_norm("group(2)")
    (None, 'group', 2)
    """

    def batch() -> None:
        return None

    def group(n: int | None = None) -> str | int:
        return "group" if n is None else check_count("n", n)

    builders: dict[str, Any] = {"batch": batch, "group": group}
    groups: str | int | None = build_one("norm", text, builders, EXAMPLE)
    return groups


def groups_for(channels: int) -> int:
    """The most groups, up to eight, that divide the channels and leave at least two channels in each.

    A group of one channel would be instance normalisation, which forgets how strong each feature was.

    >>> groups_for(16), groups_for(12), groups_for(7), groups_for(1)
    (8, 6, 1, 1)
    """
    return max((groups for groups in range(1, min(8, channels // 2) + 1) if channels % groups == 0), default=1)


def normalisation(kind: str, channels: int) -> nn.Module:
    """BatchNorm or GroupNorm over `channels`.

    >>> normalisation("group", 16).num_groups, normalisation("group(2)", 16).num_groups
    (8, 2)
    """
    if not isinstance(kind, str):
        refuse("norm", kind, f'a string such as "{EXAMPLE}"')
    try:
        groups = parse_norm(kind)
    except InputError as error:
        whole = "" if str(error).startswith("norm=") else f"norm={kind!r}: "
        raise InputError(f"{whole}{error}") from None
    if groups is None:
        return torch.nn.BatchNorm2d(channels)
    count = groups if isinstance(groups, int) else groups_for(channels)
    if channels % count:
        refuse("norm", kind, f"a number of groups that divides the channels of every layer, but one has {channels}")
    return torch.nn.GroupNorm(count, channels)
