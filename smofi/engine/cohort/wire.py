"""How numbers cross the cut: as they are, or with fewer bits each. A simulation rounds them as a real wire does, by the
same code: it packs, and unpacks at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smofi.errors import check_choice
from smofi.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Compression:
    """A `wire` that keeps fewer bits of every number: `width` bytes each, and `overhead` bytes for every sample.

    What is packed has the shape of the tensor and its order in memory. With an overhead, a float32 for each sample
    follows: the step of which the sample's numbers are multiples.
    """

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
        return self.unpack(self.pack(tensor), tensor.dtype)

    def pack(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """What is sent of a batch.

        >>> COMPRESSIONS["int8"].pack(torch.tensor([[127.0, 1.4, -3.6]]))
        (tensor([[127,   1,  -4]], dtype=torch.int8), tensor([1.]))
        """
        tensor = tensor.detach()
        if not self.overhead:
            return (tensor.to(self.dtype),)
        step = _steps(tensor)
        # into memory of the tensor's own order, which a sum or a product with another tensor need not keep
        scaled = torch.div(tensor, _beside(step, tensor), out=torch.empty_like(tensor)).round_()
        # the step of a bfloat16 tensor is rounded so much that the largest number can be 128 of them;
        # a number that is not finite has a step that is not, which says enough
        scaled = scaled.clamp_(-127, 127).nan_to_num_(0.0)
        return scaled.to(self.dtype), step

    def unpack(self, parts: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
        """The batch, as a tensor of this type, from what was sent of it."""
        arrived = parts[0].to(dtype)
        return arrived.mul_(_beside(parts[1], arrived)) if self.overhead else arrived

    def carries(self, tensor: Tensor) -> bool:
        """Whether all numbers of a batch are still finite when they arrive. Rounding keeps their order, so that the
        smallest and the largest tell; of int8 they have the largest step.

        >>> [COMPRESSIONS["float16"].carries(torch.tensor([[number]])) for number in (65_504.0, 70_000.0)]
        [True, False]
        """
        if not tensor.numel():
            return True
        ends = torch.stack((tensor.detach().amin(), tensor.detach().amax()))
        return all(bool(torch.isfinite(part).all()) for part in self.pack(ends) if part.is_floating_point())

    def parts(self, shape: tuple[int, ...]) -> tuple[tuple[torch.dtype, tuple[int, ...]], ...]:
        """The type and the shape of each part that is sent of a batch of this shape.

        >>> COMPRESSIONS["int8"].parts((32, 8, 4, 4))
        ((torch.int8, (32, 8, 4, 4)), (torch.float32, (32,)))
        """
        values = (self.dtype, shape)
        return (values, (torch.float32, shape[:1])) if self.overhead else (values,)


def _steps(tensor: Tensor) -> Tensor:
    """For each sample its largest number / 127, as it is sent; never zero."""
    if not tensor.numel():
        return tensor.new_ones(tensor.shape[:1], dtype=torch.float32)
    largest = tensor.abs()
    if tensor.dim() > 1:
        largest = largest.amax(tuple(range(1, tensor.dim())))
    least = max(torch.finfo(tensor.dtype).tiny, torch.finfo(torch.float32).tiny)
    return (largest / 127).clamp_min(least).to(torch.float32)


def _beside(step: Tensor, tensor: Tensor) -> Tensor:
    """A step per sample, to compute with a batch."""
    return step.to(tensor.dtype).view(step.shape + (1,) * (tensor.dim() - step.dim()))


COMPRESSIONS = {
    "float16": Compression("float16", "float16", 2),
    "bf16": Compression("bf16", "bfloat16", 2),
    "int8": Compression("int8", "int8", 1, overhead=4),
}

OTHER_NAMES = {"fp32": None, "fp16": "float16"}
"""What a `wire` may be called as well. None sends numbers as they are."""

WIRES = ("fp32", "fp16", "bf16", "int8", "float16")


def check_wire(field: str, value: Any) -> str | None:
    """The name of a compression, or None for numbers as they are, by any name that it has.

    >>> check_wire("wire", "fp16"), check_wire("wire", "int8"), check_wire("wire", "fp32")
    ('float16', 'int8', None)
    """
    name = check_choice(field, value, WIRES)
    return OTHER_NAMES.get(name, name)


def wire_named(name: str) -> Compression | None:
    """The compression of this name; None for `fp32`, numbers as they are.

    >>> wire_named("fp16").width
    2
    """
    known = check_wire("wire", name)
    return None if known is None else COMPRESSIONS[known]
