"""How much memory a run takes, as sums that a reader can check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smofi.data.batches import Gathered
from smofi.data.samples import Samples, TensorSamples
from smofi.engine.cohort.context import gathered_by_each
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.tree import deal
from smofi.engine.processes.workers import OneWorker
from smofi.engine.state import GlobalState
from smofi.flat import columns_in


@dataclass(frozen=True)
class Memory:
    """One thing that takes memory: how its size comes about, and the size."""

    what: str
    arithmetic: str
    bytes: int


def round_memory(simulation: Simulation, plan: RoundPlan, at_once: int | None = None) -> list[Memory]:
    """The rows of a round in one process and what belongs to them, when the last client finishes.

    Clients that meet only at the end of the round share one row, one after the other, or `at_once` rows: as many as the
    simulation computes at once, if not given.

        rows          J (P + S)              J = 1, or `at_once`, where clients meet only at the end of a round
        gradients     P                      J P where the server merges batches; `at_once` P if computed at once
        momentum      K J P                  K moments; SMoFi: K J (client part) + (2 + L + endings) K (server)
        sums          P + S                  1 + L of them where clients meet only at the end of a round; FedNAG's
                                             momentum too
        batches       gathered ahead, client by client: up to 256 KiB of inputs each, 2 MiB in all

    times 4 bytes in single precision. P: parameters, S: running statistics, J: clients of the round in this process,
    L: levels of the tree in which they are added, log2 of their number, rounded up; one more where nearly all finish
    together, before the last. Computed at once, SMoFi has `at_once` rows in place of L + 1.
    """
    return _RoundMemory(simulation, plan, at_once).items()


class _RoundMemory:
    def __init__(self, simulation: Simulation, plan: RoundPlan, at_once: int | None) -> None:
        self.clients = [simulation.clients[client] for client in plan.clients]
        self.plan, self.layout, self.diagnosed = plan, simulation.setup.layout, simulation.diagnose
        self.method, self.moments = simulation.setup.method, simulation.setup.optimizer.moments
        at_once = simulation.execution.at_once if at_once is None else at_once
        self.mine = deal(plan.steps, simulation.workers.size)[simulation.workers.rank]
        self.count = len(self.mine) if simulation.side_by_side else min(at_once or 1, len(self.mine))
        self.at_once, self.at_least = min(at_once, self.count), simulation.execution.at_least
        self.rows_at_once = self.at_once or 1
        self.servers = [columns_in(plan.cuts[row].server(self.layout)) for row in self.mine[: self.count]]
        self.on_clients = self.count * self.layout.size - sum(self.servers)
        # SMoFi's buffers reach from the first server column of any client to the last
        first, last = min(cut.first for cut in plan.cuts), max(cut.last for cut in plan.cuts)
        self.fused = columns_in(self.layout.columns(first, last))
        self.rows, self.in_rows = self.count * self.layout.size, f"{self.count} x {self.layout.size:,}"
        if self.method.where.one_server:
            server = self.servers[0]
            self.rows = self.on_clients + server
            self.in_rows = f"({self.count} x {self.on_clients // self.count:,} + {server:,})"

    def items(self) -> list[Memory]:
        return [*self._rows(), *self._momentum(), *self._diagnostics(), *self._batches()]

    def _item(self, what: str, arithmetic: str, numbers: int) -> Memory:
        width = self.layout.dtype.itemsize
        return Memory(what, f"{arithmetic} x {width} bytes", numbers * width)

    def _rows(self) -> list[Memory]:
        layout, where, cut = self.layout, self.method.where, self.plan.cuts[0]
        statistics = self.count * layout.statistics_size
        if where.one_server:
            statistics -= (self.count - 1) * columns_in(layout.statistic_columns(cut.first, cut.last))
        gradients, in_gradients = self.rows_at_once * layout.size, f"{self.rows_at_once} x {layout.size:,}"
        if where.merges:
            gradients, in_gradients = self.rows, self.in_rows
        added = 1 + (self.moments if self.method.carry else 0)
        sums = 1 + _levels(-(-len(self.mine) // self.count))
        in_sums = f"{sums} x ({added} x {layout.size:,} + {layout.statistics_size:,})"
        return [
            self._item("rows: weights", self.in_rows, self.rows),
            self._item("rows: statistics", f"{statistics:,}", statistics),
            self._item("gradients", in_gradients, gradients),
            self._item("sums", in_sums, sums * (added * layout.size + layout.statistics_size)),
        ]

    def _momentum(self) -> list[Memory]:
        moments, fused = self.moments, self.fused
        if not moments:
            return []
        if not self.method.fuse:
            return [self._item("momentum", f"{moments} x {self.in_rows}", moments * self.rows)]
        alike = len(set(self.servers)) == 1
        in_clients = f"{self.count} x {self.on_clients // self.count:,}" if alike else f"{self.on_clients:,}"
        # one sum for all that finish in the same tick before the last; at most one for each where some may be late
        finished = {step for row, step in self.plan.absences}
        endings = len(self.plan.clients) if self.plan.may_be_late else len(finished)
        buffers = 1 + (self.at_once + self._sums_of_passes() if self.at_once else self._sums_under_way())
        return [
            self._item("momentum: client parts", f"{moments} x {in_clients}", moments * self.on_clients),
            self._item("momentum: fused", f"{buffers} x {moments} x {fused:,}", buffers * moments * fused),
            self._item("momentum: finished clients", f"{endings} x {moments} x {fused:,}", endings * moments * fused),
        ]

    def _sums_of_passes(self) -> int:
        """Beside the rows of a pass: sums of several passes, and of clients that go one by one in the end."""
        passes = -(-len(self.mine) // self.at_once)
        alone = min(self.at_least - 1, len(self.mine))
        return max(1 + _levels(passes) if passes > 1 else 0, 1 + _levels(alone) if alone else 0)

    def _sums_under_way(self) -> int:
        """Clients are added by a stack of sums: those that go on, then upon their sum those that finish together."""
        steps = [self.plan.steps[row] for row in self.mine]
        together = max(Counter(count for count in steps if count < max(self.plan.steps)).values(), default=0)
        return max(1 + _levels(len(steps)), 2 + _levels(together) if together else 0)

    def _diagnostics(self) -> list[Memory]:
        if not self.diagnosed or not self.moments or self.method.where.one_server:
            return []
        directions = sum(dict(zip(self.plan.cuts, self.servers, strict=True)).values())
        total = 0 if self.method.fuse else self.fused
        return [self._item("diagnostics", f"({total:,} + {directions:,})", total + directions)]

    def _batches(self) -> list[Memory]:
        """Those gathered ahead from samples in memory, of the clients that have a row at the same time."""
        if self.at_once:
            return []
        sizes = sorted((self._gathered(row) for row in self.mine), reverse=True)[: self.count]
        return [Memory("batches", "gathered ahead", sum(sizes))] if sum(sizes) else []

    def _gathered(self, row: int) -> int:
        samples, size = self.clients[row], self.plan.batch_sizes[row]
        if not isinstance(samples, TensorSamples):
            return 0
        batches = min(self.plan.steps[row], Gathered.batches_of(samples, size, gathered_by_each(self.count)))
        return batches * size * (samples.bytes_of_sample + samples.store.targets[:1].nbytes)


def _levels(count: int) -> int:
    """Those of a binary tree with this many leaves.

    >>> [_levels(count) for count in (1, 2, 3, 4, 5)]
    [0, 1, 2, 2, 3]
    """
    return (count - 1).bit_length()


def lasting_memory(state: GlobalState, model: torch.nn.Module, data: Sequence[Samples | None]) -> list[Memory]:
    """What lives as long as the run: its state, the model it came from, and all data kept as tensors."""
    in_memory = [samples for samples in data if isinstance(samples, TensorSamples)]
    # by storage: clients share one store, and the test data may be a view into all of the data
    tensors = [tensor for one in in_memory for tensor in (one.store.inputs, one.store.targets, one.rows)]
    storages = {_place(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}
    carried = {name: _bytes(tensor) for name, tensor in state.tensors().items() if tensor.numel()}
    return [
        Memory("global state", " + ".join(carried), sum(carried.values())),
        Memory("initial model", "parameters + buffers", sum(map(_bytes, model.state_dict().values()))),
        Memory("data", f"{sum(map(len, in_memory)):,} samples", sum(storages.values())),
    ]


def activation_memory(simulation: Simulation, plan: RoundPlan) -> Memory:
    """What autograd keeps between the forward and the backward pass of one step, measured in a real one: that of a
    client, of those computed at once, or of a group that shares the server's batch."""
    mine = deal(plan.steps, simulation.workers.size)[simulation.workers.rank]
    merges = simulation.setup.method.where.merges
    some = plan.only(mine if merges else mine[: max(1, simulation.execution.at_once)])
    once = [1] * len(some.clients)
    saved: dict[int, Tensor] = {}

    def save(tensor: Tensor) -> Tensor:
        saved[_place(tensor)] = tensor
        return tensor

    trial = replace(simulation, workers=OneWorker())
    cohort = SimulatedCohort(trial, replace(some, steps=once, epoch_steps=once, planned_steps=once))
    with closing(cohort.ticks()) as ticks:
        first = next(ticks)
        rows = {_place(piece) for matrix in (trial.room.weights, trial.room.statistics) for _, piece in matrix.pieces}
        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            cohort.step(first.groups)
    size = sum(tensor.untyped_storage().nbytes() for place, tensor in saved.items() if place not in rows)
    return Memory("activations", "measured in one step", size)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
