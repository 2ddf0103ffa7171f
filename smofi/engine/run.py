"""A run: the rounds one after the other, evaluated, recorded, saved, and stopped early if need be."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import torch

from smofi.engine.checkpoint import Checkpoint
from smofi.engine.cohort.execution import Execution
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.evaluate import Evaluator
from smofi.engine.events import Callback, Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.engine.noise import own_random_state
from smofi.engine.plan import Planner, RoundPlan, RoundTime
from smofi.engine.round import Cohort, NonFinite, run_round
from smofi.engine.state import GlobalState
from smofi.engine.stopping import BestRound, Stopping
from smofi.errors import TrainingWarning

NO_MORE_ROUNDS = -1
"""Announced in place of a round's number, when there are no more."""

ADVICE = "try a smaller learning rate, smofi(alpha=-1), or +clip(max_norm=10)"


def ignore_event(event: Event) -> None:
    """A callback that does nothing."""


class Keeper(Protocol):
    """What saves a run after each round, such as a run folder."""

    def after_round(self, run: Run) -> None: ...


class Run:
    """Training from a state, round after round. Everything random is a function of the seed and the round's number.

    `stopped` is the sentence that says why it ended early; `diverged` and `cut_short` (by an interruption) tell two
    such reasons apart from having reached what was asked for. `remarks` are made as it begins.
    """

    def __init__(
        self,
        simulation: Simulation,
        planner: Planner,
        evaluator: Evaluator,
        stopping: Stopping,
        rounds: int,
        callback: Callback | None,
        eval_every: int = 1,
        cohort: Callable[[Simulation, RoundPlan], Cohort] = SimulatedCohort,
    ) -> None:
        self.simulation, self.planner, self.evaluator, self.cohort = simulation, planner, evaluator, cohort
        self.state, self.workers = simulation.state, simulation.workers
        self.stopping, self.rounds, self.eval_every = stopping, rounds, eval_every
        self.emit: Callback = callback or ignore_event
        self.remarks = [
            *(planner.clock.remarks if planner.clock else ()),
            *remarks_on(self.workers.size, simulation.execution),
        ]
        self.keeper: Keeper | None = None
        self.history: list[Record] = []
        self.best = BestRound()
        self.stopped: str | None = None
        self.diverged = False
        self.interrupted = self.cut_short = False
        self.first_loss: float | None = None
        self.warned_of_divergence = self.warned_of_absence = False

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return len(self.history) >= self.rounds or self.stopped is not None

    @property
    def now(self) -> float:
        """Virtual seconds since the run began, 0 without a clock."""
        return (self.history[-1].virtual_end or 0.0) if self.history else 0.0

    @property
    def best_round(self) -> int | None:
        """The first round that is best on the validation split, None if none was validated."""
        return self.best.of(self.history)

    def evaluates(self, round: int) -> bool:
        """Whether this round, counted from 1, ends with an evaluation: the same answer in every worker."""
        return round % self.eval_every == 0 or round == self.rounds

    def train(self) -> None:
        """Run until all rounds are in the history or the run has to stop. The first worker decides."""
        for tensor in self.state.tensors().values():
            self.workers.copy(tensor)
        own = self.simulation.execution
        self._execute(own.with_numbers(*(self._announce(number) for number in own.numbers)))
        if self.workers.rank > 0:
            return self._follow()
        planner = self.planner
        counts = (len(planner.sizes), len(planner.eligible), planner.per_round, len(self.state.weights))
        done, computed, metrics = len(self.history), str(self.simulation.execution), self.evaluator.headings
        self.emit(RunStarted(planner.method.name, self.rounds, *counts, done, computed, metrics))
        if planner.method.fuse and not self.simulation.setup.optimizer.moments:
            self.emit(Warned(f"{planner.method} has nothing to fuse: the optimizer keeps no momentum"))
        if planner.method.fuse and planner.per_round == 1:
            self.emit(Warned(f"{planner.method} has nothing to fuse: one client takes part in a round (participation)"))
        setup = self.simulation.setup
        if setup.passes.server_threads > setup.server_threads:
            self.emit(Warned(f"server_threads changes nothing for {planner.method}: it has no single server model"))
        for remark in self.remarks:
            self.emit(Warned(remark))
        self.stopped = self.stopping.reason(self.history, self.best)
        while not self.over:
            self._announce(len(self.history))
            try:
                self.history.append(self.one_round(planner.plan(len(self.history), self._share(self.now))))
            except NonFinite as error:
                self.diverged = True
                self._evaluate_last()
                which = f"{error}{self._name_of(error.client)}"
                self.stopped = (
                    f"{which}; the model is the one after round {len(self.history)}. To go further, {ADVICE}."
                )
                self.warn(self.stopped)
            else:
                self.emit(RoundDone(self.history[-1]))
                self._warn_if_diverging()
                self._warn_if_left_out()
                self.stopped = self.stopping.reason(self.history, self.best)
                if self.interrupted and not self.over:
                    self.cut_short = True
                    self.stopped = f"interrupted after round {len(self.history)} of {self.rounds}"
            if self.keeper:
                self.keeper.after_round(self)
        self._announce(NO_MORE_ROUNDS)
        self.emit(RunEnded(len(self.history), self.stopped))

    def interrupt(self) -> None:
        """Stop at the end of the current round."""
        self.interrupted = True

    def one_round(self, plan: RoundPlan) -> Record:
        """Train one round and evaluate it if that is due, leaving the caller's random state untouched."""
        self.emit(RoundStarted(plan.round + 1, plan.clients, plan.steps))
        started = time.perf_counter()
        with own_random_state(self.state.weights.device):
            begin = partial(self.cohort, self.simulation)
            cohort = run_round(begin, self.planner.method, self.state, plan, self._after_tick(plan.round + 1))
            measures = measured(self.evaluator if self.evaluates(plan.round + 1) else None)
        losses = cohort.losses()
        if self.first_loss is None:
            self.first_loss = float(torch.stack([steps[0] for steps in losses if len(steps)]).mean())
        return Record(
            round=plan.round + 1,
            train_loss=float(torch.cat(losses).mean()),
            seconds=time.perf_counter() - started,
            selected=plan.clients,
            steps=plan.steps,
            learning_rate=plan.lr,
            cut=" ".join(dict.fromkeys(map(str, plan.cuts))),
            diagnostics=cohort.diagnosis(),
            **self.seen(cohort, plan),
            **measures,
        )

    def seen(self, cohort: Cohort, plan: RoundPlan) -> dict[str, Any]:
        """What a record says about the clients' devices."""
        return timed(plan.time, self.now)

    def checkpoint(self) -> Checkpoint:
        """All that the run needs to go on from here."""
        notes = {
            "began": self.first_loss,
            "warned": self.warned_of_divergence,
            "eval_every": self.eval_every,
            "choice": self.simulation.execution.numbers,
        }
        return Checkpoint(self.state.tensors(), self.history, notes)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from there as if the run had never stopped. Whether the latest round is evaluated depends on how many
        there are to be, which may have changed."""
        self.state.load(GlobalState(**checkpoint.tensors))
        self.history = list(checkpoint.history)
        notes = checkpoint.notes
        self.first_loss, self.warned_of_divergence = notes["began"], notes["warned"]
        self._execute(self.simulation.execution.as_before(notes.get("choice", (0, 1))))
        done, every = len(self.history), notes.get("eval_every", 1)
        if done == self.rounds:
            self._evaluate_last()
        elif done % every and not self.evaluates(done):  # it was evaluated only because it was the last
            self.history[-1] = replace(self.history[-1], **measured(None))

    def warn(self, message: str) -> None:
        """Tell the user, by event and by Python's warnings; the run goes on."""
        self.emit(Warned(message))
        warnings.warn(message, TrainingWarning, stacklevel=3)

    def _execute(self, execution: Execution) -> None:
        self.simulation = replace(self.simulation, execution=execution)

    def _announce(self, number: int) -> int:
        """What the first worker decides: how many clients at once, then the number of the next round or
        NO_MORE_ROUNDS."""
        return int(self.workers.copy(torch.tensor([number], device=self.state.weights.device)))

    def _share(self, time: float) -> float:
        """The virtual time of the first worker, in all of them."""
        return float(self.workers.copy(torch.tensor([time], dtype=torch.float64, device=self.state.weights.device)))

    def _follow(self) -> None:
        """Run the same rounds as the first worker, until it announces the end; only the first emits events."""
        self.emit = ignore_event
        while (round := self._announce(NO_MORE_ROUNDS)) != NO_MORE_ROUNDS:
            with suppress(NonFinite):  # every worker sees it, the first one reports it
                self.one_round(self.planner.plan(round, self._share(0.0)))

    def _evaluate_last(self) -> None:
        """Evaluate the latest round if it was not, in this worker alone: the others do not know that it is the last."""
        if self.history and not self.history[-1].evaluated:
            with own_random_state(self.state.weights.device):
                self.history[-1] = replace(self.history[-1], **measured(self.evaluator.by_one_worker()))

    def _name_of(self, client: int | None) -> str:
        """A client's name in brackets, nothing if it has none."""
        names = self.evaluator.data.client_names
        return f" ({names[client]})" if names and client is not None else ""

    def _after_tick(self, round: int) -> Callable[[int], None]:
        return lambda tick: self.emit(TickDone(round, tick))

    def _warn_if_left_out(self) -> None:
        latest = self.history[-1]
        if 2 * len(latest.left_out) >= len(latest.selected) and not self.warned_of_absence:
            self.warned_of_absence = True
            self.emit(
                Warned(
                    f"{len(latest.left_out)} of {len(latest.selected)} clients are not part of round {latest.round}'s "
                    "model: they left, or were too slow for the deadline"
                )
            )

    def _warn_if_diverging(self) -> None:
        latest = self.history[-1]
        # far above: twice the first loss and one more, so that a loss near zero may vary
        first = self.first_loss
        if not self.warned_of_divergence and first is not None and latest.train_loss > 2 * first + 1:
            self.warned_of_divergence = True
            self.warn(
                f"the training loss is {latest.train_loss:.3g} in round {latest.round}, up from {first:.3g} at "
                f"the start: training seems to diverge; {ADVICE}"
            )


def remarks_on(workers: int, execution: Execution) -> list[str]:
    """Where last bits depend on the number of workers: sums are taken in the same order by 1, 2, 4, 8, ... of them.

    >>> remarks_on(4, Execution()), remarks_on(3, Execution())
    ([], ['with 3 workers, the last bits of all numbers differ from those of 1, 2, 4 or 8 workers'])
    """
    remarks = []
    if workers & (workers - 1):
        remarks.append(
            f"with {workers} workers, the last bits of all numbers differ from those of 1, 2, 4 or 8 workers"
        )
    if execution.at_once and not execution.padding:
        remarks.append("computed at once, the last bits of this model's numbers depend on the number of workers")
    return remarks


def timed(time: RoundTime | None, before: float) -> dict[str, Any]:
    """What a record says about virtual time, nothing without a clock; `before` is when the round before ended.

    >>> timed(None, 0.0)
    {}
    """
    if time is None:
        return {}
    took = {"virtual_seconds": time.ended - before, "virtual_end": time.ended, "left_out": time.left_out}
    return {**took, "bytes_up": time.bytes_up, "bytes_down": time.bytes_down, "idle": time.idle}


def measured(evaluator: Evaluator | None) -> dict[str, Any]:
    """What a record says about the global model: all that an evaluation gives, or nothing.

    >>> measured(None)
    {'accuracy': None, 'loss': None, 'metrics': {}, 'validation': None}
    """
    loss, metrics = evaluator.evaluate() if evaluator else (None, {})
    validation = evaluator.validate() if evaluator else None
    return {"accuracy": metrics.get("top1"), "loss": loss, "metrics": metrics, "validation": validation}
