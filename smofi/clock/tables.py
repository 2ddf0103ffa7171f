"""What phones were measured to be like, by quantiles.

AI Benchmark    957 latencies of a ResNet's forward pass
MobiPerf        91 measurements of throughput, nearly all on Wi-Fi
FLASH           throughput up and down of 19 users, and when 710 phones were ready to train, for 1 to 10 days each

The first two as FLHetBench collects them. A quantile is the measured value at it or next below it (numpy's "lower").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVELS = tuple(range(5, 100, 5))
"""The percentiles of every table. What lies beyond is left out: one phone with 1.8 kbps makes a round last for days."""


@dataclass(frozen=True)
class Quantiles:
    """A distribution by its quantiles, one for each of the `LEVELS`.

    >>> LATENCY_MS.values[LEVELS.index(50)]
    175
    """

    values: tuple[float, ...]

    def at(self, draws: Floats) -> Floats:
        """The inverse of the distribution, straight from quantile to quantile, for draws from 0 to 1.

        >>> LATENCY_MS.at(np.array([0.0, 0.5, 1.0])).tolist()
        [60.0, 175.0, 572.0]
        """
        # u ~ U(0, 1) -> F^-1(0.05 + 0.9 u)
        return np.interp(draws, *self._line)

    @cached_property
    def _line(self) -> tuple[Floats, Floats]:
        return np.linspace(0, 1, len(self.values)), np.array(self.values, dtype=np.float64)


MEASURED_MACS = 4_100_000_000
"""Multiply-accumulates of the network that the latencies were measured with. The source does not state them: that it
is a ResNet-50 at 224 x 224 is our assumption. It scales hours, hardly the ratios between methods."""

LATENCY_MS = Quantiles((60, 70, 80, 88, 98, 105, 132, 141, 153, 175, 197, 220, 237, 263, 315, 343, 408, 477, 572))
"""AI Benchmark: milliseconds for one sample."""

DOWN_KBPS = Quantiles((
    8709.0, 29974.9, 36281.9, 37440.4, 39905.4, 40689.8, 41498.5, 41740.7, 41828.8, 42134.3,
    42418.5, 45902.4, 47367.2, 48969.1, 52300.0, 56484.1, 60332.1, 73225.1, 87019.0,
))  # fmt: skip
"""MobiPerf: the mean of each measurement."""

UP_PER_DOWN = Quantiles((
    0.0991, 0.136, 0.325, 0.56, 0.659, 0.669, 0.687, 0.696, 0.696, 0.707,
    0.707, 0.707, 0.709, 0.728, 0.741, 0.761, 0.79, 0.85, 1.17,
))  # fmt: skip
"""FLASH: a user's mean throughput up, divided by that down."""

READY_SHARE = Quantiles((
    0.000182, 0.00113, 0.00414, 0.00791, 0.0125, 0.0181, 0.0258, 0.0359, 0.0432, 0.0547,
    0.0675, 0.0806, 0.0962, 0.113, 0.13, 0.158, 0.196, 0.255, 0.322,
))  # fmt: skip
"""FLASH: the share of its trace in which a phone is ready."""

MEAN_GAP = (
    Quantiles((
        13717, 18343, 24811, 32708, 42418, 43180, 56860, 68959, 85165, 86349,
        102878, 128618, 143902, 172313, 172790, 215989, 259192, 431961, 518178,
    )),
    Quantiles((
        6250, 8370, 9629, 11155, 12737, 15035, 16932, 19578, 21356, 23072,
        26692, 31002, 35414, 40395, 47627, 62120, 79371, 97316, 143306,
    )),
    Quantiles((
        3754, 5128, 6593, 7760, 8744, 9976, 10860, 11544, 12906, 14173,
        15360, 16643, 18328, 23530, 28853, 33031, 39993, 51520, 64701,
    )),
)  # fmt: skip
"""FLASH: the mean of a phone's gaps between two ready intervals, in seconds; for each third of the phones, by share."""

READY_PER_MEAN = Quantiles((
    0.00253, 0.00521, 0.0081, 0.013, 0.0201, 0.0305, 0.0489, 0.0771, 0.117, 0.173,
    0.24, 0.341, 0.466, 0.625, 0.862, 1.2, 1.74, 2.6, 4.63,
))  # fmt: skip
"""FLASH: the length of a ready interval, divided by the mean of its phone; of phones with ten of them or more."""

GAP_PER_MEAN = Quantiles((
    0.000239, 0.000478, 0.00103, 0.00238, 0.00466, 0.0083, 0.0139, 0.0226, 0.0364, 0.0555,
    0.0882, 0.144, 0.241, 0.42, 0.744, 1.26, 2.06, 3.25, 5.23,
))  # fmt: skip
"""FLASH: the same of the gaps, those from the last interval of a trace around to its first among them."""
