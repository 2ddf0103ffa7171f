"""From arguments to a run: everything is checked before any work starts."""

from __future__ import annotations

import copy
from typing import Any

import torch

from smofi.data.samples import Samples, as_samples
from smofi.engine.assembly import Resources, RunData, RunLength, assemble, template_of
from smofi.engine.check import check_device, check_plan
from smofi.engine.cohort.setup import Setup
from smofi.engine.plan import Planner
from smofi.engine.stopping import Stopping
from smofi.errors import refuse
from smofi.flat import Layout
from smofi.training.arguments import Arguments, taking
from smofi.training.planner import make_planner
from smofi.training.session import Result, Session


@taking(Arguments)
def prepare(asked: Arguments) -> Session:
    """Check everything and return a Session, ready to train. `smofi.train` takes the same arguments and trains it too.

    {arguments}
    """
    return _session(asked)


@taking(Arguments)
def train(asked: Arguments) -> Result:
    """Train one model on the data of many clients, split between them and a server.

    {arguments}

    >>> x, y = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    >>> nn = torch.nn
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 2))
    >>> result = train(model, [(x[:40], y[:40]), (x[40:], y[40:])], (x, y), rounds=2, participation=1.0, batch_size=8)
    >>> [record.steps for record in result.history]
    [[25, 15], [25, 15]]
    """
    return _session(asked).train()


def _session(asked: Arguments) -> Session:
    device = check_device(asked.device)
    layout = Layout.of(asked.model)
    clients = [as_samples(data, f"clients[{i}]", layout.dtype, device) for i, data in enumerate(asked.clients)]
    test = _held_out("test", asked.test, layout, device)
    validation = _held_out("validation", asked.validation, layout, device)
    planner = make_planner(asked, layout, clients)
    check_plan(planner, asked.cut)
    _check_compile(asked, planner)
    model = copy.deepcopy(asked.model).to(device)
    setup = Setup(
        template_of(model),
        layout,
        asked.method_value,
        asked.optimizer_value,
        asked.loss,
        asked.wire_value,
        asked.cast_on(device),
        asked.compile,
    )
    stopping = Stopping(asked.patience, asked.target_accuracy)
    run = assemble(
        setup,
        RunData(clients, test, validation, asked.augment_value),
        planner,
        RunLength(asked.rounds, asked.eval_every, asked.metrics, stopping, asked.callback),
        Resources(asked.workers, asked.executor, asked.memory_limit, asked.diagnose),
    )
    return Session(model, layout, run)


def _held_out(name: str, data: Any, layout: Layout, device: torch.device) -> Samples | None:
    samples = None if data is None else as_samples(data, name, layout.dtype, device)
    if samples is not None and not len(samples):
        refuse(name, data, "at least one sample, or None")
    return samples


def _check_compile(asked: Arguments, planner: Planner) -> None:
    u_shaped = any(cut.u_shaped for cut in planner.cuts.options)
    if asked.compile and (asked.wire_value or u_shaped or planner.method.where.one_server):
        accepted = "False where a split is executed for real: with a wire, a U shape, sflv2 or mergesfl"
        refuse("compile", asked.compile, accepted)
