"""The round: the paper's Algorithm 2, for every method, wherever the rows live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from smofi.engine.plan import RoundPlan
from smofi.engine.state import GlobalState
from smofi.method import Method


class Cohort(Protocol):
    """Where a round's rows live and its gradients are computed."""

    def begin(self, plan: RoundPlan) -> None: ...
    def train(self, group: Sequence[int]) -> None: ...
    def fuse(self) -> None: ...
    def average_servers(self, active: Sequence[int]) -> None: ...
    def mean(self) -> tuple[Tensor, Tensor]: ...
    def mean_moments(self) -> tuple[Tensor, Tensor]: ...
    def losses(self) -> list[Tensor]: ...
    def broken_rows(self) -> list[int]: ...


class NonFinite(ArithmeticError):
    """A loss or a weight is no longer a number: the round is void and the state is as it was before it."""


def run_round(
    cohort: Cohort, method: Method, state: GlobalState, plan: RoundPlan, after_tick: Callable[[int], None]
) -> None:
    """One round; the state changes at its very end, or not at all."""
    cohort.begin(plan)  # W_j <- W ;  m̄ <- 0
    for number, tick in enumerate(plan.ticks(method)):
        for group in tick.groups:  # in parallel, as far as the cohort can
            cohort.train(group)  # g_j ;  m_j = beta m̄ + g_j ;  W_j -= eta m_j
        cohort.fuse()  # m̄ = sum_j (age_j + 1)^alpha m_j / |J|
        if tick.average:
            cohort.average_servers(tick.average)  # SFLV1: W_s,j <- sum_j p_j W_s,j
        after_tick(number)
    average, statistics = cohort.mean()  # W̄ = sum_j p_j W_j
    refuse_non_finite(cohort, plan, average)
    weights, memory = average, state.memory.clone()
    if method.outer:  # m_g = beta_g m_g + (W - W̄) ;  W -= m_g
        weights = state.weights.clone()
        method.outer.update(weights, average, memory, plan.lr)
        refuse_non_finite(cohort, plan, weights)
    if method.carry:
        state.carried, state.carried_updates = cohort.mean_moments()
    state.weights.copy_(weights)
    state.statistics.copy_(statistics)
    state.memory = memory


def refuse_non_finite(cohort: Cohort, plan: RoundPlan, weights: Tensor) -> None:
    """Raise NonFinite, naming round, step and client, if a loss or a weight of the round is not a number."""
    bad = [
        (int((~torch.isfinite(losses)).nonzero()[0]), row)
        for row, losses in enumerate(cohort.losses())
        if not torch.isfinite(losses).all()
    ]
    if bad:
        step, row = min(bad)
        raise NonFinite(
            f"the training loss became {float(cohort.losses()[row][step])} in round {plan.round + 1}, "
            f"step {step + 1} of {plan.steps[row]}, client {plan.clients[row]}"
        )
    if not torch.isfinite(weights).all():
        rows = cohort.broken_rows()
        where = f", step {plan.steps[rows[0]]}, client {plan.clients[rows[0]]}" if rows else ", in the global update"
        raise NonFinite(f"a weight became non-finite in round {plan.round + 1}{where}")
