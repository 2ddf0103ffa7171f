"""What a server asks of a client, and what would leave the client's machine, as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator

from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Shape
from smofi.memory import as_text
from smofi.plural import plural
from smofi.serving.participation import Agreed


def about(agreed: Agreed, allow_labels: bool = False) -> Iterator[str]:
    """What is asked for, then what leaves at each cut that the run may use, with what the client's user allows."""
    config, samples = agreed.config, len(agreed.device.samples)
    (method,) = config.method
    rounds = f"{plural(config.rounds, 'round')}, {config.participation:.0%} of the clients in each"
    yield f"The server trains {config.model} with {method}, {config.optimizer}; {rounds}."
    steps = agreed.steps_with(config.batch_size) if samples >= config.batch_size else 0
    own = f"{plural(samples, 'sample')} to train on, {len(agreed.tests):,} held out"
    if agreed.offer.runs > 1:
        yield f"It trains {agreed.offer.runs} models, one after the other. This is said of each of them."
    yield f"Your data: {own}; the samples stay on this machine."
    if not steps:
        yield f"That is less than a batch of {config.batch_size}: the server would refuse this client."
        return
    sizes = agreed.batch_sizes
    which = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    yield f"Batches have {which} samples: this client refuses other ones, another rate, and any round beyond these."
    for crossing in agreed.crossings.values():
        yield from _at(crossing, agreed, steps, allow_labels)
    if agreed.tells_counts:
        yield "Before the first round, how many samples of each class you have leaves: clients are selected by it."
    if agreed.offer.evaluates == "clients":
        yield "After a round, the whole model comes here, and the number of held-out samples that are right leaves."
    yield "Activations and gradients can reveal something of samples, and of labels that stay: see docs/security.md."


def _at(crossing: Crossing, agreed: Agreed, steps: int, allow_labels: bool) -> Iterator[str]:
    config, cut = agreed.config, crossing.cut
    plan = ClientPlan(config.seed, 0, 0, steps, config.batch_size)
    up = {"activations": crossing.batch_of(crossing.activation, plan)}
    down = {"their gradient": crossing.batch_of(crossing.activation, plan)}
    if cut.u_shaped:  # and one number, the loss
        output = crossing.batch_of(crossing.output, plan)
        up["the gradient of the server's output"] = down["the server's output"] = output
    leave = (
        "leave this machine, as you allow" if allow_labels else "would leave this machine, which needs --allow-labels"
    )
    labels = "labels stay here" if cut.u_shaped else f"labels {leave}"
    yield f"Cut {cut}: {labels}."
    sent, received = (_bytes_of(agreed, one) for one in (up, down))
    if not cut.u_shaped:
        sent += 8 * config.batch_size
    besides = "the loss" if cut.u_shaped else f"{config.batch_size} labels"
    yield f"  up, each step: {_listed(up)} and {besides}, {as_text(sent)}"
    yield f"  down, each step: {_listed(down)}, {as_text(received)}"
    columns = sum(math.prod(one.sizes) * one.dtype.itemsize for one in crossing.of_columns().values())
    whole = [as_text(steps * each + columns) for each in (sent, received)]
    yield (
        f"  a round: {plural(steps, 'step')}, and the client's {crossing.columns.size:,} weights both ways "
        f"({as_text(columns)}): {whole[0]} up, {whole[1]} down"
    )


def _listed(tensors: dict[str, Shape]) -> str:
    return " and ".join(
        f"{name} ({' x '.join(map(str, one.sizes))} {str(one.dtype).removeprefix('torch.')})"
        for name, one in tensors.items()
    )


def _bytes_of(agreed: Agreed, tensors: dict[str, Shape]) -> int:
    wire = agreed.wire
    parts = [
        part for one in tensors.values() for part in (wire.parts(one.sizes) if wire else ((one.dtype, one.sizes),))
    ]
    return sum(math.prod(sizes) * dtype.itemsize for dtype, sizes in parts)
