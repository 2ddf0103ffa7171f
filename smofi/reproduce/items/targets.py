"""The accuracy that a panel's methods have to reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean


@dataclass(frozen=True)
class Target:
    """A share of the best accuracy of the panel's first line, with the same seed; or `fixed`, one for all; or, with
    `rounded`, that share of the mean best over seeds, rounded down to a whole percent, one for all.

    >>> NINE_TENTHS.words("FedAvg"), Target(fixed=0.7).words("FedAvg")
    ('90 % of the best accuracy of FedAvg with the same seed', '70 %')
    """

    share: float = 0.9
    fixed: float | None = None
    rounded: bool = False

    def given(self, bests: list[float]) -> float | None:
        """The accuracy, where it is the same for all seeds; `bests` are those of the first line.

        >>> Target(rounded=True).given([0.83, 0.84])
        0.75
        """
        if self.rounded:
            return math.floor(100 * self.share * fmean(bests)) / 100
        return self.fixed

    def words(self, baseline: str) -> str:
        """What it is, in words."""
        if self.fixed is not None:
            return f"{100 * self.fixed:g} %"
        share = f"{100 * self.share:g} % of"
        if self.rounded:
            return f"{share} the mean best accuracy of {baseline}, rounded down to a whole percent"
        return f"{share} the best accuracy of {baseline} with the same seed"


NINE_TENTHS = Target()
ALL_OF_IT = Target(share=1.0)
