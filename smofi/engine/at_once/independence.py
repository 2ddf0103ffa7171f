"""Which padding keeps a client's bits independent of the clients it shares a pass with: equal clients try it.

    pass of 1       a
    pass of 2       a a
    pass of 3       a a a      every a has to come out the same, wherever it stands and however many there are

Kernels are chosen by shapes, not by numbers, so it does not matter that the clients are equal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.padding import PADDINGS, Padding, repeat_last
from smofi.engine.noise import own_random_state
from smofi.engine.passes import Cast, Loss
from smofi.flat import Layout
from smofi.models.dropout import dropouts, step_keys

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 16)
"""Numbers of clients that are tried, besides the largest."""

NUMBERS, MOST_DRAWS = 2**14, 4
"""The gradients of a small model may come out alike by chance, though they were added in another order. So it is tried
on several draws, until there are this many numbers."""

ROUNDED, DRAWS_IF_ROUNDED = PADDINGS[-1:], 6
"""In reduced precision rounding hides nearly all of what differs. So cheap paddings, which might look right by chance,
are not tried, and the others are tried on more numbers."""

Bits = Callable[[int], Hashable]
"""What tells apart what passes of some widths leave behind for each of their equal clients; None if that is not the
same for all clients of a pass."""

DEPENDENT = "a client's last bits would depend on how many others share its pass"


def padding_of(
    template: nn.Sequential, loss: Loss, sample: tuple[Tensor, Tensor], most: int = 16, cast: Cast = nullcontext
) -> Padding | None:
    """The cheapest padding with which passes of up to `most` clients give each the same bits, None if there is none.

    `sample` is a batch as clients will have it: kernels are chosen by its shape, too. The model must be one that can
    be computed at once: see `trial.why_not`.

    >>> batch = torch.eye(8), torch.arange(8)
    >>> padding_of(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.functional.cross_entropy, batch)
    Padding(least=1, multiple=1)
    """
    with own_random_state(sample[0].device):
        several = min(MOST_DRAWS, -(-NUMBERS // Layout.of(template).size))
        paddings, draws = (PADDINGS, several) if cast is nullcontext else (ROUNDED, DRAWS_IF_ROUNDED)
        tried = [EqualClients(template, loss, sample, cast, seed) for seed in range(draws)]
        return first_padding(paddings, [clients.bits for clients in tried], most)


def first_padding(paddings: Sequence[Padding], tried: Sequence[Bits], most: int) -> Padding | None:
    """The first padding with which the bits are the same in passes of all sizes up to `most`.

    >>> first_padding(PADDINGS, [lambda width: width % 2], 16)  # differs where the width is odd
    Padding(least=2, multiple=2)
    """
    sizes = [size for size in SIZES if size < most] + [most]
    for padding in paddings:
        widths = sorted({padding.width(size) for size in sizes})
        if all(_same_in(widths, bits) for bits in tried):
            return padding
    return None


def _same_in(widths: Sequence[int], bits: Bits) -> bool:
    first = bits(widths[0])
    others = (bits(width) for width in widths[1:])
    return first is not None and all(other == first for other in others)


class EqualClients:
    """Any number of clients with the same weights, near the model's own, and the same samples."""

    def __init__(
        self, template: nn.Sequential, loss: Loss, sample: tuple[Tensor, Tensor], cast: Cast, seed: int
    ) -> None:
        device, layout = sample[0].device, Layout.of(template)
        torch.manual_seed(seed)
        self.rows = [_near(row)[None] for row in layout.pack(template, device)]
        self.sample = [tensor[None] for tensor in sample]
        if dropouts(template):
            self.sample.append(step_keys(seed, len(sample[0]), device)[None])
        self.many = ClientsAtOnce(template, layout, loss, cast)
        self.known: dict[int, bytes | None] = {}

    def bits(self, width: int) -> bytes | None:
        """A hash of what a pass of this width leaves behind for each client."""
        if width not in self.known:
            self.known[width] = self._pass(width)
        return self.known[width]

    def _pass(self, width: int) -> bytes | None:
        weights, statistics = (repeat_last(row, width).clone() for row in self.rows)
        gradients = torch.zeros_like(weights)
        losses = self.many.backward(weights, statistics, gradients, *(repeat_last(t, width) for t in self.sample))
        outcome = [tensor.view(torch.uint8) for tensor in (gradients, statistics, losses[:, None])]
        if not all((tensor == tensor[:1]).all() for tensor in outcome):
            return None
        return hashlib.sha256(b"".join(tensor[0].cpu().numpy().tobytes() for tensor in outcome)).digest()


def _near(row: Tensor) -> Tensor:
    """Numbers near these, none of them as round as initial weights are."""
    return row * (1 + 0.05 * torch.randn_like(row)) + 0.01 * torch.randn_like(row)
