"""How long runs will take here: from finished runs of the same model, or else from steps that are timed now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np
import torch
from torch import nn

from smofi.config import Config
from smofi.config.federation import Federation
from smofi.cut import parse_cut
from smofi.data.samples import TensorSamples
from smofi.data.source import Source
from smofi.engine.cpu.threads import in_threads
from smofi.errors import InputError, refuse
from smofi.flat import Layout
from smofi.methods import parse_method
from smofi.models import build
from smofi.models.catalogue import takes
from smofi.optim import parse_optimizer
from smofi.planning import plan_run
from smofi.reproduce.results import Results
from smofi.sweep.store import Cell

# --------------------------------------------------------------------------------------------------------------------
# A cell checked without its data: its model is built without numbers, and its cut and method are applied to it.


@dataclass(frozen=True)
class Facts:
    """What is known of a data set without reading it."""

    shape: tuple[int, ...]
    classes: int
    train: int
    test: int


FACTS = {
    "cifar10": Facts((3, 32, 32), 10, 50_000, 10_000),
    "cifar100": Facts((3, 32, 32), 100, 50_000, 10_000),
    "tiny-imagenet": Facts((3, 64, 64), 200, 100_000, 10_000),
    "fashion-mnist": Facts((1, 28, 28), 10, 60_000, 10_000),
    "python:smofi.reproduce.turned:fashion_80": Facts((1, 28, 28), 80, 60_000, 10_000),
    "shakespeare": Facts((80,), 80, 230_000, 25_000),
    "speech-commands": Facts((1, 49, 40), 35, 84_843, 11_005),
}


def facts_of(config: Config) -> Facts:
    """Those of a configuration's data, with its limits applied."""
    known = FACTS[config.data]
    shape = (known.shape[0], config.image_size, config.image_size) if config.image_size else known.shape
    train, test = config.max_train or known.train, config.max_test or known.test
    if most := re.search(r"most=(\d+)", config.partition):
        train = int(most[1]) * (config.clients or 1)
    return Facts(shape, known.classes, min(known.train, train), min(known.test, test))


def check(cell: Cell) -> None:
    """Refuse a cell that could not run: its settings, its method, its model or its cut."""
    config = cell.config
    try:
        method = parse_method(cell.method)
        parse_optimizer(config.optimizer)
        facts = facts_of(config)
        cuts = parse_cut(config.cut, Layout.of(model_of(config)), config.clients or 1)
        if cuts.per_client and method.where.one_server:
            refuse("cut", config.cut, f"one cut for all clients: {method} keeps a single server model")
        if config.clients and facts.train < config.clients * config.batch_size:
            refuse("clients", config.clients, f"a batch of {config.batch_size} for each, of {facts.train:,} samples")
    except InputError as error:
        raise InputError(f"{cell.title}: {error}") from None


def model_of(config: Config) -> nn.Sequential:
    """The structure of a configuration's model, without numbers."""
    facts = facts_of(config)
    return _structure(config.model, config.width, config.norm, facts.shape, facts.classes)


@cache
def _structure(name: str, width: int | None, norm: str | None, shape: tuple[int, ...], classes: int) -> nn.Sequential:
    with torch.device("meta"):
        return build(name, seed=0, input_shape=shape, classes=classes, width=width, norm=norm)


# --------------------------------------------------------------------------------------------------------------------
# How long runs will take here: from finished runs of the same model, or else from steps that are timed now.

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
