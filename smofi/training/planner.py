"""What plans the rounds of a run; nothing that trains is needed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from smofi.clock import start_clock
from smofi.clock.clock import AS_COMPUTED, SentBytes, StepCosts
from smofi.cut import parse_cut
from smofi.data.partitions import mixes
from smofi.data.samples import Samples
from smofi.engine.check import check_speeds
from smofi.engine.cohort.wire import Compression
from smofi.engine.plan import Planner, RoundSettings
from smofi.flat import Layout
from smofi.models.costs import Costs, costs
from smofi.training.arguments import Arguments


def make_planner(asked: Arguments, layout: Layout, samples: Sequence[Samples]) -> Planner:
    """The planner of a run on these samples, one entry per client, with devices and whatever else the method needs."""
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
    model_costs, sent = _model_costs(asked, planner, samples), _sent_bytes(asked)
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


def _model_costs(asked: Arguments, planner: Planner, samples: Sequence[Samples]) -> Costs:
    first = samples[planner.eligible[0] if planner.eligible else 0]
    inputs, _ = first.batch(torch.zeros(1, dtype=torch.int64))
    cast = asked.cast_on(torch.device("cpu"))
    return costs(asked.model, inputs.shape[1:], tokens=not inputs.is_floating_point(), cast=cast)


def _sent_bytes(asked: Arguments) -> SentBytes:
    wire = asked.wire_value
    return SentBytes(wire.width, wire.overhead) if isinstance(wire, Compression) else AS_COMPUTED
