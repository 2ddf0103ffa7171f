"""How long runs will take here: from finished runs of the same model, or else from steps that are timed now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch

from smofi.config import Config
from smofi.config.federation import Federation
from smofi.data.samples import TensorSamples
from smofi.data.source import Source
from smofi.engine.cpu.threads import in_threads
from smofi.models.catalogue import takes
from smofi.planning import plan_run
from smofi.reproduce.checking import FACTS, Facts, facts_of
from smofi.reproduce.results import Results
from smofi.sweep.cells import Cell

TIMED = 8  # samples at most of the batch that is timed, where clients are computed one by one: models may be large
ENOUGH = 0.5  # seconds of such steps
EVALUATION = 1 / 3  # of the time of a training step on as many samples


@dataclass(frozen=True)
class Estimate:
    """The seconds that cells take one after the other, and whether all of that is taken from finished runs."""

    seconds: float
    measured: bool


@dataclass(frozen=True)
class Kind:
    """Runs of the same kind take about the same time per sample: the model, its data, and how clients are computed."""

    model: str
    width: int | None
    norm: str | None
    shape: tuple[int, ...]
    classes: int
    batch_size: int
    executor: tuple[str, ...]
    device: str

    @classmethod
    def of(cls, config: Config) -> Kind:
        """That of a configuration."""
        facts = facts_of(config)
        return cls(
            *(config.model, config.width, config.norm),
            *(facts.shape, facts.classes, config.batch_size),
            *(config.executor, config.device),
        )


def estimate(cells: Sequence[Cell], results: Results, timed: dict[Kind, float] | None = None) -> Estimate:
    """The time of these cells, one after the other in one process. Kinds that are timed are kept in `timed`, so that
    each is timed once."""
    paces, timed = _paces(results), {} if timed is None else timed
    seconds, measured = 0.0, True
    for cell in cells:
        kind = Kind.of(cell.config)
        if kind not in paces:
            measured = False
            timed[kind] = paces[kind] = timed[kind] if kind in timed else _timed(cell)
        seconds += _passes(cell.config) * paces[kind]
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


def _timed(cell: Cell) -> float:
    """Seconds per sample of a step as a cell computes it, on blank data: as many clients at once as take part in a
    round, or one where they are computed one by one."""
    config, facts = cell.config, facts_of(cell.config)
    at_once = config.executor == ("vmap",)
    clients, size = (config.per_round, config.batch_size) if at_once else (1, min(TIMED, config.batch_size))
    small = {"clients": clients, "participation": 1.0, "batch_size": size, "local_epochs": 1}
    plain = {"executor": ("vmap" if at_once else "loop",), "partition": "iid", "cut": "0", "clock": "none"}
    with in_threads(1):  # as a run of a cell computes
        plan = plan_run(
            config.model_copy(update=small | plain), "fedavg", _blank(config, clients, size, facts), deadline=ENOUGH
        )
    return plan.measured.step / size


def _blank(config: Config, clients: int, samples: int, facts: Facts) -> Federation:
    """The same few samples for every client and for testing: their content does not matter for the time."""
    kind = takes(config.model) or "image"
    inputs = torch.zeros(samples, *facts.shape, dtype=torch.int64 if kind == "text" else torch.float32)
    blank = TensorSamples.of(inputs, torch.arange(samples) % facts.classes)
    source = Source(config.data, blank, blank, tuple(map(str, range(facts.classes))), kind)
    indices = [np.arange(samples)] * clients
    return Federation(source, np.zeros(samples, dtype=np.int64), indices, [blank] * clients, blank, None)
