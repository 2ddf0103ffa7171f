"""A run that is ready to train, and what it gives back."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from torch import nn

from smofi.engine.cpu.threads import in_threads
from smofi.engine.events import Record
from smofi.engine.metrics import USUAL
from smofi.engine.run import Run
from smofi.flat import Layout
from smofi.training.ending import finishing_the_round
from smofi.training.progress import shown


@dataclass(frozen=True)
class Result:
    """What a run gives back: the trained `model`, in eval mode, and its `history`, a `smofi.Record` per round.

    `stopped` says why the run ended early, and is None if it ran to the end; `diverged` and `interrupted` (by Ctrl-C)
    tell two such reasons apart from having reached what was asked for. `metrics` says what people call each metric, the
    one that is judged first.

    >>> Result(nn.Linear(1, 1), [], "interrupted after round 0 of 5", interrupted=True)
    Result(0 rounds, interrupted after round 0 of 5)
    """

    model: nn.Module
    history: list[Record]
    stopped: str | None = None
    diverged: bool = False
    interrupted: bool = False
    metrics: Mapping[str, str] = field(default_factory=USUAL.copy)

    def __repr__(self) -> str:
        done = f"{len(self.history)} round{'s' * (len(self.history) != 1)}"
        measured = [
            f"{heading} {value:.4g} after round {record.round}"
            for record in [record for record in self.history if record.evaluated][-1:]
            for name, heading in self.metrics.items()
            if (value := record.value(name)) is not None
        ]
        return f"Result({', '.join([done, *measured[:1], *([self.stopped] if self.stopped else [])])})"


@dataclass(frozen=True)
class Session:
    """A run that is checked and ready: whatever could be refused has been refused."""

    model: nn.Module
    layout: Layout
    run: Run
    threads: int = 1
    progress: bool = False

    def __repr__(self) -> str:
        run, clients = self.run, len(self.run.planner.sizes)
        about = f"{run.planner.method}, {clients} client{'s' * (clients != 1)}"
        return f"Session({about}, {len(run.history)} of {run.rounds} rounds done)"

    @property
    def executor(self) -> str:
        """How its clients are computed, as it was decided: the argument `executor` that repeats it on any machine."""
        return self.run.simulation.execution.executor

    def train(self) -> Result:
        """All rounds, one after the other; after Ctrl-C, those that are left."""
        display = shown(self.run) if self.progress and self.run.workers.rank == 0 else nullcontext()
        with in_threads(self.threads), finishing_the_round(self.run), display:
            self.run.train()
        return self.result()

    def result(self) -> Result:
        """The result so far."""
        run, trained = self.run, copy.deepcopy(self.model).eval()
        self.layout.unpack(trained, run.state.weights, run.state.statistics)
        return Result(trained, list(run.history), run.stopped, run.diverged, run.cut_short, run.evaluator.headings)
