"""What a served run logs: its beginning, its rounds, who is left out of one, warnings, and how it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from smofi.engine.events import Callback, Event, Record, RoundDone, RunStarted, Warned
from smofi.net.logs import log

logger = logging.getLogger("smofi.serving")


@dataclass(frozen=True)
class LeftOut(Warned):
    """A client is not part of a round's model, and why."""

    client: str
    round: int
    reason: str


def journal(seed: int, then: Callback | None) -> Callback:
    """A callback that logs the events of the run with this seed, and passes them on."""

    def note(event: Event) -> None:
        if isinstance(event, RunStarted):
            _started(event, seed)
        elif isinstance(event, RoundDone):
            _round_done(event.record)
        elif isinstance(event, LeftOut):
            log(logger, "left_out", level="warning", client=event.client, round=event.round, reason=event.reason)
        elif isinstance(event, Warned):
            log(logger, "warning", level="warning", reason=event.message)
        if then is not None:
            then(event)

    return note


def _started(event: RunStarted, seed: int) -> None:
    known: dict[str, Any] = {
        "rounds": event.rounds,
        "done": event.done,
        "clients": event.clients,
        "parameters": event.parameters,
    }
    log(logger, "run_started", method=event.method, seed=seed, **known)


def _round_done(record: Record) -> None:
    known = {"accuracy": record.accuracy, "loss": record.loss, "train_loss": record.train_loss}
    measured: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    taking: dict[str, Any] = {"clients": len(record.selected), "left_out": len(record.left_out)}
    log(logger, "round_done", round=record.round, **measured, seconds=round(record.seconds, 3), **taking)


def ended(method: str, seed: int, rounds: int, stopped: str | None, *, diverged: bool, cut_short: bool) -> None:
    """A run is over: `ended` as planned, `diverged`, or `interrupted`."""
    event, level = ("diverged", "error") if diverged else ("interrupted", "warning") if cut_short else ("ended", "info")
    why: dict[str, Any] = {} if stopped is None else {"reason": stopped}
    log(logger, event, level=level, method=method, seed=seed, rounds=rounds, **why)
