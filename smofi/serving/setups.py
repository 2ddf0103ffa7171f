"""What a server and its clients must have in common: the model's structure, the method, the optimizer, the wire."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from smofi.config import Config
from smofi.config.settings import check_served
from smofi.cut import parse_cut
from smofi.data.partitions import PREFIX as SAVED
from smofi.engine.assembly import template_of
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.wire import wire_named
from smofi.engine.passes import Cast, Passes
from smofi.engine.remote.crossing import Task
from smofi.errors import InputError, refuse
from smofi.flat import Layout
from smofi.methods import parse_method
from smofi.net.plain import plain_text
from smofi.optim import parse_optimizer

TEXT = "text"

LONGEST_SENTENCE = 1000
"""Characters of why an offer is not accepted. Some of it is what the server says, escapes of terminals too."""


def setup_of(config: Config, model: nn.Sequential, device: torch.device) -> Setup:
    """The same on both sides, given a configuration with one method."""
    (name,) = config.method
    method, optimizer = parse_method(name), parse_optimizer(config.optimizer)
    cast: Cast = nullcontext
    if config.precision != "float32":
        cast = partial(torch.autocast, device.type, torch.bfloat16)
    setup = Setup(
        template_of(model.to(device)),
        Layout.of(model),
        method,
        optimizer.with_nesterov() if method.nesterov else optimizer,
        cross_entropy,
        wire_named(config.wire) if config.wire else None,
        Passes(cast, server_threads=config.server_threads),
    )
    _check_remote(name, setup, config)
    return setup


def _check_remote(name: str, setup: Setup, config: Config) -> None:
    """Refuse what cannot be computed on several machines."""
    if setup.local.model_wide_limits > 1:
        refuse("method", name, "one limit on the norm of the whole model: give fednar or clip scope='part'")
    if setup.method.select and parse_cut(config.cut, setup.layout, config.clients or 1).options[0].u_shaped:
        refuse("method", name, "a cut of one number: it selects clients by their labels, which a U shape keeps there")


def check_servable(config: Config) -> None:
    """Refuse settings that mean nothing where clients are real, before anything is started."""
    check_served(config.model_dump())
    if config.partition.startswith(SAVED):
        accepted = "one that clients with --part can follow, such as iid: they have no file of the server's"
        refuse("partition", config.partition, accepted)
    for metric in config.metrics:
        if metric in ("per_client", "worst_client"):
            refuse("metrics", metric, "top1 or macro_f1: the clients' samples are with the clients")


def task_of(kind: str, input_shape: tuple[int, ...], classes: int, layout: Layout) -> Task:
    """What a client's samples have to be."""
    return Task(input_shape, torch.int64 if kind == TEXT else layout.dtype, (), torch.int64, classes)


def layout_hash(layout: Layout) -> str:
    """The same for the same names, shapes and order of a model's tensors.

    >>> layout_hash(Layout.of(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))))[:8]
    'b4e33357'
    """
    places = [(one.name, tuple(one.shape)) for one in (*layout.parameters, *layout.statistics)]
    return hashlib.sha256(repr((layout.blocks, places, str(layout.dtype))).encode()).hexdigest()


def refuse_offer(sentence: str) -> InputError:
    """Why a client does not join."""
    return InputError(f"this server's run is not accepted: {plain_text(sentence, LONGEST_SENTENCE)}")
