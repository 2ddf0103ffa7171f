"""What a round adds up over its rows, as they finish: all that is left of them at the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smofi.engine.cohort.local import Segment
from smofi.engine.cohort.rows import Rows
from smofi.engine.state import GlobalState


class Sums:
    """Weighted sums over the rows of this process; those of several processes are added to each other.

    `exchanged` tells that the losses are those of all processes.
    """

    def __init__(self, state: GlobalState, rows: int) -> None:
        self.state = state
        self.weights = torch.zeros_like(state.weights)
        self.change = torch.zeros_like(state.statistics)
        self.moments, self.updates = torch.zeros_like(state.carried), torch.zeros_like(state.carried_updates)
        self.broken = torch.zeros(rows, device=state.weights.device)
        self.losses: dict[int, Tensor] = {}
        self.exchanged = False

    def add(self, shares: Tensor, weights: Rows, statistics: Rows, once: float = 1.0) -> None:
        """sum_j p_j W_j, and sum_j p_j (S_j - S) for the statistics; `once` as in `Rows.weighted_sum`."""
        self.weights += weights.weighted_sum(shares, once)
        self.change += statistics.weighted_change(shares, self.state.statistics, once)

    def add_moments(self, share: float, segments: Sequence[Segment]) -> None:
        """p_j m_j of a row's segments, and the same for the number of updates of every block."""
        for segment in segments:
            self.updates[segment.blocks.start : segment.blocks.stop] += share * segment.updates
            for total, moment in zip(self.moments, segment.momentum.moments, strict=True):
                total[segment.columns].add_(moment[0], alpha=share)
