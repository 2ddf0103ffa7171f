"""What happens during a run, as values that a callback sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from smofi.engine.metrics import USUAL, value_of


@dataclass(frozen=True)
class Record:
    """One round of history; `round` counts from 1. Accuracy and loss are the global model's on the test data,
    `validation` is what the judged metric says of the validation split; in a round without an evaluation all three are
    None and `metrics` is empty. `metrics["per_client"]` is a list, or a dict where clients have names. Diagnostics are
    recorded only with `diagnose`.

    With a clock, `virtual_seconds` is what the round takes on the clients' devices, and `virtual_end` the time since
    the run began. Of each selected client: `bytes_up`, `bytes_down`, and `idle`, the share of its time that it waits.
    `left_out` are those that are not part of the new model, because they left or were too late."""

    round: int
    accuracy: float | None
    loss: float | None
    train_loss: float
    seconds: float
    selected: list[int]
    steps: list[int]
    learning_rate: float
    cut: str
    metrics: dict[str, Any] = field(default_factory=dict)
    validation: float | None = None
    diagnostics: dict[str, float] = field(default_factory=dict)
    virtual_seconds: float | None = None
    virtual_end: float | None = None
    bytes_up: list[int] = field(default_factory=list)
    bytes_down: list[int] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)

    @property
    def evaluated(self) -> bool:
        """Whether anything was measured after this round."""
        return self.loss is not None or self.validation is not None or bool(self.metrics)

    def value(self, metric: str) -> float | None:
        """A metric as a single number, `per_client` as the mean of the clients; None where it was not measured."""
        return value_of(vars(self), metric)


@dataclass(frozen=True)
class RunStarted:
    """Before the first round: `eligible` of the `clients` have at least one batch, `per_round` of them take part.
    A resumed run has `done` rounds behind it. `computed` says whether clients are computed one by one or at once.
    `metrics` are the metrics and what people call them; the first is the one that is judged."""

    method: str
    rounds: int
    clients: int
    eligible: int
    per_round: int
    parameters: int
    done: int = 0
    computed: str = ""
    metrics: dict[str, str] = field(default_factory=USUAL.copy)


@dataclass(frozen=True)
class RoundStarted:
    """Clients are selected, nothing is trained yet."""

    round: int
    selected: list[int]
    steps: list[int]


@dataclass(frozen=True)
class TickDone:
    """One tick of the round's schedule is done: as a rule, one step of every active client."""

    round: int
    tick: int


@dataclass(frozen=True)
class RoundDone:
    """The global model is updated, and evaluated if that was due."""

    record: Record


@dataclass(frozen=True)
class Warned:
    """Something the user should know; the run goes on."""

    message: str


@dataclass(frozen=True)
class RunEnded:
    """After the last round; `stopped` says why if the run ended early."""

    rounds: int
    stopped: str | None


Event = RunStarted | RoundStarted | TickDone | RoundDone | Warned | RunEnded
"""Anything that a callback sees."""

Callback = Callable[[Event], None]
"""callback(event): called in the first process, as soon as the event happens."""
