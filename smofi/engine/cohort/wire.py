"""How numbers cross the cut: as they are, or with fewer bits each, rounded as they would be on a real wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smofi.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Compression:
    """A `wire` that keeps fewer bits of every number: `width` bytes each, and `overhead` bytes for every sample."""

    name: str
    stored: str
    width: int
    overhead: int = 0

    @property
    def dtype(self) -> torch.dtype:
        """The type of the numbers that are sent."""
        dtype: torch.dtype = getattr(torch, self.stored)
        return dtype

    def __call__(self, tensor: Tensor, direction: str, client: int) -> Tensor:
        """What arrives of a batch, a sample per row.

        >>> COMPRESSIONS["int8"](torch.tensor([[127.0, 1.4, -3.6]]), "up", 0).tolist()
        [[127.0, 1.0, -4.0]]
        """
        if self.dtype.is_floating_point:
            return tensor.to(self.dtype).to(tensor.dtype)
        # each sample in steps of its largest number / 127
        flat = tensor.flatten(1)
        step = (flat.abs().amax(1, keepdim=True) / 127).clamp_min(torch.finfo(tensor.dtype).tiny)
        return (torch.round(flat / step) * step).view_as(tensor)


COMPRESSIONS = {
    "float16": Compression("float16", "float16", 2),
    "bf16": Compression("bf16", "bfloat16", 2),
    "int8": Compression("int8", "int8", 1, overhead=4),
}
