"""What `smofi.train` and `smofi.prepare` take, defined once for both."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property, partial, wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from smofi.clock import Timing
from smofi.cut import CutSpec
from smofi.data.augment import Augment, parse_augment
from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.engine.evaluate import Metric
from smofi.engine.events import Callback
from smofi.engine.passes import Cast, Loss, Wire
from smofi.engine.processes.workers import Workers
from smofi.errors import InputError, refuse
from smofi.method import Method
from smofi.methods import parse_method
from smofi.optim import DEFAULT_OPTIMIZER, Optimizer, parse_optimizer
from smofi.settings import TRAIN_ARGUMENTS

Given = ParamSpec("Given")
Made = TypeVar("Made")

HELP = {
    "model": "an `nn.Sequential` of blocks: input block, core blocks, output block. It is not changed.",
    "clients": "a pair of tensors (inputs, targets) or a map-style Dataset per client",
    "test": "the same for the test data; without it nothing is evaluated",
    "client_tests": "the test data of each client, None for one without, for the metrics per_client and worst_client",
    "client_names": "what clients are called in per_client and in messages; numbers, if not given",
    "loss": "a function of (outputs, targets)",
    "callback": "a function that is called with every `smofi.Event`",
    "speeds": "relative speed of each client, by which MergeSFL sizes batches; equal if not given",
    "validation": "data held out to decide when to stop, by `patience` or `target_accuracy`",
    "workers": "the processes that share the work, from `smofi.joined()` under torchrun; this one alone if not given",
}
"""The arguments that are not settings."""


@dataclass(frozen=True, eq=False)
class Arguments:
    """The arguments of `smofi.train`, each checked by itself. `smofi.settings` says what they mean, or `HELP` here."""

    model: nn.Sequential
    clients: Sequence[Any]
    test: Any = None
    _: KW_ONLY
    method: str | Method = "smofi"
    optimizer: str | Optimizer = DEFAULT_OPTIMIZER
    cut: CutSpec = 1
    rounds: int = 50
    participation: float = 0.2
    local_epochs: int = 5
    batch_size: int = 32
    seed: int = 0
    loss: Loss = cross_entropy
    metrics: Sequence[str | Metric] = ("top1",)
    callback: Callback | None = None
    device: str | torch.device = "cpu"
    wire: str | Wire | None = None
    speeds: Sequence[float] | None = None
    validation: Any = None
    patience: int | None = None
    target_accuracy: float | None = None
    eval_every: int = 1
    diagnose: bool = False
    augment: str | Augment | None = None
    workers: Workers | None = None
    executor: str = "loop"
    precision: str = "float32"
    compile: bool = False
    server_threads: int = 1
    memory_limit: int | str | None = None
    clock: str | Timing = "none"
    client_tests: Sequence[Any] | None = None
    client_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, setting in TRAIN_ARGUMENTS.items():
            setting.check_argument(name, getattr(self, name))
        if self.callback is not None and not callable(self.callback):
            refuse("callback", self.callback, "a function of one event, or None")
        if not isinstance(self.clients, Sequence) or not self.clients:
            refuse("clients", self.clients, "a list of at least one client")
        for name in ("client_tests", "client_names"):
            given = getattr(self, name)
            if given is not None and (not isinstance(given, Sequence) or len(given) != len(self.clients)):
                raise InputError(
                    f"{name} is not accepted: expected a list with one entry for each of the clients, or None"
                )
        if len(names := list(map(str, self.client_names or ()))) > len(set(names)):
            refuse("client_names", names, "a name of its own for each client")
        if self.patience is not None and self.validation is None:
            refuse("patience", self.patience, "validation data with it, or None")

    # What strings stand for:

    @cached_property
    def method_value(self) -> Method:
        return parse_method(self.method) if isinstance(self.method, str) else self.method

    @cached_property
    def optimizer_value(self) -> Optimizer:
        """The optimizer, with Nesterov's look-ahead where the method uses it."""
        value = parse_optimizer(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return value.with_nesterov() if self.method_value.nesterov else value

    @cached_property
    def wire_value(self) -> Wire | None:
        return COMPRESSIONS[self.wire] if isinstance(self.wire, str) else self.wire

    @cached_property
    def augment_value(self) -> Augment | None:
        return parse_augment(self.augment) if isinstance(self.augment, str) else self.augment

    @cached_property
    def timing(self) -> Timing:
        return Timing(self.clock) if isinstance(self.clock, str) else self.clock

    def cast_on(self, device: torch.device) -> Cast:
        """The precision of passes on this device."""
        return nullcontext if self.precision == "float32" else partial(torch.autocast, device.type, torch.bfloat16)


def describe_arguments() -> str:
    """A line or two on every argument, for `help(smofi.train)`.

    >>> describe_arguments().splitlines()[1]
    'clients          a pair of tensors (inputs, targets) or a map-style Dataset per client'
    """
    helps = HELP | {name: setting.argument_help for name, setting in TRAIN_ARGUMENTS.items()}
    width = 2 + max(map(len, helps))
    wrapped = partial(textwrap.wrap, width=112 - width)
    return "\n".join(
        f"{name if not number else '':{width}}{line}"
        for name in (one.name for one in fields(Arguments))
        for number, line in enumerate(wrapped(helps[name]))
    )


def taking(
    make: Callable[Given, Arguments],
) -> Callable[[Callable[[Arguments], Made]], Callable[Given, Made]]:
    """Turns a function of Arguments into one that takes them one by one; `{arguments}` in its docstring lists them."""

    def turn(function: Callable[[Arguments], Made]) -> Callable[Given, Made]:
        result = get_type_hints(function)["return"]
        signature = inspect.signature(make).replace(return_annotation=result)

        @wraps(function)
        def turned(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            signature.bind(*args, **kwargs)  # names an argument that does not exist
            return function(make(*args, **kwargs))

        shown: Any = turned
        del shown.__wrapped__
        shown.__signature__ = signature
        shown.__annotations__ = {**get_type_hints(make.__init__), "return": result}
        shown.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{arguments}", describe_arguments())
        return turned

    return turn
