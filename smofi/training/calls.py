"""`smofi.train` and `smofi.prepare`: from arguments to a run that is checked before any work starts."""

from __future__ import annotations

import copy
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from smofi.clock import Timing, start_clock
from smofi.clock.clock import AS_COMPUTED, SentBytes, StepCosts
from smofi.config.settings import TRAIN_ARGUMENTS
from smofi.cut import CutSpec, parse_cut
from smofi.data.augment import Augment
from smofi.data.partitions import mixes
from smofi.data.samples import Samples
from smofi.engine.assembly import Resources, RunData, RunLength, assemble, template_of
from smofi.engine.check import check_device, check_plan, check_speeds
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.wire import Compression
from smofi.engine.cpu.threads import in_threads
from smofi.engine.evaluate import Metric
from smofi.engine.events import Callback, Record
from smofi.engine.passes import Loss, Passes, Wire
from smofi.engine.plan import Planner, RoundSettings
from smofi.engine.processes.workers import Workers
from smofi.engine.stopping import Stopping
from smofi.errors import refuse
from smofi.flat import Layout
from smofi.method import Method
from smofi.models.costing import Costs, costs
from smofi.optim import DEFAULT_OPTIMIZER, Optimizer
from smofi.training.arguments import HELP, Arguments, as_samples
from smofi.training.session import Result, Session

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


def taking_what(function: Callable[Given, Any]) -> Callable[[Callable[..., Made]], Callable[Given, Made]]:
    """Tell type checkers that a function takes the arguments of another."""
    return lambda decorated: decorated


@taking_what(train)
def arguments_of(*args: Any, **given: Any) -> Arguments:
    """Return the arguments of `smofi.train`, checked, with its defaults where none is given."""
    bound = inspect.signature(train).bind(*args, **given)
    bound.apply_defaults()
    return Arguments(**bound.arguments)


@taking_what(train)
def prepare(*args: Any, **given: Any) -> Session:
    """Check everything and return a Session, ready to train; it takes the arguments of `smofi.train`, which is
    `smofi.prepare(...).train()`.
    """
    arguments = arguments_of(*args, **given)
    with in_threads(arguments.threads):
        return _session(arguments)


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
# From arguments to a run: everything is checked before any work starts.


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
    tests = arguments.client_tests
    run = assemble(
        setup,
        RunData(
            clients,
            test,
            validation,
            arguments.augment_value,
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
    model_costs = _model_costs(asked, samples[planner.eligible[0] if planner.eligible else 0])
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


def _model_costs(asked: Arguments, samples: Samples) -> Costs:
    inputs, _ = samples.batch(torch.zeros(1, dtype=torch.int64))
    cast = asked.cast_on(torch.device("cpu"))
    return costs(asked.model, inputs.shape[1:], tokens=not inputs.is_floating_point(), cast=cast)
