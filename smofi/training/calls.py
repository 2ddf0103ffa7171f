"""From arguments to a run: everything is checked before any work starts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from smofi.data.samples import Samples
from smofi.engine.assembly import Resources, RunData, RunLength, assemble, template_of
from smofi.engine.check import check_device, check_plan
from smofi.engine.cohort.setup import Setup
from smofi.engine.cpu.threads import in_threads
from smofi.engine.passes import Passes
from smofi.engine.plan import Planner
from smofi.engine.stopping import Stopping
from smofi.errors import refuse
from smofi.flat import Layout
from smofi.training.arguments import Arguments
from smofi.training.given import as_samples
from smofi.training.planner import make_planner
from smofi.training.session import Result, Session
from smofi.training.signature import taking


@taking(Arguments)
def prepare(arguments: Arguments) -> Session:
    """Check everything and return a Session, ready to train: `smofi.train(...)` is `smofi.prepare(...).train()`.

    {arguments}
    """
    return _session(arguments)


@taking(Arguments)
def train(arguments: Arguments) -> Result:
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
    return _session(arguments).train()


def _session(arguments: Arguments) -> Session:
    with in_threads(arguments.threads):
        return _checked(arguments)


def _checked(arguments: Arguments) -> Session:
    device = check_device(arguments.device)
    layout = Layout.of(arguments.model)
    clients = [as_samples(data, f"clients[{i}]", layout.dtype, device) for i, data in enumerate(arguments.clients)]
    test = _held_out("test", arguments.test, layout, device)
    validation = _held_out("validation", arguments.validation, layout, device)
    planner = make_planner(arguments, layout, clients)
    check_plan(planner, arguments.cut)
    _check_compile(arguments, planner)
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
    stopping = Stopping(arguments.patience, arguments.target_accuracy)
    run = assemble(
        setup,
        RunData(
            clients,
            test,
            validation,
            arguments.augment_value,
            _client_tests(arguments.client_tests, layout, device),
            tuple(map(str, arguments.client_names or ())),
        ),
        planner,
        RunLength(arguments.rounds, arguments.eval_every, arguments.metrics, stopping, arguments.callback_value),
        Resources(arguments.workers, arguments.executor, arguments.memory_limit, arguments.diagnose),
    )
    return Session(model, layout, run, arguments.threads, arguments.progress)


def _held_out(name: str, data: Any, layout: Layout, device: torch.device) -> Samples | None:
    samples = None if data is None else as_samples(data, name, layout.dtype, device)
    if samples is not None and not len(samples):
        refuse(name, data, "at least one sample, or None")
    return samples


def _client_tests(tests: Sequence[Any] | None, layout: Layout, device: torch.device) -> list[Samples | None] | None:
    if tests is None:
        return None
    return [
        None if data is None else as_samples(data, f"client_tests[{i}]", layout.dtype, device)
        for i, data in enumerate(tests)
    ]


def _check_compile(arguments: Arguments, planner: Planner) -> None:
    u_shaped = any(cut.u_shaped for cut in planner.cuts.options)
    if arguments.compile and (arguments.wire_value or u_shaped or planner.method.where.one_server):
        accepted = "False where a split is executed for real: with a wire, a U shape, sflv2 or mergesfl"
        refuse("compile", arguments.compile, accepted)
