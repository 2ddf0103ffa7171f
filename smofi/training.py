"""The Python call: `smofi.train(model, clients, test, method="smofi", ...)`."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ParamSpec

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from smofi.clock import Timing, start_clock
from smofi.clock.costs import StepCosts
from smofi.cut import CutSpec, parse_cut
from smofi.data.augment import Augment, parse_augment
from smofi.data.mix import mixes
from smofi.data.samples import Samples, as_samples
from smofi.engine.at_once.choice import MOST_AT_ONCE
from smofi.engine.at_once.executor import EXECUTORS, choose
from smofi.engine.check import check_device, check_plan, check_samples, check_speeds, try_evaluation, try_step
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.split import Cast, Loss, Wire
from smofi.engine.cohort.wire import COMPRESSIONS, Compression
from smofi.engine.cpu.freed_memory import keep_freed_memory
from smofi.engine.cpu.quicken import quicken
from smofi.engine.diagnostics import Diagnostics
from smofi.engine.evaluate import Evaluator, Metric
from smofi.engine.events import Callback, Record
from smofi.engine.memory.limit import most_at_once, parse_bytes
from smofi.engine.plan import Planner
from smofi.engine.processes.crew import Crew
from smofi.engine.run import Run
from smofi.engine.state import GlobalState
from smofi.engine.stopping import Stopping
from smofi.errors import check_choice, check_count, check_flag, check_number, refuse
from smofi.flat import Layout, shell
from smofi.method import Method
from smofi.methods import parse_method
from smofi.models.costs import costs
from smofi.models.dropout import seeded
from smofi.optim import Optimizer, parse_optimizer, sgd

Settings = ParamSpec("Settings")

PRECISIONS = ("float32", "bf16")
"""Of forward and backward passes; "float32" leaves a model of another type as it is."""


@dataclass(frozen=True)
class Result:
    """What a run gives back. `stopped` says why it ended early, None if it ran to the end."""

    model: nn.Module
    history: list[Record]
    stopped: str | None = None
    diverged: bool = False
    interrupted: bool = False


@dataclass(frozen=True)
class Session:
    """A run that is checked and ready: whatever could be refused has been refused."""

    model: nn.Module
    layout: Layout
    run: Run

    def train(self) -> Result:
        """All rounds, one after the other."""
        self.run.train()
        return self.result()

    def result(self) -> Result:
        """What there is by now."""
        run, trained = self.run, copy.deepcopy(self.model)
        self.layout.unpack(trained, run.state.weights, run.state.statistics)
        return Result(trained, list(run.history), run.stopped, run.diverged, run.cut_short)


def prepare(
    model: nn.Sequential,
    clients: Sequence[Any],
    test: Any = None,
    *,
    method: str | Method = "smofi",
    optimizer: str | Optimizer = sgd(lr=0.05, momentum=0.9),
    cut: CutSpec = 1,
    rounds: int = 50,
    participation: float = 0.2,
    local_epochs: int = 5,
    batch_size: int = 32,
    seed: int = 0,
    loss: Loss = cross_entropy,
    metrics: Sequence[str | Metric] = ("top1",),
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
    crew: Crew | None = None,
    executor: str = "loop",
    precision: str = "float32",
    compile: bool = False,
    memory_limit: int | str | None = None,
    clock: str | Timing = "none",
) -> Session:
    """Train one model on the data of many clients, split between them and a server.

    `smofi.prepare` checks everything and returns a Session; `smofi.train` takes the same arguments and trains it too.

    model           an `nn.Sequential` of blocks: input block, core blocks, output block. It is not changed.
    clients         a pair of tensors (inputs, targets) or a map-style Dataset per client
    test            the same for the test data; without it nothing is evaluated
    method          "smofi", "fedprox(mu=0.01)+smofi", or a value such as `smofi.methods.smofi(alpha=-1)`
    optimizer       `smofi.sgd`, `smofi.adam` or `smofi.adamw`, or such a call as a string
    cut             core blocks on the client; (L, H) for the U shape; "0-3" drawn each round; a list, one per client
    participation   the share of clients in a round
    loss, metrics   of (outputs, targets); metrics also by name: top1, macro_f1, per_client, worst_client
    callback        sees every event of `smofi.engine.events`
    wire            a function of (tensor, "up" or "down", client) that everything crossing the cut passes through;
                    giving one executes the split for real, with separate autograd graphs on each side; or "float16",
                    "bf16" or "int8", to send numbers with fewer bits
    speeds          relative speed of each client, by which MergeSFL sizes batches; equal if not given
    validation      data held out to decide when to stop: after `patience` rounds without a better accuracy on it, or at
                    `target_accuracy` (on the test data, if there is no validation data)
    eval_every      rounds from one evaluation to the next; the last round has one in any case
    augment         vary training images, as "crop(4)+flip": shifted by up to 4 pixels, half of them mirrored
    crew            the processes that share the work, from `smofi.joined()` under torchrun; this one alone if not given
    executor        "loop": client by client; "vmap": many at once; "auto": whichever a quick measurement favours
    precision       "bf16" computes forward and backward passes in mixed precision; weights stay as they are
    compile         compile the model with `torch.compile`
    memory_limit    as "2GB": compute fewer clients at once to stay below it, and refuse what cannot
    clock           virtual time on the clients' devices: "paper", "full", or a `smofi.Timing` that says more
    diagnose        also record why a method helps: how far clients diverge, how well their momenta agree, ...

    >>> x, y = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 2))
    >>> result = train(model, [(x[:40], y[:40]), (x[40:], y[40:])], (x, y), rounds=2, participation=1.0, batch_size=8)
    >>> [record.steps for record in result.history]
    [[25, 15], [25, 15]]
    """
    counts = {"rounds": rounds, "local_epochs": local_epochs, "batch_size": batch_size, "eval_every": eval_every}
    for name, count in counts.items():
        check_count(name, count)
    check_count("seed", seed, low=0)
    check_choice("executor", executor, EXECUTORS)
    if memory_limit is not None:
        parse_bytes("memory_limit", memory_limit)
    check_number("participation", participation, above=0, high=1)
    stopping = _stopping(patience, target_accuracy, validation is not None)
    home = check_device(device)
    cast = _cast(precision, home)
    method, optimizer = _resolve(method, optimizer)
    if callback is not None and not callable(callback):
        refuse("callback", callback, "a function of one event, or None")
    if not isinstance(clients, Sequence) or not clients:
        refuse("clients", clients, "a list of at least one client")
    layout = Layout.of(model)
    samples = [as_samples(data, f"clients[{i}]", layout.dtype, home) for i, data in enumerate(clients)]
    tested, validated = (_held_out(*named, layout, home) for named in (("test", test), ("validation", validation)))
    wire = _as_wire(wire)
    planner = make_planner(
        model,
        layout,
        samples,
        method,
        optimizer,
        cut=cut,
        participation=participation,
        local_epochs=local_epochs,
        batch_size=batch_size,
        seed=seed,
        speeds=speeds,
        precision=precision,
        wire=wire,
        clock=clock,
    )
    check_plan(planner, cut)
    _check_compile(compile, planner, wire)
    plain = copy.deepcopy(model).to(home)
    keep_freed_memory()
    template = quicken(seeded(shell(plain)))
    state = GlobalState.of(template, layout, method, optimizer, home)
    judged = shell(template)
    layout.bind(judged, state.weights.__getitem__, state.statistics.__getitem__)
    evaluator = Evaluator(judged, loss, metrics, tested, samples, validated, crew=crew)
    first = planner.eligible[0]
    outputs = try_evaluation(evaluator, samples[first], f"clients[{first}]")
    check_samples(samples, {"test": tested, "validation": validated}, loss, outputs)
    for name, held_out in (("test", tested), ("validation", validated)):
        if held_out is not None:
            try_evaluation(evaluator, held_out, name)
    varied = parse_augment(augment) if isinstance(augment, str) else augment
    try_step(template, layout, state, planner, samples, loss, varied)
    if diagnose and crew and crew.size > 1:
        refuse("diagnose", diagnose, f"False with {crew.size} workers: it compares all clients in one process")
    diagnostics = Diagnostics() if diagnose else None
    cohort = SimulatedCohort(
        template, layout, state, method, optimizer, samples, loss, wire, diagnostics, varied, crew, cast, compile
    )
    planner.plan(0)  # somebody will be there
    most = MOST_AT_ONCE
    if memory_limit is not None:
        most = most_at_once(memory_limit, cohort, planner, evaluator, rounds, most)
    cohort.choice = choose(executor, cohort, planner.intended(0, planner.eligible), most)
    run = Run(cohort, planner, state, evaluator, stopping, rounds, callback, crew, eval_every)
    return Session(plain, layout, run)


def make_planner(
    model: nn.Sequential,
    layout: Layout,
    samples: Sequence[Samples],
    method: Method,
    optimizer: Optimizer,
    *,
    cut: CutSpec,
    participation: float,
    local_epochs: int,
    batch_size: int,
    seed: int,
    speeds: Sequence[float] | None = None,
    precision: str = "float32",
    wire: str | Wire | None = None,
    clock: str | Timing = "none",
) -> Planner:
    """What plans the rounds of a run, from the arguments of `prepare`; nothing that trains is needed for it."""
    planner = Planner(
        sizes=[len(client) for client in samples],
        participation=participation,
        batch_size=batch_size,
        local_epochs=local_epochs,
        seed=seed,
        cuts=parse_cut(cut, layout, len(samples)),
        method=method,
        lr=optimizer.lr,
        lr_decay=optimizer.lr_decay,
        speeds=check_speeds(speeds, len(samples)),
    )
    timing, wire = Timing(clock) if isinstance(clock, str) else clock, _as_wire(wire)
    if not isinstance(timing, Timing):
        refuse("clock", clock, '"none", "paper", "full", or a smofi.Timing')
    width = wire.width if isinstance(wire, Compression) else 0
    overhead = wire.overhead if isinstance(wire, Compression) else 0
    return _with_devices(
        planner, model, layout, samples, timing, optimizer, (width, overhead), _cast(precision, torch.device("cpu"))
    )


def _with_devices(
    planner: Planner,
    model: nn.Sequential,
    layout: Layout,
    samples: Sequence[Samples],
    timing: Timing,
    optimizer: Optimizer,
    crossing: tuple[int, int],
    cast: Cast,
) -> Planner:
    """The planner with a clock, if there is to be one, and with all that a method needs to know to select clients.
    `crossing` are the bytes of a number that crosses the cut, 0 for as many as it has, and those that every sample
    takes beside them."""
    method = planner.method
    if timing.clock == "none" and not method.select:
        return planner
    first = samples[planner.eligible[0] if planner.eligible else 0]
    inputs, _ = first.batch(torch.zeros(1, dtype=torch.int64))
    counted = costs(model, inputs.shape[1:], tokens=not inputs.is_floating_point(), cast=cast)
    clock = start_clock(timing, counted, layout, len(samples), planner.seed, method, optimizer, *crossing)
    if not method.select:
        return replace(planner, clock=clock)
    counts = mixes([client.targets(torch.arange(len(client))) for client in samples])
    return replace(
        planner,
        clock=clock,
        class_counts=counts.__getitem__,
        sample_bytes=lambda cut: StepCosts.of(counted, cut, *crossing).there,
    )


def _resolve(method: str | Method, optimizer: str | Optimizer) -> tuple[Method, Optimizer]:
    """Method and optimizer as values, the optimizer as the method wants it."""
    method = parse_method(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        refuse("method", method, 'a string such as "smofi" or a value such as smofi.methods.smofi()')
    optimizer = parse_optimizer(optimizer) if isinstance(optimizer, str) else optimizer
    if not isinstance(optimizer, Optimizer):
        refuse("optimizer", optimizer, "a string or a value such as smofi.sgd(lr=0.05, momentum=0.9)")
    return method, optimizer.with_nesterov() if method.nesterov else optimizer


def _as_wire(wire: str | Wire | None) -> Wire | None:
    return COMPRESSIONS[check_choice("wire", wire, COMPRESSIONS)] if isinstance(wire, str) else wire


def _check_compile(compile: bool, planner: Planner, wire: Wire | None) -> None:
    u_shaped = any(cut.u_shaped for cut in planner.cuts.options)
    if check_flag("compile", compile) and (wire or u_shaped or planner.method.where.one_server):
        refuse(
            "compile", compile, "False where a split is executed for real: with a wire, a U shape, sflv2 or mergesfl"
        )


def _cast(precision: str, device: torch.device) -> Cast:
    if check_choice("precision", precision, PRECISIONS) == "float32":
        return nullcontext
    return partial(torch.autocast, device.type, torch.bfloat16)


def _held_out(name: str, data: Any, layout: Layout, device: torch.device) -> Samples | None:
    samples = None if data is None else as_samples(data, name, layout.dtype, device)
    if samples is not None and not len(samples):
        refuse(name, data, "at least one sample, or None")
    return samples


def _stopping(patience: int | None, target_accuracy: float | None, validated: bool) -> Stopping:
    if patience is not None:
        check_count("patience", patience)
        if not validated:
            refuse("patience", patience, "validation data along with it, or None")
    if target_accuracy is not None:
        check_number("target_accuracy", target_accuracy, above=0, high=1)
    return Stopping(patience, target_accuracy)


def _and_train(prepare: Callable[Settings, Session]) -> Callable[Settings, Result]:
    @functools.wraps(prepare)
    def train(*args: Settings.args, **kwargs: Settings.kwargs) -> Result:
        return prepare(*args, **kwargs).train()

    train.__name__ = train.__qualname__ = "train"
    return train


train = _and_train(prepare)
