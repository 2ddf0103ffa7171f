"""What a model costs, block by block and at every cut, counted on the model itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from smofi.errors import InputError, check_count
from smofi.flat import shell

Cast = Callable[[], AbstractContextManager[object]]

BYTES = 4
"""Of a float32, as which activations cross the cut."""


@dataclass(frozen=True)
class Block:
    """Describe a block: its parameters, and for one sample its multiply-accumulates (MACs) and what it passes on."""

    name: str
    parameters: int
    macs: int
    shape: tuple[int, ...]
    width: int = BYTES

    @property
    def numbers(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Return the size of what it passes on."""
        return BYTES * self.numbers


@dataclass(frozen=True)
class CutCosts:
    """Say what a cut leaves with the client: its share of parameters and MACs, and the bytes sent per sample."""

    cut: int
    parameters: float
    macs: float
    bytes: int


@dataclass(frozen=True)
class Costs:
    """Hold the blocks of a model, from the input block to the output block."""

    blocks: tuple[Block, ...]

    @property
    def parameters(self) -> int:
        return sum(block.parameters for block in self.blocks)

    @property
    def macs(self) -> int:
        return sum(block.macs for block in self.blocks)

    @property
    def cuts(self) -> list[CutCosts]:
        """Return the costs of every cut L: the input block and L core blocks on the client."""
        return [self.at(cut) for cut in range(len(self.blocks) - 1)]

    def at(self, cut: int) -> CutCosts:
        check_count("cut", cut, low=0, high=len(self.blocks) - 2)
        client = self.blocks[: cut + 1]
        return CutCosts(
            cut,
            sum(block.parameters for block in client) / max(1, self.parameters),
            sum(block.macs for block in client) / max(1, self.macs),
            client[-1].bytes,
        )


def costs(model: nn.Sequential, sample_shape: Sequence[int], tokens: bool = False, cast: Cast = nullcontext) -> Costs:
    """Count a model's costs by running it on one sample, in evaluation, where the model is: "meta" computes nothing.

    MACs are those of convolutions and products of matrices, as is usual; what a recurrent layer computes is not seen.
    `tokens` says that the model takes whole numbers. The model is not changed.

    >>> counted = costs(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (4,))
    >>> [block.macs for block in counted.blocks], counted.at(0).bytes
    ([32, 0, 16], 32)
    """
    scratch = shell(model).eval()
    parameter = next(model.parameters(), torch.empty(0))
    kind = torch.int64 if tokens else parameter.dtype
    x = torch.zeros(1, *sample_shape, dtype=kind, device=parameter.device)
    counted = []
    with torch.no_grad(), _everything_visible():
        for name, block in zip(scratch._modules, scratch, strict=True):  # a module may stand in two places
            with cast():
                x, macs = _run(block, x, name)
            size = sum(parameter.numel() for parameter in block.parameters())
            counted.append(Block(name, size, macs, tuple(x.shape[1:]), x.element_size()))
    return Costs(tuple(counted))


def takes_tokens(model: nn.Sequential) -> bool:
    """Tell whether the input block looks its inputs up in a table, so that they are whole numbers."""
    return any(isinstance(module, nn.Embedding) for module in model[0].modules())


def _run(block: nn.Module, x: Tensor, name: str) -> tuple[Tensor, int]:
    try:
        with FlopCounterMode(display=False) as counter:
            out: Any = block(x)
    except Exception as error:
        shape = tuple(x.shape[1:])
        raise InputError(f"model is not accepted: block {name} fails on a sample of shape {shape}: {error}") from error
    if not isinstance(out, Tensor):
        raise InputError(f"model is not accepted: block {name} returns a {type(out).__name__}, expected a tensor")
    return out, counter.get_total_flops() // 2


@contextmanager
def _everything_visible() -> Iterator[None]:
    """Attention as products of matrices: fused into one operation it would not be counted on a CPU."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
