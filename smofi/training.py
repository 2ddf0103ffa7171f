"""The Python call, `smofi.train(model, clients, test, method="smofi", ...)`: checked, trained, shown, interrupted."""

from __future__ import annotations

import copy
import inspect
import signal
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import FrameType, SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi.clock import Timing, start_clock
from smofi.clock.clock import AS_COMPUTED, SentBytes, StepCosts
from smofi.config.settings import TRAIN_ARGUMENTS
from smofi.cut import CutSpec, parse_cut
from smofi.data.augment import Augment, parse_augment
from smofi.data.partitions import mixes
from smofi.data.samples import DatasetSamples, Samples, TensorSamples
from smofi.engine.assembly import Resources, RunData, RunLength, assemble, template_of
from smofi.engine.check import check_device, check_plan, check_speeds
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.wire import Compression, wire_named
from smofi.engine.cpu.threads import in_threads
from smofi.engine.evaluate import Metric
from smofi.engine.events import Callback, Event, Record, RoundDone, TickDone
from smofi.engine.metrics import USUAL
from smofi.engine.passes import Cast, Loss, Passes, Wire
from smofi.engine.plan import Planner, RoundSettings
from smofi.engine.processes.endings import in_turn
from smofi.engine.processes.workers import Workers
from smofi.engine.run import Run
from smofi.engine.stopping import Stopping
from smofi.errors import InputError, TrainingWarning, check_flag, refuse
from smofi.flat import Layout
from smofi.method import Method
from smofi.methods import parse_method
from smofi.models.costing import costs
from smofi.optim import DEFAULT_OPTIMIZER, Optimizer, parse_optimizer

# --------------------------------------------------------------------------------------------------------------------
# The two calls: their signature, their help, and what they do.


def train(
    model: nn.Sequential,
    clients: Sequence[Any],
    test: Any = None,
    *,
    method: str | Method = "smofi",
    optimizer: str | Optimizer = DEFAULT_OPTIMIZER,
    cut: CutSpec = 1,
    rounds: int = 50,
    participation: float = 0.2,
    local_epochs: int = 5,
    batch_size: int = 32,
    seed: int = 0,
    loss: Loss = cross_entropy,
    metrics: Sequence[str | Metric] = ("top1",),
    progress: bool = False,
    on_round: Callable[[Record], None] | None = None,
    callback: Callback | None = None,
    device: str | torch.device = "cpu",
    wire: str | Wire | None = None,
    speeds: Sequence[float] | None = None,
    validation: Any = None,
    patience: int | None = None,
    target_accuracy: float | None = None,
    eval_every: int = 1,
    diagnose: bool = False,
    augment: str | Augment | None = None,
    workers: Workers | None = None,
    executor: str = "loop",
    threads: int = 1,
    precision: str = "float32",
    compile: bool = False,
    server_threads: int = 1,
    memory_limit: int | str | None = None,
    clock: str | Timing = "none",
    client_tests: Sequence[Any] | None = None,
    client_names: Sequence[str] | None = None,
) -> Result:
    """Train one model on the data of many clients, split between them and a server.

    {arguments}

    The result has the trained `model`, in eval mode, and the `history`, a `smofi.Record` per round. Ctrl-C ends the run
    after the current round: the result then has what there is, and `interrupted` is True. A second Ctrl-C raises
    KeyboardInterrupt at once.

    >>> x, y = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 2))
    >>> result = train(model, [(x[:40], y[:40]), (x[40:], y[40:])], (x, y), rounds=2, participation=1.0, batch_size=8)
    >>> [record.steps for record in result.history]
    [[25, 15], [25, 15]]
    """
    return prepare(**locals()).train()


Given = ParamSpec("Given")
Made = TypeVar("Made")


def _taking_what(function: Callable[Given, Any]) -> Callable[[Callable[..., Made]], Callable[Given, Made]]:
    """Tell type checkers that a function takes the arguments of another."""
    return lambda decorated: decorated


@_taking_what(train)
def prepare(*args: Any, **given: Any) -> Session:
    """Check everything and return a Session, ready to train; it takes the arguments of `smofi.train`, which is
    `smofi.prepare(...).train()`.
    """
    arguments = arguments_of(*args, **given)
    with in_threads(arguments.threads):
        return _session(arguments)


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


def _describe_arguments() -> str:
    helps = HELP | {name: setting.argument_help or setting.help for name, setting in TRAIN_ARGUMENTS.items()}
    width = 2 + max(map(len, helps))
    return "\n    ".join(
        f"{name if not number else '':{width}}{line}"
        for name in inspect.signature(train).parameters
        for number, line in enumerate(textwrap.wrap(helps[name], width=112 - width))
    )


train.__doc__ = (train.__doc__ or "").replace("{arguments}", _describe_arguments())


# --------------------------------------------------------------------------------------------------------------------
# The arguments, each checked by itself, and a caller's data as samples.


class Arguments(SimpleNamespace):
    """The arguments of `smofi.train`, whose signature has their types and defaults."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, setting in TRAIN_ARGUMENTS.items():
            assert setting.argument
            setting.argument(name, given[name])
        check_flag("progress", self.progress)
        if self.on_round is not None and not callable(self.on_round):
            refuse("on_round", self.on_round, "a function of one smofi.Record, or None")
        if self.callback is not None and not callable(self.callback):
            refuse("callback", self.callback, "a function of one smofi.Event, or None")
        if not callable(self.loss) or isinstance(self.loss, type):
            refuse("loss", self.loss, "a function of (outputs, targets), such as nn.CrossEntropyLoss()")
        if self.workers is not None and not isinstance(getattr(self.workers, "rank", None), int):
            refuse("workers", self.workers, "what smofi.joined() returns in a program started by torchrun, or None")
        clients = self.clients
        pair = isinstance(clients, (tuple, list)) and len(clients) == 2 and hasattr(clients[0], "dtype")
        if not isinstance(clients, Sequence) or isinstance(clients, str) or not clients or pair:
            example = "[source.train[part] for part in parts] or [(inputs, targets)]"
            refuse("clients", clients, f"a list with one entry per client, such as {example}")
        for name in ("client_tests", "client_names"):
            listed = isinstance(given[name], Sequence) and not isinstance(given[name], str)
            if given[name] is not None and not (listed and len(given[name]) == len(clients)):
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
        given: str | Method = self.method
        return parse_method(given) if isinstance(given, str) else given

    @cached_property
    def optimizer_value(self) -> Optimizer:
        """Return the optimizer, with Nesterov's look-ahead where the method uses it."""
        given: str | Optimizer = self.optimizer
        value = parse_optimizer(given) if isinstance(given, str) else given
        return value.with_nesterov() if self.method_value.nesterov else value

    @cached_property
    def wire_value(self) -> Wire | None:
        given: str | Wire | None = self.wire
        return wire_named(given) if isinstance(given, str) else given

    @cached_property
    def timing(self) -> Timing:
        given: str | Timing = self.clock
        return Timing(given) if isinstance(given, str) else given

    @property
    def callback_value(self) -> Callback | None:
        """Return what is called with every event: `callback`, and `on_round` where a round is done."""
        on_round: Callable[[Record], None] | None = self.on_round
        callback: Callback | None = self.callback
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


@_taking_what(train)
def arguments_of(*args: Any, **given: Any) -> Arguments:
    """Return the arguments of `smofi.train`, checked, with its defaults where none is given."""
    bound = inspect.signature(train).bind(*args, **given)
    bound.apply_defaults()
    return Arguments(**bound.arguments)


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


# --------------------------------------------------------------------------------------------------------------------
# From arguments to a run.


def _session(arguments: Arguments) -> Session:
    device = check_device(arguments.device)
    layout = Layout.of(arguments.model)

    def samples(data: Any, name: str) -> Samples | None:
        return None if data is None else as_samples(data, name, layout.dtype, device)

    def held_out(name: str, data: Any) -> Samples | None:
        found = samples(data, name)
        if found is not None and not len(found):
            refuse(name, data, "at least one sample, or None")
        return found

    clients = [as_samples(data, f"clients[{i}]", layout.dtype, device) for i, data in enumerate(arguments.clients)]
    test, validation = held_out("test", arguments.test), held_out("validation", arguments.validation)
    planner = make_planner(arguments, layout, clients)
    check_plan(planner, arguments.cut)
    u_shaped = any(cut.u_shaped for cut in planner.cuts.options)
    if arguments.compile and (arguments.wire_value or u_shaped or planner.method.where.one_server):
        accepted = "False where a split is executed for real: with a wire, a U shape, sflv2 or mergesfl"
        refuse("compile", arguments.compile, accepted)
    model = copy.deepcopy(arguments.model).to(device)
    setup = Setup(
        template_of(model),
        layout,
        arguments.method_value,
        arguments.optimizer_value,
        arguments.loss,
        arguments.wire_value,
        Passes(arguments.cast_on(device), arguments.compile, arguments.server_threads),
    )
    tests, augment = arguments.client_tests, arguments.augment
    run = assemble(
        setup,
        RunData(
            clients,
            test,
            validation,
            parse_augment(augment) if isinstance(augment, str) else augment,
            None if tests is None else [samples(data, f"client_tests[{i}]") for i, data in enumerate(tests)],
            tuple(map(str, arguments.client_names or ())),
        ),
        planner,
        RunLength(
            arguments.rounds,
            arguments.eval_every,
            arguments.metrics,
            Stopping(arguments.patience, arguments.target_accuracy),
            arguments.callback_value,
        ),
        Resources(arguments.workers, arguments.executor, arguments.memory_limit, arguments.diagnose),
    )
    return Session(model, layout, run, arguments.threads, arguments.progress)


def make_planner(asked: Arguments, layout: Layout, samples: Sequence[Samples]) -> Planner:
    """Return what plans the rounds of a run on these samples, one entry per client; nothing that trains is needed."""
    method, optimizer = asked.method_value, asked.optimizer_value
    planner = Planner(
        sizes=[len(client) for client in samples],
        cuts=parse_cut(asked.cut, layout, len(samples)),
        method=method,
        settings=RoundSettings(
            asked.seed, asked.participation, asked.local_epochs, asked.batch_size, optimizer.lr, optimizer.lr_decay
        ),
        speeds=check_speeds(asked.speeds, len(samples)),
    )
    if asked.timing.clock == "none" and not method.select:
        return planner
    wire = asked.wire_value
    sent = SentBytes(wire.width, wire.overhead) if isinstance(wire, Compression) else AS_COMPUTED
    inputs, _ = samples[planner.eligible[0] if planner.eligible else 0].batch(torch.zeros(1, dtype=torch.int64))
    cast = asked.cast_on(torch.device("cpu"))
    model_costs = costs(asked.model, inputs.shape[1:], tokens=not inputs.is_floating_point(), cast=cast)
    timekeeper = start_clock(asked.timing, model_costs, layout, len(samples), asked.seed, method, optimizer, sent)
    if not method.select:
        return replace(planner, clock=timekeeper)
    class_counts = mixes([client.targets(torch.arange(len(client))) for client in samples])
    return replace(
        planner,
        clock=timekeeper,
        class_counts=class_counts.__getitem__,
        sample_bytes=lambda cut: StepCosts.of(model_costs, cut, sent).activation,
    )


# --------------------------------------------------------------------------------------------------------------------
# While a run goes on: Ctrl-C ends it after the current round, and a display shows it.


@contextmanager
def finishing_the_round(run: Run) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the current round, and a second one raise KeyboardInterrupt at once.

    Only in the main thread, where Python hands out signals, and only where Ctrl-C would raise KeyboardInterrupt: what
    a program, or the `smofi` command, has decided about it stays as it is.
    """
    own_thread = threading.current_thread() is not threading.main_thread()
    if own_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    run.interrupted = run.cut_short = False  # an earlier one is no reason to stop again
    callback, announced = run.emit, False

    def interrupt(number: int, frame: FrameType | None) -> None:
        run.interrupt()

    def announce(event: Event) -> None:
        nonlocal announced
        callback(event)
        if run.interrupted and not announced and isinstance(event, TickDone):
            announced = True
            with suppress(TrainingWarning):  # where warnings are errors, this one would lose the round
                run.warn(f"interrupted: round {event.round} is finished first; interrupt again to stop at once")

    run.emit = announce
    leads = run.workers.rank == 0  # which tells further workers when to stop
    try:
        signal.signal(signal.SIGINT, in_turn(interrupt, signal.default_int_handler if leads else interrupt))
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run.emit = callback


@contextmanager
def shown(run: Run) -> Iterator[None]:
    """Send the run's events to a display as well as to its callback."""
    # The report stands above this room and is loaded only here, when it is asked for: pyproject.toml has the exception.
    from smofi.report.live import display

    callback = run.emit
    with warnings.catch_warnings(), display(run.planner.method.name, run.rounds) as live:
        warnings.simplefilter("ignore", TrainingWarning)  # the display shows the event that comes with it

        def both(event: Event) -> None:
            live(event)
            callback(event)

        run.emit = both
        try:
            yield
        finally:
            run.emit = callback


# --------------------------------------------------------------------------------------------------------------------
# A run that is ready to train, and what it gives back.


@dataclass(frozen=True)
class Result:
    """Give back a run: the trained `model`, in eval mode, and its `history`, a `smofi.Record` per round.

    `stopped` says why the run ended early, and is None if it ran to the end; `diverged` and `interrupted` (by Ctrl-C)
    tell two such reasons apart from having reached what was asked for. `metrics` says what people call each metric, the
    one that is judged first.

    >>> Result(nn.Linear(1, 1), [], "interrupted after round 0 of 5", interrupted=True)
    Result(0 rounds, interrupted after round 0 of 5)
    """

    model: nn.Module
    history: list[Record]
    stopped: str | None = None
    diverged: bool = False
    interrupted: bool = False
    metrics: Mapping[str, str] = field(default_factory=USUAL.copy)

    def __repr__(self) -> str:
        done = f"{len(self.history)} round{'s' * (len(self.history) != 1)}"
        measured = [
            f"{heading} {value:.4g} after round {record.round}"
            for record in [record for record in self.history if record.evaluated][-1:]
            for name, heading in self.metrics.items()
            if (value := record.value(name)) is not None
        ]
        return f"Result({', '.join([done, *measured[:1], *([self.stopped] if self.stopped else [])])})"


@dataclass(frozen=True)
class Session:
    """Hold a run that is checked and ready: whatever could be refused has been refused."""

    model: nn.Module
    layout: Layout
    run: Run
    threads: int = 1
    progress: bool = False

    def __repr__(self) -> str:
        run, clients = self.run, len(self.run.planner.sizes)
        about = f"{run.planner.method}, {clients} client{'s' * (clients != 1)}"
        return f"Session({about}, {len(run.history)} of {run.rounds} rounds done)"

    @property
    def executor(self) -> str:
        """Return how clients are computed, as it was decided: the `executor` that repeats it on any machine."""
        return self.run.simulation.execution.executor

    def train(self) -> Result:
        """Train all rounds, one after the other; after Ctrl-C, those that are left."""
        display = shown(self.run) if self.progress and self.run.workers.rank == 0 else nullcontext()
        with in_threads(self.threads), finishing_the_round(self.run), display:
            self.run.train()
        return self.result()

    def result(self) -> Result:
        """Return the result so far."""
        run, trained = self.run, copy.deepcopy(self.model).eval()
        self.layout.unpack(trained, run.state.weights, run.state.statistics)
        return Result(trained, list(run.history), run.stopped, run.diverged, run.cut_short, run.evaluator.headings)
