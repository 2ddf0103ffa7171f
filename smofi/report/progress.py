"""How far runs have come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from smofi.report.history import History
from smofi.report.numbers import mebibytes

LATEST = 5  # rounds that say how long the next ones will take
RECENT = 200  # rounds among which they are looked for


@dataclass
class RunProgress:
    """A run's history so far and the rounds it will have; `in_round` is the done share of the current round, which has
    `ticks` ticks. The history of a resumed run has the seconds of the rounds since then alone.

    >>> run = RunProgress(History("smofi", [0.5, 0.7], seconds=[2.0, 2.0]), rounds=10)
    >>> run.history.best, run.seconds_left
    (0.7, 16.0)
    """

    history: History
    rounds: int
    in_round: float = 0.0
    state: str = "waiting"
    ticks: int = 1

    @property
    def done(self) -> float:
        """The done share of the run, from 0 to 1."""
        return min(1.0, (self.history.rounds + self.in_round) / max(1, self.rounds))

    @property
    def seconds_per_round(self) -> float | None:
        """Of the latest rounds: those with an evaluation and those without one, each as often as they were."""
        seconds, values = self.history.seconds, self.history.values
        latest = zip(reversed(seconds[-RECENT:]), reversed(values[-RECENT:]), strict=False)
        kinds: dict[bool, list[float]] = {}
        for taken, value in latest:
            kinds.setdefault(value is None, []).append(taken)
        total = sum(len(kind) * median(kind[:LATEST]) for kind in kinds.values())
        return total / sum(map(len, kinds.values())) if kinds else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last round ends, if rounds keep taking as long."""
        pace = self.seconds_per_round
        return None if pace is None else pace * max(0.0, self.rounds - self.history.rounds - self.in_round)


def seconds_left_in_all(runs: Sequence[RunProgress]) -> float | None:
    """Seconds until the last of several runs ends. One that has not started will take as long as the others.

    >>> started = RunProgress(History("fedavg", [0.5, 0.7], seconds=[2.0, 2.0]), rounds=10, state="running")
    >>> seconds_left_in_all([started, RunProgress(History("smofi"), rounds=10)])
    36.0
    """
    known = [pace for run in runs if (pace := run.seconds_per_round) is not None]
    ahead = [
        left if (left := run.seconds_left) is not None else (run.rounds - run.history.rounds) * fmean(known)
        for run in runs
        if known and run.state in ("running", "waiting")
    ]
    return sum(ahead) if ahead else None


def bar(done: float, width: int, *, unicode: bool) -> tuple[str, str]:
    """A bar of this width, in its filled and its empty characters.

    >>> bar(0.5, 4, unicode=False)
    ('##', '--')
    """
    full, empty = ("━", "─") if unicode else ("#", "-")
    filled = int(done * width)
    return full * filled, empty * (width - filled)


def peak_memory() -> str:
    """The most memory this process has used so far; empty where the system does not say.

    >>> peak_memory().endswith("iB")
    True
    """
    try:
        import resource
    except ImportError:
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mebibytes(peak if sys.platform == "darwin" else 1024 * peak)  # macOS counts bytes, others KiB
