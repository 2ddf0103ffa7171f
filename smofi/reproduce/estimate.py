"""How long runs will take here: from finished runs of the same model, or else from a step that is timed now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import torch
from torch.nn.functional import cross_entropy

from smofi.config import Config
from smofi.engine.check import check_device
from smofi.engine.cohort.choosing import stopwatch
from smofi.engine.cpu.threads import in_threads
from smofi.models import build
from smofi.models.costs import takes_tokens
from smofi.reproduce.checking import FACTS, facts_of
from smofi.reproduce.results import Results
from smofi.sweep.cells import Cell

TIMED = 16  # samples at most of the batch that is timed
ENOUGH = 0.5  # seconds of such steps: the first ones are slow
EVALUATION = 1 / 3  # of the time of a training step on as many samples


@dataclass(frozen=True)
class Estimate:
    """The seconds that cells take one after the other, and whether all of that is taken from finished runs."""

    seconds: float
    measured: bool


@dataclass(frozen=True)
class Kind:
    """Runs of the same kind take about the same time per sample."""

    model: str
    width: int | None
    norm: str | None
    shape: tuple[int, ...]
    classes: int
    batch_size: int
    device: str

    @classmethod
    def of(cls, config: Config) -> Kind:
        """That of a configuration."""
        facts = facts_of(config)
        return cls(
            config.model, config.width, config.norm, facts.shape, facts.classes, config.batch_size, config.device
        )


def estimate(cells: Sequence[Cell], results: Results) -> Estimate:
    """The time of these cells, one after the other in one process."""
    paces = _paces(results)
    seconds, measured = 0.0, True
    for cell in cells:
        kind, passes = Kind.of(cell.config), _passes(cell.config)
        measured &= kind in paces
        seconds += passes * (paces[kind] if kind in paces else _timed(kind))
    return Estimate(seconds, measured)


def _paces(results: Results) -> dict[Kind, float]:
    """Seconds per sample that is trained on, from finished runs."""
    found: dict[Kind, list[float]] = {}
    for run in (one for one in results.runs.values() if one.config.data in FACTS):
        found.setdefault(Kind.of(run.config), []).append(run.history.total_seconds / _passes(run.config))
    return {kind: fmean(paces) for kind, paces in found.items()}


def _passes(config: Config) -> float:
    """The samples that a run trains on, those it evaluates counted as a third each."""
    facts = facts_of(config)
    return config.rounds * (config.participation * config.local_epochs * facts.train + EVALUATION * facts.test)


@cache
def _timed(kind: Kind) -> float:
    """Seconds per sample of a forward and a backward pass, the best of several."""
    network = build(kind.model, seed=0, input_shape=kind.shape, classes=kind.classes, width=kind.width, norm=kind.norm)
    device, size = check_device(kind.device), min(TIMED, kind.batch_size)
    dtype = torch.int64 if takes_tokens(network) else torch.float32
    inputs = torch.zeros(size, *kind.shape, dtype=dtype, device=device)
    targets = torch.zeros(size, dtype=torch.int64, device=device)
    network, now = network.to(device), stopwatch(device)
    taken: list[float] = []
    with in_threads(1):  # as a run of a cell computes
        while sum(taken) < ENOUGH:
            started = now()
            cross_entropy(network(inputs), targets).backward()
            taken.append(now() - started)
    return min(taken) / size
