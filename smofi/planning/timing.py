"""How long a round takes, from a few real steps: nothing that a run keeps is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from smofi.data.samples import Samples
from smofi.engine.cohort.choosing import stopwatch
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.evaluate import Evaluator
from smofi.engine.plan import RoundPlan

EVALUATED_BATCHES = 2


@dataclass(frozen=True)
class Seconds:
    """What was measured: a round's beginning, one client's step, the end of a tick, of a round, and an evaluation."""

    begin: float
    step: float
    tick: float
    end: float
    evaluation: float

    def per_round(self, steps: float, ticks: float) -> float:
        """A round with this number of steps, those of all clients together, and this number of ticks.

        >>> Seconds(begin=1, step=2, tick=3, end=4, evaluation=5).per_round(steps=10, ticks=2)
        36
        """
        return self.begin + steps * self.step + ticks * self.tick + self.end + self.evaluation


def time_rounds(simulation: Simulation, evaluator: Evaluator, plans: Sequence[RoundPlan], deadline: float) -> Seconds:
    """Rounds as planned, group by group, until `deadline` seconds are over; then one evaluation."""
    now = stopwatch(simulation.state.weights.device)
    begin: list[float] = []
    step: list[float] = []
    tick: list[float] = []
    end: list[float] = []
    until = now() + deadline
    for plan in plans:
        started = now()
        cohort = SimulatedCohort(simulation, plan)
        begin.append(now() - started)
        for planned in cohort.ticks():
            size = max(1, simulation.execution.at_once)
            neighbours = sorted(planned.groups, key=lambda group: cohort.place(group[0]))
            for low in range(0, len(neighbours), size):
                groups = neighbours[low : low + size]
                step.append(_timed(now, cohort.step, groups) / sum(map(len, groups)))
                if now() > until:
                    break
            tick.append(_timed(now, cohort.fuse))
            if planned.average:
                tick[-1] += _timed(now, cohort.average_servers, planned.average)
            if now() > until:
                end.append(_timed(now, cohort.close_rows))
                break
        else:
            end.append(0.0)
        end[-1] += _timed(now, cohort.mean)  # the state itself is left alone
        if now() > until:
            break
    evaluation = sum(_evaluation(now, evaluator, samples) for samples in evaluator.held_out)
    # medians, so that a moment in which the machine did something else does not count a thousandfold
    return Seconds(median(begin), median(step), median(tick), median(end), evaluation)


def _evaluation(now: Callable[[], float], evaluator: Evaluator, samples: Samples) -> float:
    """The time for all these samples, from that for the first batches."""
    evaluated = min(len(samples), EVALUATED_BATCHES * evaluator.batch_size)
    return _timed(now, evaluator.predict, samples, evaluated) * len(samples) / evaluated


def _timed(now: Callable[[], float], function: Callable[..., Any], *arguments: Any) -> float:
    started = now()
    function(*arguments)
    return now() - started
