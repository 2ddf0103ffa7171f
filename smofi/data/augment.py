"""Training images varied: a shifted crop, a flip. What is drawn is a function of (seed, round, client, step).

The paper names no augmentation, so there is none by default.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smofi.errors import InputError, check_count, refuse
from smofi.later import np, torch
from smofi.seeds import generator
from smofi.spec import build, read_calls

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Augment:
    """Images shifted by up to `padding` pixels each way, the border filled with 0, which is the mean of standardised
    images; half of them flipped."""

    padding: int = 0
    flips: bool = False

    def draw(self, steps: int, batch_size: int, *, seed: int, round: int, client: int) -> Tensor:
        """Draw how each image of a client's round is varied, `[steps, batch_size, 3]`: down, across, flipped or not."""
        rng = generator(seed, "augment", round, client)
        # in one go, step by step: a client that takes more steps sees the same in the first ones
        most = np.array([2 * self.padding + 1, 2 * self.padding + 1, 2 if self.flips else 1])
        return torch.from_numpy(rng.integers(0, most, size=(steps, batch_size, 3)))

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Vary a batch `[samples, channels, height, width]` as drawn, in one gather; channels-last as before."""
        if images.dim() != 4:
            raise InputError(f"augment needs images, but these samples have shape {tuple(images.shape[1:])}")
        down, across, flipped = drawn.to(images.device).unbind(1)
        height, width = images.shape[2:]
        rows = down[:, None] + torch.arange(height, device=images.device)
        steps = torch.arange(width, device=images.device).expand(len(images), -1)
        columns = across[:, None] + torch.where(flipped[:, None] > 0, width - 1 - steps, steps)
        padded = torch.nn.functional.pad(images, [self.padding] * 4).permute(0, 2, 3, 1)
        which = torch.arange(len(images), device=images.device)[:, None, None]
        return padded[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def crop(padding: int = 4) -> Augment:
    """Shift an image by up to `padding` pixels each way."""
    return Augment(padding=check_count("padding", padding, high=256))


def flip() -> Augment:
    """Mirror every other image, left to right, by chance."""
    return Augment(flips=True)


AUGMENTS: dict[str, Callable[..., Augment]] = {"crop": crop, "flip": flip}


def parse_augment(text: str) -> Augment:
    """Read a string such as "crop(4)+flip"."""
    calls = read_calls("augment", text, "crop(4)+flip")
    names = [call.name for call in calls]
    if len(set(names)) < len(names) or not set(names) <= set(AUGMENTS):
        refuse("augment", text, f"{' and '.join(AUGMENTS)}, each at most once, joined by +")
    pieces = [build(AUGMENTS[call.name], call) for call in calls]
    return Augment(max(one.padding for one in pieces), any(one.flips for one in pieces))
