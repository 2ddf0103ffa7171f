"""Dropout whose masks are a function of the sample, not of the order in which samples are computed.

Torch draws masks from one stream of random numbers, so that merging two batches, or computing all clients at once,
changes every mask. Here a sample has a key, and its mask follows from the key, the layer and the position alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor, nn

from smofi.errors import InputError

Model = TypeVar("Model", bound=nn.Module)

GOLDEN = 0x9E3779B97F4A7C15
MULTIPLY1, MULTIPLY2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""The constants of SplitMix64: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014."""

FACTOR = 0x93D765DD
"""An odd 32-bit multiplier with a good spectrum: Steele, Vigna, "Computationally easy, spectrally good multipliers"."""


class Dropout(nn.Dropout):
    """`nn.Dropout`, but with `keys`, a number per sample, set before a forward pass, masks are a function of them.

    >>> layer = Dropout(0.5)
    >>> layer.keys = step_keys(seed=0, batch=4)
    >>> both = layer(torch.ones(4, 6))
    >>> layer.keys = layer.keys[2:]
    >>> torch.equal(layer(torch.ones(2, 6)), both[2:])
    True
    """

    keys: Tensor | None = None
    layer: int = 0

    def forward(self, input: Tensor) -> Tensor:
        if self.keys is None or not self.training or self.p == 0:
            return super().forward(input)
        mask = self._mask(input, self.keys)
        return input.mul_(mask) if self.inplace else input * mask

    def _mask(self, input: Tensor, keys: Tensor) -> Tensor:
        """Return 0 or 1 / (1 - p) for each element. Rows of a sample, should there be several, follow one another."""
        samples = keys.shape[0]
        if input.dim() == 0 or input.shape[0] % samples:
            raise InputError(
                f"a dropout layer is not accepted: expected the {samples} samples of its batch first, but its input "
                f"has shape {tuple(input.shape)}"
            )
        if self.p == 1:
            return torch.zeros_like(input)
        bits = _bits(keys, self.layer, input.numel() // samples)
        # Bits are uniform over 2^32 numbers from -2^31 up: p of them lie below this.
        kept = bits >= min(round(self.p * 2**32), 2**32 - 1) - 2**31
        return kept.view(input.shape).to(input.dtype).mul_(1 / (1 - self.p))


def step_keys(seed: int, batch: int, device: torch.device | str = "cpu") -> Tensor:
    """Make a key for each sample of a client's step, from the step's seed and the sample's place in the batch.

    >>> step_keys(seed=1, batch=3).dtype, len(set(step_keys(seed=1, batch=1000).tolist()))
    (torch.int64, 1000)
    """
    start = _mix(torch.tensor(_signed(seed % 2**64, 64), device=device))
    return _mix(start + torch.arange(1, batch + 1, device=device) * _signed(GOLDEN, 64))


def dropouts(model: nn.Module) -> list[Dropout]:
    """Return the dropout layers of a model that take keys, numbered in the order of `model.modules()`."""
    found = [module for module in model.modules() if isinstance(module, Dropout)]
    for number, module in enumerate(found):
        module.layer = number
    return found


def seeded(model: Model) -> Model:
    """Replace, in place, every `nn.Dropout` of a model by one that takes keys, and number those; subclasses of
    `nn.Dropout` are left alone.
    """
    replaced: dict[int, Dropout] = {}
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if type(module) is nn.Dropout and path:
            parent, _, name = path.rpartition(".")
            ours = replaced.setdefault(id(module), Dropout(module.p, module.inplace).train(module.training))
            setattr(model.get_submodule(parent), name, ours)
    dropouts(model)
    return model


def _bits(keys: Tensor, layer: int, size: int) -> Tensor:
    """Draw 32 random bits, as int32, for each sample and position: `[samples, size]`.

    The key and the layer become 64 bits, half of them xored with the position's own, half of them a multiplier.
    """
    mixed = _mix(keys + _signed((layer + 1) * GOLDEN % 2**64, 64))[:, None]
    bits = mixed.to(torch.int32) ^ _position_bits(size, keys.device)
    bits *= _signed(FACTOR, 32)
    shifted = bits >> 15
    shifted &= 2**17 - 1  # a logical shift
    bits ^= shifted
    bits *= (mixed >> 32).to(torch.int32) | 1
    return bits


@lru_cache(maxsize=64)
def _position_bits(size: int, device: torch.device) -> Tensor:
    # Kept for later. Where torch.func.grad is the first to ask, it is wrapped, and torch unwraps it afterwards.
    with torch.inference_mode(False):
        # 0, 1, ...; of an arange, a compiler would compute the product itself, without wrapping around
        positions = torch.ones(size, dtype=torch.int64, device=device).cumsum(0) - 1
        return _mix(positions * _signed(GOLDEN, 64)).to(torch.int32)


def _mix(x: Tensor) -> Tensor:
    """Mix by SplitMix64's finaliser, on int64 that wraps around."""
    for shift, factor in ((30, MULTIPLY1), (27, MULTIPLY2)):
        x = (x ^ _shift(x, shift)) * _signed(factor, 64)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, by: int) -> Tensor:
    """Shift to the right, logically: no copies of the sign."""
    shifted: Tensor = (x >> by) & (2 ** (64 - by) - 1)
    return shifted


def _signed(number: int, bits: int) -> int:
    """Return the signed number with the same bits."""
    return number - 2**bits if number >= 2 ** (bits - 1) else number
