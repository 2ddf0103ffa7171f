"""A run that is ready to train, and what it gives back."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from torch import nn

from smofi.engine.events import Record
from smofi.engine.run import Run
from smofi.flat import Layout


@dataclass(frozen=True)
class Result:
    """What a run gives back. `stopped` says why it ended early, None if it ran to the end."""

    model: nn.Module
    history: list[Record]
    stopped: str | None = None
    diverged: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class Session:
    """A run that is checked and ready: whatever could be refused has been refused."""

    model: nn.Module
    layout: Layout
    run: Run

    @property
    def executor(self) -> str:
        """How its clients are computed, as it was decided: the argument `executor` that repeats it on any machine."""
        return self.run.simulation.execution.executor

    def train(self) -> Result:
        """All rounds, one after the other."""
        self.run.train()
        return self.result()

    def result(self) -> Result:
        """The result so far."""
        run, trained = self.run, copy.deepcopy(self.model)
        self.layout.unpack(trained, run.state.weights, run.state.statistics)
        return Result(trained, list(run.history), run.stopped, run.diverged, run.cut_short)
