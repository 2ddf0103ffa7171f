"""A cell checked without its data: its model is built without numbers, and its cut and method are applied to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from smofi.config import Config
from smofi.cut import parse_cut
from smofi.errors import InputError, refuse
from smofi.flat import Layout
from smofi.methods import parse_method
from smofi.models import build
from smofi.optim import parse_optimizer
from smofi.sweep.cells import Cell


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
