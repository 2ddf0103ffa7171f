"""The round: the paper's Algorithm 2, for every method, wherever the rows live."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from smofi.engine.finite import all_finite, finite_or_kept
from smofi.engine.plan import RoundPlan
from smofi.engine.state import GlobalState
from smofi.method import Method, Tick


class Cohort(Protocol):
    """A round's clients: where their rows live and their gradients are computed."""

    def ticks(self) -> Iterator[Tick]: ...
    def step(self, groups: Sequence[Sequence[int]]) -> None: ...
    def fuse(self) -> None: ...
    def average_servers(self, active: Sequence[int]) -> None: ...
    def mean(self) -> tuple[Tensor, Tensor]: ...
    def mean_moments(self) -> tuple[Tensor, Tensor]: ...
    def losses(self) -> list[Tensor]: ...
    def broken_rows(self) -> list[int]: ...
    def diagnosis(self) -> dict[str, float]: ...


class NonFinite(ArithmeticError):
    """A loss or a weight is no longer a number: the round is void and the state is as it was before it. `client` is
    the one that it began with, where that is known."""

    def __init__(self, message: str, client: int | None = None) -> None:
        super().__init__(message)
        self.client = client


Begin = Callable[[RoundPlan], Cohort]
"""begin(plan): a cohort whose rows are the global weights, with no momentum yet."""


def run_round(
    begin: Begin, method: Method, state: GlobalState, plan: RoundPlan, after_tick: Callable[[int], None]
) -> Cohort:
    """One round; the state changes at its very end, or not at all. Returns the cohort, for what it has seen."""
    # W_j <- W ;  m̄ <- 0
    cohort = begin(plan)
    for number, tick in enumerate(cohort.ticks()):
        # for every active j, in parallel: g_j ;  m_j = beta m̄ + g_j ;  W_j -= eta m_j
        cohort.step(tick.groups)
        # m̄ = sum_j (age_j + 1)^alpha m_j / |J|
        cohort.fuse()
        if tick.average:
            # SFLV1: W_s,j <- sum_j p_j W_s,j
            cohort.average_servers(tick.average)
        after_tick(number)
    # W̄ = sum_j p_j W_j
    average, statistics = cohort.mean()
    weights, memory = average, state.memory.clone()
    refuse_non_finite(cohort, plan)
    if not any(plan.shares):  # all were late or left: the model stays as it is
        return cohort
    if method.outer:
        # m_g = beta_g m_g + (W - W̄) ;  W -= m_g
        weights = state.weights.clone()
        method.outer.update(weights, average, memory, plan.lr)
    if not finite_or_kept(weights, state.weights) or not finite_or_kept(statistics, state.statistics):
        raise NonFinite(f"the global model became non-finite in round {plan.round + 1}")
    carried = cohort.mean_moments() if method.carry else (state.carried, state.carried_updates)
    state.load(GlobalState(weights, statistics, memory, *carried))
    return cohort


def refuse_non_finite(cohort: Cohort, plan: RoundPlan) -> None:
    """Raise NonFinite, naming round, step and client, if a loss or a weight of the round is not a number."""
    losses = cohort.losses()
    bad = [
        (int((~torch.isfinite(steps)).nonzero()[0]), row) for row, steps in enumerate(losses) if not all_finite(steps)
    ]
    if bad:
        step, row = min(bad)
        what = f"the training loss became {float(losses[row][step])}"
    elif rows := cohort.broken_rows():
        row, what = rows[0], "a weight became non-finite"
        step = plan.steps[row] - 1
    else:
        return
    client = plan.clients[row]
    raise NonFinite(f"{what} in round {plan.round + 1}, step {step + 1} of {plan.steps[row]}, client {client}", client)
