"""A served run in a sentence."""

from __future__ import annotations

from smofi.engine.metrics import is_share
from smofi.net.status.curve import Point
from smofi.net.status.progress import Progress
from smofi.plural import plural


def headline(run: Progress, connected: int) -> str:
    """What a person wants to know first.

    >>> headline(Progress(), connected=2)
    'Waiting to start: 2 clients are connected.'
    >>> run = Progress()
    >>> run.state, run.method, run.rounds, run.done, run.round = "running", "smofi", 40, 11, 12
    >>> run.latest = Point(11, {"top1": 0.8724}, None, None, None)
    >>> headline(run, connected=8)
    'smofi is in round 12 of 40. Accuracy 87.2% after round 11.'
    >>> run.waiting = "3 of 5 clients are connected"
    >>> headline(run, connected=3)
    'smofi waits to go on after round 11 of 40: 3 of 5 clients are connected. Accuracy 87.2% after round 11.'
    >>> run.waiting = None
    >>> run.state, run.paused = "paused", "3 of 5 clients are connected"
    >>> headline(run, connected=3)
    'smofi is paused in round 12 of 40: 3 of 5 clients are connected. Accuracy 87.2% after round 11.'
    """
    reached = _reached(run)
    if run.state == "ended":
        if run.stopped:
            return f"{run.method} stopped after {_of(run.done, run.rounds)}: {_sentence(run.stopped)}{reached}"
        return f"{run.method} has finished {plural(run.done, 'round')}.{reached}"
    if not run.method:
        verb = "is" if connected == 1 else "are"
        waiting = _sentence(run.waiting) if run.waiting else f"{plural(connected, 'client')} {verb} connected."
        return f"Waiting to start: {waiting}"
    if run.waiting:
        begins = f"go on after {_of(run.done, run.rounds)}" if run.done else "start"
        return f"{run.method} waits to {begins}: {_sentence(run.waiting)}{reached}"
    if run.paused:
        return f"{run.method} is paused in {_of(max(1, run.round), run.rounds)}: {_sentence(run.paused)}{reached}"
    if run.round == 0:
        return f"{run.method} is starting its first round of {run.rounds:,}."
    return f"{run.method} is in {_of(run.round, run.rounds)}.{reached}"


def _of(round: int, rounds: int) -> str:
    return f"round {round:,} of {rounds:,}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _reached(run: Progress) -> str:
    name = next(iter(run.metrics))
    point: Point | None = run.latest
    if point is None or (value := run.judged(point)) is None:
        return ""
    shown = f"{value:.1%}" if is_share(name) else f"{value:.4g}"
    heading = run.metrics[name]
    return f" {heading[:1].upper()}{heading[1:]} {shown} after round {point.round:,}."
