"""The same without events, by a formula: where no client waits for the server, is late, or leaves.

"step"     sum over ticks of max_j t_j, over those still active
"epoch"    sum over epochs of max_j n_j t_j, n_j the steps of the epoch
"round"    max_j T_j t_j
"client"   sum_j T_j t_j
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from smofi.clock.jobs import SERVER, Job, Leg, Replayed, Rules
from smofi.clock.replay import Replay


def replay(jobs: Sequence[Job], rules: Rules, start: float = 0.0, *, watch: bool = False) -> Replayed:
    """Replay a round: by a formula where there is one, event by event elsewhere, or to `watch` it.

    >>> job = Job((Leg("compute", 2.0), Leg("server", 1.0)), steps=4, epoch_steps=4)
    >>> replay([job, job], Rules("round")).end
    12.0
    """
    orderly = rules.visits is None or rules.waits == "client"
    untimed = rules.deadline == math.inf and all(job.leaves == math.inf for job in jobs)
    if watch or rules.parallel < math.inf or rules.merges or not orderly or not untimed or not jobs:
        return Replay(list(map(_compact, jobs)) if untimed and not watch else jobs, rules, start).run()
    steps = np.array([job.steps for job in jobs])
    fetch, each, give = (np.array([seconds(legs) for legs in kind]) for kind in zip(*map(_phases, jobs), strict=True))
    sizes = np.array([job.epoch_steps for job in jobs])
    until = start + _finish(rules, steps, sizes, fetch, each) + give
    busy = fetch + steps * each + give
    none = [False] * len(jobs)
    return Replayed(float(until.max()), steps.tolist(), busy.tolist(), until.tolist(), none, [], [])


def seconds(legs: Sequence[Leg]) -> float:
    """The time of some legs, one after the other."""
    return sum(leg.seconds for leg in legs)


def _compact(job: Job) -> Job:
    """The same job, with consecutive legs on the device merged into one: fewer events, the same times."""
    runs = [list(run) for _, run in groupby(job.step, key=lambda leg: leg.kind == SERVER)]
    legs = [run if run[0].kind == SERVER else [Leg("own", seconds(run))] for run in runs]
    return replace(job, step=tuple(leg for run in legs for leg in run))


def _phases(job: Job) -> tuple[Sequence[Leg], Sequence[Leg], Sequence[Leg]]:
    return job.fetch, job.step, job.give


def _finish(rules: Rules, steps: np.ndarray, sizes: np.ndarray, fetch: np.ndarray, each: np.ndarray) -> np.ndarray:
    """When each row has taken its last step, counted from the beginning of the round."""
    own: np.ndarray = fetch + steps * each
    if rules.waits == "client":
        assert rules.visits is not None
        order = [row for rows in rules.visits for row in rows]
        finish = np.empty_like(own)
        finish[order] = own[order].cumsum()
        return finish
    if rules.waits == "epoch":
        return _by_epoch(steps, sizes, fetch, each)
    if rules.waits == "round":
        return own
    # the slowest of those with more than n steps, for every n
    slowest = np.zeros(steps.max())
    np.maximum.at(slowest, steps - 1, each)
    slowest = np.maximum.accumulate(slowest[::-1])[::-1]
    slowest[0] = (fetch + each).max()
    begins = np.concatenate([[0.0], slowest.cumsum()])
    ends: np.ndarray = begins[steps - 1] + each + np.where(steps == 1, fetch, 0.0)
    return ends


def _by_epoch(steps: np.ndarray, sizes: np.ndarray, fetch: np.ndarray, each: np.ndarray) -> np.ndarray:
    now, before, done, finish = 0.0, fetch, np.zeros_like(steps), np.zeros_like(each)
    while (left := steps - done).any():
        taken = np.minimum(sizes, left)
        ends = now + before + taken * each
        finish = np.where(taken > 0, ends, finish)
        now, before, done = float(ends[taken > 0].max()), np.zeros_like(each), done + taken
    return finish
