"""How much memory a run takes, as sums that a reader can check."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smofi.data.samples import Samples, TensorSamples
from smofi.engine.cohort.simulated import SimulatedCohort
from smofi.engine.cohort.simulation import Simulation
from smofi.engine.plan import RoundPlan
from smofi.engine.processes.crew import Alone, deal
from smofi.engine.state import GlobalState


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
        momentum      K J P                  K moments; SMoFi: K J (client part) + (2 + `at_once` + endings) K (server)
        sums          P + S                  FedNAG's momentum too

    times 4 bytes in single precision. P: parameters, S: running statistics, J: clients of the round in this process.
    """
    layout, method, where = simulation.setup.layout, simulation.setup.method, simulation.setup.method.where
    moments, width = simulation.setup.optimizer.moments, layout.dtype.itemsize
    wide = simulation.execution.at_once if at_once is None else at_once
    mine = deal(plan.steps, simulation.workers.size)[simulation.workers.rank]
    count = len(mine) if simulation.side_by_side else min(wide or 1, len(mine))
    wide = min(wide, count) or 1
    servers = [columns_in(plan.cuts[row].server(layout)) for row in mine[:count]]
    own = count * layout.size - sum(servers)
    rows, in_rows = count * layout.size, f"{count} x {layout.size:,}"
    statistics = count * layout.statistics_size
    if where.one_server:
        rows, in_rows = own + servers[0], f"({count} x {own // count:,} + {servers[0]:,})"
        cut = plan.cuts[0]
        statistics -= (count - 1) * columns_in(layout.statistic_columns(cut.first, cut.last))
    added = 1 + (moments if method.carry else 0)
    gradients, in_gradients = (rows, in_rows) if where.merges else (wide * layout.size, f"{wide} x {layout.size:,}")

    def item(what: str, arithmetic: str, numbers: int) -> Memory:
        return Memory(what, f"{arithmetic} x {width} bytes", numbers * width)

    found = [
        item("rows: weights", in_rows, rows),
        item("rows: statistics", f"{statistics:,}", statistics),
        item("gradients", in_gradients, gradients),
        item(
            "sums",
            f"({added} x {layout.size:,} + {layout.statistics_size:,})",
            added * layout.size + layout.statistics_size,
        ),
    ]
    # SMoFi's buffers reach from the first server column of any client to the last
    fused = columns_in(layout.columns(min(cut.first for cut in plan.cuts), max(cut.last for cut in plan.cuts)))
    if moments and method.fuse:
        parts = f"{count} x {own // count:,}" if len(set(servers)) == 1 else f"{own:,}"
        # one sum for all that finish in the same tick before the last; at most one for each where some may be late
        finished = {step for row, step in plan.absences if row in mine}
        endings = len(mine) if plan.may_be_late else len(finished)
        found += [
            item("momentum: client parts", f"{moments} x {parts}", moments * own),
            item("momentum: fused", f"{2 + wide} x {moments} x {fused:,}", (2 + wide) * moments * fused),
            item("momentum: finished clients", f"{endings} x {moments} x {fused:,}", endings * moments * fused),
        ]
    elif moments:
        found.append(item("momentum", f"{moments} x {in_rows}", moments * rows))
    if simulation.diagnose and moments and not where.one_server:
        directions = sum(dict(zip(plan.cuts, servers, strict=True)).values())
        total = 0 if method.fuse else fused
        found.append(item("diagnostics", f"({total:,} + {directions:,})", total + directions))
    return found


def lasting_memory(state: GlobalState, model: torch.nn.Module, data: Sequence[Samples | None]) -> list[Memory]:
    """What lives as long as the run: its state, the model it came from, and all data held as tensors."""
    held = [one for one in data if isinstance(one, TensorSamples)]
    # by storage: clients share one store, and the test data may be a view into all of the data
    parts = [part for one in held for part in (one.store.inputs, one.store.targets, one.rows)]
    storages = {_place(part): part.untyped_storage().nbytes() for part in parts}
    carried = {name: _bytes(tensor) for name, tensor in state.tensors().items() if tensor.numel()}
    return [
        Memory("global state", " + ".join(carried), sum(carried.values())),
        Memory("initial model", "parameters + buffers", sum(map(_bytes, model.state_dict().values()))),
        Memory("data", f"{sum(map(len, held)):,} samples", sum(storages.values())),
    ]


def activation_memory(simulation: Simulation, plan: RoundPlan) -> Memory:
    """What autograd keeps between the forward and the backward pass of one step, measured in a real one: that of a
    client, of those computed at once, or of a group that shares the server's batch."""
    mine = deal(plan.steps, simulation.workers.size)[simulation.workers.rank]
    merges = simulation.setup.method.where.merges
    some = plan.only(mine if merges else mine[: max(1, simulation.execution.at_once)])
    once = [1] * len(some.clients)
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[_place(tensor)] = tensor
        return tensor

    trial = replace(simulation, workers=Alone())
    cohort = SimulatedCohort(trial, replace(some, steps=once, epoch_steps=once, planned_steps=once))
    with closing(cohort.ticks()) as ticks:
        first = next(ticks)
        rows = {_place(piece) for matrix in (trial.room.weights, trial.room.statistics) for _, piece in matrix.pieces}
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            cohort.step(first.groups)
    size = sum(tensor.untyped_storage().nbytes() for place, tensor in kept.items() if place not in rows)
    return Memory("activations", "measured in one step", size)


def columns_in(columns: slice) -> int:
    """How many columns a run of them has.

    >>> columns_in(slice(3, 10))
    7
    """
    return int(columns.stop - columns.start)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
