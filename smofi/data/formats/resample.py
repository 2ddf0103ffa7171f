"""Sound at another rate: what lies between the samples, and no frequency that the new rate cannot carry.

A signal without frequencies above half its rate is known everywhere: y(t) = sum_k x_k sinc(t - k), t in samples. For
a lower rate r' the sinc is wider by r / r', so that it lets pass what is below half of r' only. A Kaiser window ends
it after 64 zeros on either side: up to 0.9 of that half nothing changes, and all above it is 100 dB lower.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
import torch

ZEROS, ROLLOFF, BETA = 64, 0.95, 10.0
"""Of the kernel: zeros of the sinc on either side, where it cuts off, and the shape of its window."""


def reach(rate: int, to: int) -> int:
    """How many samples on either side a sample at the new rate depends on.

    >>> reach(16_000, 16_000), reach(48_000, 16_000)
    (68, 203)
    """
    return math.ceil(ZEROS / (ROLLOFF * min(1.0, to / rate)))


def resampled(samples: npt.NDArray[np.float32], rate: int, to: int) -> npt.NDArray[np.float32]:
    """The same sound at another rate; before and after it is silence.

    >>> len(resampled(np.zeros(44_100, np.float32), 44_100, 16_000))
    16000
    """
    if rate == to:
        return samples
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    length, side = math.ceil(len(samples) * up / down), reach(rate, to)
    padded = np.zeros(len(samples) + 2 * side + down + 1)
    padded[side : side + len(samples)] = samples
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1)
    out = np.empty(length, np.float32)
    # every `up` samples, the new ones lie in the same way between the old ones, `down` of these further on
    for phase in range(min(up, length)):
        count = len(range(phase, length, up))
        out[phase::up] = windows[phase * down // up :: down][:count] @ _weights(rate, to, phase)
    return out


@functools.lru_cache(maxsize=1024)  # more than the rates in use have; an odd one may have 16,000 of 50 kB each
def _weights(rate: int, to: int, phase: int) -> npt.NDArray[np.float64]:
    """How much each old sample near a new one counts, for one of the ways in which that can lie between them."""
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    side, cutoff = reach(rate, to), ROLLOFF * min(1.0, to / rate)
    apart = np.arange(-side, side + 1) - phase * down % up / up
    round_top = torch.from_numpy(BETA * np.sqrt(np.clip(1 - (apart * cutoff / ZEROS) ** 2, 0, None)))
    window = torch.special.i0(round_top).numpy()  # ten times as fast as numpy's
    window[np.abs(apart) * cutoff > ZEROS] = 0
    weights = np.sinc(cutoff * apart) * window
    normalised: npt.NDArray[np.float64] = weights / weights.sum()
    return normalised
