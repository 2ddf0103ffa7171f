"""Clients' halves in processes of their own, as on devices, servers' halves here: the bits of the simulation."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import smofi
from reference import federation, perceptron
from smofi.cut import Cut
from smofi.data.samples import TensorSamples
from smofi.engine.cohort.fusion import Fusion
from smofi.engine.cohort.halves import ClientHalf, Sent, ServerHalf
from smofi.engine.cohort.local import Momentum, Segment, Segments
from smofi.engine.cohort.rows import Terms, weighted_sum
from smofi.engine.cohort.setup import Setup
from smofi.engine.cohort.steps import ClientSteps
from smofi.engine.passes import direct
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import Branch
from smofi.flat import Layout, blocks_of
from smofi.models.dropout import seeded

OPTIMIZER = smofi.sgd(lr=0.1, momentum=0.9, weight_decay=0.01)
SETTINGS = {"rounds": 1, "local_epochs": 2, "batch_size": 4, "seed": 3, "participation": 1.0}
SMOFI = smofi.methods.smofi(alpha=-0.5, global_momentum=0)
Data = tuple[Tensor, Tensor]


def network() -> nn.Sequential:
    """The perceptron with dropout on both sides of every cut."""
    blocks = [nn.Sequential(block, nn.Dropout(0.2)) for block in perceptron()[:-1]]
    return nn.Sequential(*blocks, perceptron()[-1])


class Side:
    """One side's model and columns. The other side's weights are not a number, so that using one would show."""

    def __init__(self, method: smofi.Method, blocks: list[range]) -> None:
        self.model = seeded(network()).train()
        layout = Layout.of(self.model)
        whole, statistics = layout.pack(self.model)
        self.weights, self.gradient = torch.full_like(whole, torch.nan), torch.zeros_like(whole)
        self.setup = Setup(self.model, layout, method, OPTIMIZER, cross_entropy)
        self.segments: list[Segment] = []
        for run in blocks:
            columns = layout.columns(run.start, run.stop)
            self.weights[columns] = whole[columns]
            self.segments.append(self._segment(run, columns))
        layout.bind(self.model, self.weights.__getitem__, statistics.__getitem__, self.gradient.__getitem__)

    def _segment(self, blocks: range, columns: slice) -> Segment:
        weights, gradient = self.weights[None, columns], self.gradient[None, columns]
        own = (torch.zeros_like(weights),)
        start = self.weights[columns].clone()
        return Segment(blocks, columns, weights, gradient, start, Momentum(own, own), [0.0], slice(0, 1))


class Pipe:
    """Tensors to and from another process, as bytes."""

    def __init__(self, end: socket.socket) -> None:
        self.file = end.makefile("rwb")

    def send(self, **tensors: Tensor | None) -> None:
        content = save({name: tensor.contiguous() for name, tensor in tensors.items() if tensor is not None})
        self.file.write(len(content).to_bytes(8, "little") + content)
        self.file.flush()

    def receive(self) -> dict[str, Tensor]:
        return load(self.file.read(int.from_bytes(self.file.read(8), "little")))


def run_device(pipe: Pipe, method: smofi.Method, plan: RoundPlan, row: int, data: Data) -> None:
    """A client's steps, with its own blocks only. Labels leave it only where the loss is the server's."""
    cut, own = plan.cuts[row], plan.of_client(row)
    side = Side(method, cut.client_blocks)
    steps = ClientSteps(own, TensorSamples.of(*data), torch.device("cpu"), side.setup.dropout)
    back = blocks_of(side.model, cut.last, cut.blocks) if cut.u_shaped else None
    half = ClientHalf(side.setup, blocks_of(side.model, 0, cut.first), back, side.segments, steps)
    for _ in range(own.steps):
        sent, loss = half.forward(), None
        pipe.send(activation=sent.activation, targets=sent.targets, keys=sent.keys)
        if half.back:
            loss, gradient = half.finish(pipe.receive()["output"])
            pipe.send(gradient=gradient)
        half.backward(pipe.receive()["gradient"])
        half.update(plan.lr)
        steps.advance(loss)
    pipe.send(weights=side.weights)


def server_step(pipe: Pipe, half: ServerHalf, lr: float) -> None:
    """A server's answer to one client."""
    received = pipe.receive()
    sent = Sent(received["activation"], received.get("targets"), received.get("keys"))
    if sent.targets is None:
        pipe.send(output=half.forward([sent.activation], [sent.keys]))
        half.backward([pipe.receive()["gradient"]])
        gradient = half.cut_gradient()
    else:
        _, (gradient,) = half.step([sent.activation], [sent.targets], [sent.keys])
    pipe.send(gradient=gradient)
    half.update(lr)


def serve(pipes: Sequence[Pipe], method: smofi.Method, plan: RoundPlan) -> Tensor:
    """A round with a server model per client, its momenta fused if the method says so; the new global weights. Clients
    are served as they come, the last one first."""
    layout, branch = Layout.of(network()), Branch.of(plan.steps, workers=1, rank=0)
    like = torch.zeros(OPTIMIZER.moments, 0, dtype=torch.float64)
    fusion = Fusion(method.fuse, plan, layout, like, branch) if method.fuse else None
    sides = [Side(method, [range(cut.first, cut.last)]) for cut in plan.cuts]
    halves = [half_of(side, cut, side.segments) for side, cut in zip(sides, plan.cuts, strict=True)]
    for tick in plan.ticks(method):
        coming = [row for (row,) in reversed(tick.groups)]
        if fusion:
            fusion.begin(coming)
        for row in coming:
            if fusion:
                sides[row].segments[0].momentum = fusion.momentum(row)
            server_step(pipes[row], halves[row], plan.lr)
            if fusion:
                fusion.add(row)
        if fusion:
            fusion.fuse(lambda sums: None)
    rows = [
        torch.where(side.weights.isnan(), pipe.receive()["weights"], side.weights)
        for side, pipe in zip(sides, pipes, strict=True)
    ]
    mean = torch.empty(layout.size, dtype=torch.float64)
    shares = [plan.shares[row] for row in branch.rows]
    weighted_sum(torch.stack(rows), Terms(branch.rows, shares, branch.joins(branch.rows)), mean)
    return mean


def half_of(side: Side, cut: Cut, columns: Segments) -> ServerHalf:
    return ServerHalf(side.setup, blocks_of(side.model, cut.first, cut.last), columns)


@contextmanager
def device(method: smofi.Method, plan: RoundPlan, row: int, data: Data) -> Iterator[Pipe]:
    """A process of its own for a client's half; all it shares with this one is a pipe."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        code = 1
        try:
            ours.close()
            run_device(Pipe(theirs), method, plan, row, data)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    pipe = Pipe(ours)
    with ours, pipe.file:
        yield pipe
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", [smofi.methods.fedavg(), smofi.methods.fedprox(mu=0.1), SMOFI], ids=str)
@pytest.mark.parametrize("cut", [0, 1, (0, 1), [0, 1, 0]], ids=str)
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_devices_and_servers_give_the_bits_of_the_simulation(method: smofi.Method, cut: smofi.CutSpec) -> None:
    data = federation([3], sizes=(12, 5, 9))
    arguments = {"method": method, "optimizer": OPTIMIZER, "wire": direct, "cut": cut, **SETTINGS}
    run = smofi.prepare(network(), data, **arguments).run
    plan = run.planner.plan(0)
    assert len(set(plan.steps)) > 1
    with ExitStack() as devices:
        pipes = [devices.enter_context(device(method, plan, row, data[row])) for row in range(3)]
        found = serve(pipes, method, plan)
    run.train()
    assert (found - run.state.weights).abs().max() == 0
