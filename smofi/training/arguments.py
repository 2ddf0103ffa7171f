"""Check what `smofi.train` and `smofi.prepare` take, and turn strings and data into what the engine reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from smofi.clock import Timing
from smofi.config.settings import TRAIN_ARGUMENTS
from smofi.cut import CutSpec
from smofi.data.augment import Augment, parse_augment
from smofi.data.samples import DatasetSamples, Samples, TensorSamples
from smofi.engine.cohort.wire import wire_named
from smofi.engine.evaluate import Metric
from smofi.engine.events import Callback, Event, Record, RoundDone
from smofi.engine.passes import Cast, Loss, Wire
from smofi.engine.processes.workers import Workers
from smofi.errors import InputError, check_flag, refuse
from smofi.method import Method
from smofi.methods import parse_method
from smofi.optim import Optimizer, parse_optimizer

HELP = {
    "model": "an `nn.Sequential` of blocks: input block, core blocks, output block. It is not changed.",
    "clients": "a pair of tensors (inputs, targets) or a map-style Dataset per client",
    "test": "the same for the test data; without it nothing is evaluated",
    "client_tests": "the test data of each client, None for one without, for the metrics per_client and worst_client",
    "client_names": "what clients are called in per_client and in messages; numbers, if not given",
    "loss": "a function of (outputs, targets)",
    "progress": "show how the run goes: a picture in a terminal, a line in a notebook, plain lines in a file",
    "on_round": "a function that is called with the `smofi.Record` of every round, when the round is done",
    "callback": "the same with every `smofi.Event`: rounds, steps, warnings",
    "speeds": "relative speed of each client, by which MergeSFL sizes batches; equal if not given",
    "validation": "data held out to decide when to stop, by `patience` or `target_accuracy`",
    "workers": "the processes that share the work, from `smofi.joined()` under torchrun; this one alone if not given",
}
"""The arguments that are not settings."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Arguments:
    """The arguments of `smofi.train`, which has their defaults, each checked by itself."""

    model: nn.Sequential
    clients: Sequence[Any]
    test: Any
    method: str | Method
    optimizer: str | Optimizer
    cut: CutSpec
    rounds: int
    participation: float
    local_epochs: int
    batch_size: int
    seed: int
    loss: Loss
    metrics: Sequence[str | Metric]
    progress: bool
    on_round: Callable[[Record], None] | None
    callback: Callback | None
    device: str | torch.device
    wire: str | Wire | None
    speeds: Sequence[float] | None
    validation: Any
    patience: int | None
    target_accuracy: float | None
    eval_every: int
    diagnose: bool
    augment: str | Augment | None
    workers: Workers | None
    executor: str
    threads: int
    precision: str
    compile: bool
    server_threads: int
    memory_limit: int | str | None
    clock: str | Timing
    client_tests: Sequence[Any] | None
    client_names: Sequence[str] | None

    def __post_init__(self) -> None:
        for name, setting in TRAIN_ARGUMENTS.items():
            assert setting.argument
            setting.argument(name, getattr(self, name))
        check_flag("progress", self.progress)
        if self.on_round is not None and not callable(self.on_round):
            refuse("on_round", self.on_round, "a function of one smofi.Record, or None")
        if self.callback is not None and not callable(self.callback):
            refuse("callback", self.callback, "a function of one smofi.Event, or None")
        if not callable(self.loss) or isinstance(self.loss, type):
            refuse("loss", self.loss, "a function of (outputs, targets), such as nn.CrossEntropyLoss()")
        if self.workers is not None and not isinstance(getattr(self.workers, "rank", None), int):
            refuse("workers", self.workers, "what smofi.joined() returns in a program started by torchrun, or None")
        pair = isinstance(self.clients, (tuple, list)) and len(self.clients) == 2 and hasattr(self.clients[0], "dtype")
        if not isinstance(self.clients, Sequence) or isinstance(self.clients, str) or not self.clients or pair:
            example = "[source.train[part] for part in parts] or [(inputs, targets)]"
            refuse("clients", self.clients, f"a list with one entry per client, such as {example}")
        for name in ("client_tests", "client_names"):
            given = getattr(self, name)
            listed = isinstance(given, Sequence) and not isinstance(given, str)
            if given is not None and not (listed and len(given) == len(self.clients)):
                raise InputError(
                    f"{name} is not accepted: expected a list with one entry for each of the clients, or None"
                )
        if len(names := list(map(str, self.client_names or ()))) > len(set(names)):
            refuse("client_names", names, "a name of its own for each client")
        if self.patience is not None and self.validation is None:
            refuse("patience", self.patience, "validation data as well, or None")

    # What strings stand for:

    @cached_property
    def method_value(self) -> Method:
        return parse_method(self.method) if isinstance(self.method, str) else self.method

    @cached_property
    def optimizer_value(self) -> Optimizer:
        """Return the optimizer, with Nesterov's look-ahead where the method uses it."""
        value = parse_optimizer(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return value.with_nesterov() if self.method_value.nesterov else value

    @cached_property
    def wire_value(self) -> Wire | None:
        return wire_named(self.wire) if isinstance(self.wire, str) else self.wire

    @cached_property
    def augment_value(self) -> Augment | None:
        return parse_augment(self.augment) if isinstance(self.augment, str) else self.augment

    @cached_property
    def timing(self) -> Timing:
        return Timing(self.clock) if isinstance(self.clock, str) else self.clock

    @property
    def callback_value(self) -> Callback | None:
        """Return what is called with every event: `callback`, and `on_round` where a round is done."""
        on_round, callback = self.on_round, self.callback
        if on_round is None:
            return callback

        def both(event: Event) -> None:
            if callback is not None:
                callback(event)
            if isinstance(event, RoundDone):
                on_round(event.record)

        return both

    def cast_on(self, device: torch.device) -> Cast:
        """Return the precision of passes on this device."""
        return nullcontext if self.precision == "float32" else partial(torch.autocast, device.type, torch.bfloat16)


# --------------------------------------------------------------------------------------------------------------------
# A caller's data as samples that the engine reads.


def as_samples(data: Any, name: str, dtype: torch.dtype, device: torch.device) -> Samples:
    """Wrap a pair of tensors or a map-style Dataset, or leave samples as they are; `name` is what an error calls them.

    >>> len(as_samples((torch.zeros(3, 2), torch.zeros(3)), "clients[0]", torch.float32, torch.device("cpu")))
    3
    """
    if isinstance(data, TensorSamples):
        return data.to(dtype, device)
    if isinstance(data, DatasetSamples):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(p, (Tensor, np.ndarray)) for p in data):
        try:
            inputs, targets = (torch.as_tensor(values) for values in data)
        except TypeError as error:  # an array of words or of objects
            raise InputError(f"{name} is not accepted: expected numbers in both tensors: {error}") from None
        if not (targets.is_floating_point() or targets.is_complex() or targets.dtype in (torch.uint8, torch.bool)):
            targets = targets.long()  # as torch's losses take classes
        if not inputs.dim() or not targets.dim() or len(inputs) != len(targets):
            shapes = f"inputs of shape {tuple(inputs.shape)} and targets of shape {tuple(targets.shape)}"
            raise InputError(f"{name} is not accepted: expected as many inputs as targets, but it has {shapes}")
        return TensorSamples.of(inputs, targets).to(dtype, device)
    lists = isinstance(data, tuple) and all(isinstance(values, list) for values in data)
    sized = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if sized and not lists and not isinstance(data, (str, dict, Tensor)):
        try:
            return DatasetSamples(data, dtype, device)
        except (TypeError, LookupError) as error:
            raise InputError(f"{name} is not accepted: expected (input, target) pairs: {error}") from error
    raise InputError(
        f"{name} is not accepted: expected a pair of tensors (inputs, targets), a map-style Dataset or samples such as "
        f"source.train, not {type(data).__name__}"
    )
