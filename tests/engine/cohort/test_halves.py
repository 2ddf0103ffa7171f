"""The two halves of a client on two sides of a pipe, as on a device and its server: the same bits as the simulation."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch.nn.functional import cross_entropy

import smofi
from reference import federation, perceptron
from smofi.cut import Cut
from smofi.data.samples import TensorSamples
from smofi.engine.cohort.halves import ClientHalf, ServerHalf
from smofi.engine.cohort.local import Momentum, Segment, Segments
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.passes import direct
from smofi.engine.plan import ClientPlan
from smofi.flat import Layout

OPTIMIZER = smofi.sgd(lr=0.1, momentum=0.9, weight_decay=0.01)
BATCH, SEED = 4, 3
METHODS = {"fedavg": smofi.methods.fedavg(), "fedprox": smofi.methods.fedprox(mu=0.1)}


class Side:
    """One side's model and columns. The other side's weights are not a number, so that using one would show."""

    def __init__(self, method: str, cut: Cut, blocks: list[range]) -> None:
        model = perceptron()
        layout = Layout.of(model)
        whole, statistics = layout.pack(model)
        self.columns = [layout.columns(run.start, run.stop) for run in blocks]
        self.weights, self.gradient = torch.full_like(whole, torch.nan), torch.zeros_like(whole)
        for columns in self.columns:
            self.weights[columns] = whole[columns]
        layout.bind(model, self.weights.__getitem__, statistics.__getitem__, self.gradient.__getitem__)
        self.model, self.cut = model.train(), cut
        self.setup = Setup(model, layout, METHODS[method], OPTIMIZER, cross_entropy)
        self.segments: Segments = [self._segment(*both) for both in zip(blocks, self.columns, strict=True)]

    def _segment(self, blocks: range, columns: slice) -> Segment:
        weights, gradient = self.weights[None, columns], self.gradient[None, columns]
        moments = (torch.zeros_like(weights),)
        start = self.weights[columns].clone()
        return Segment(blocks, columns, weights, gradient, start, Momentum(moments, moments), [0.0], slice(0, 1))


class Pipe:
    """Tensors to and from another process, as bytes."""

    def __init__(self, end: socket.socket) -> None:
        self.file = end.makefile("rwb")

    def send(self, **tensors: Tensor) -> None:
        content = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        self.file.write(len(content).to_bytes(8, "little") + content)
        self.file.flush()

    def receive(self) -> dict[str, Tensor]:
        return load(self.file.read(int.from_bytes(self.file.read(8), "little")))


def device(pipe: Pipe, method: str, cut: Cut, data: tuple[Tensor, Tensor], steps: int) -> None:
    """A client's steps. Labels leave it only where the loss is the server's."""
    side = Side(method, cut, cut.client_blocks)
    plan = ClientPlan(SEED, 0, client=0, steps=steps, batch_size=BATCH)
    own = ClientSteps(plan, TensorSamples.of(*data), torch.device("cpu"), side.setup.dropout)
    half = ClientHalf(side.setup, side.model, cut, side.segments, own)
    for _ in range(steps):
        activation = half.forward()
        pipe.send(activation=activation) if half.back else pipe.send(activation=activation, targets=half.targets)
        loss = None
        if half.back:
            loss, gradient = half.finish(pipe.receive()["output"])
            pipe.send(gradient=gradient)
        half.backward(pipe.receive()["gradient"])
        half.update(OPTIMIZER.lr)
        own.advance(loss)
    pipe.send(weights=side.weights)


def server(pipe: Pipe, method: str, cut: Cut, steps: int) -> Tensor:
    """The server's steps; then both sides' weights as one vector."""
    side = Side(method, cut, [range(cut.first, cut.last)])
    half = ServerHalf(side.setup, side.model, cut, side.segments)
    for _ in range(steps):
        sent = pipe.receive()
        if "targets" in sent:
            _, (gradient,) = half.step([sent["activation"]], [sent["targets"]], [None])
        else:
            pipe.send(output=half.forward([sent["activation"]], [None]))
            half.backward([pipe.receive()["gradient"]])
            gradient = half.cut_gradient()
        pipe.send(gradient=gradient)
        half.update(OPTIMIZER.lr)
    return torch.where(side.weights.isnan(), pipe.receive()["weights"], side.weights)


@contextmanager
def on_a_device(method: str, cut: Cut, data: tuple[Tensor, Tensor], steps: int) -> Iterator[Pipe]:
    """A process of its own for the client's half; all it shares with this one is a pipe."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        code = 1
        try:
            ours.close()
            device(Pipe(theirs), method, cut, data, steps)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    pipe = Pipe(ours)
    with ours, pipe.file:
        yield pipe
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("spec", "cut"), [(0, Cut(1, 4, 4)), (1, Cut(2, 4, 4)), ((0, 1), Cut(1, 3, 4))], ids=str)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_two_processes_give_the_bits_of_the_simulation(method: str, spec: smofi.CutSpec, cut: Cut) -> None:
    (data,) = federation([3], sizes=(12,))
    settings = {"cut": spec, "rounds": 1, "local_epochs": 2, "batch_size": BATCH, "seed": SEED, "participation": 1.0}
    run = smofi.prepare(perceptron(), [data], method=METHODS[method], optimizer=OPTIMIZER, wire=direct, **settings).run  # type: ignore[arg-type]
    (steps,) = run.planner.plan(0).steps
    run.train()
    with on_a_device(method, cut, data, steps) as pipe:
        found = server(pipe, method, cut, steps)
    assert torch.equal(found, run.state.weights)
