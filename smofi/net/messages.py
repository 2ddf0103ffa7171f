"""The messages of a round as bytes, and back: nothing is believed before it is checked, on either side.

A server expects one message of a client at a time, and knows what its tensors have to be; so does a client of its
server. What does not match is refused before memory is taken for it, in a sentence that names the field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from smofi.engine.cohort.wire import Compression
from smofi.engine.finite import all_finite, within
from smofi.engine.passes import IGNORED
from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Expected, Shape
from smofi.engine.remote.messages import (
    Activation,
    Begin,
    CutGradient,
    Down,
    Evaluate,
    Evaluated,
    Finished,
    Output,
    Rest,
    Returned,
    Up,
)
from smofi.net.fields import MOST, Fields, NotFinite
from smofi.net.frames import BadFrame, Buffer, Frame, Parsed, parts_of
from smofi.net.header import reject

KINDS: dict[str, type[Any]] = {
    "begin": Begin,
    "activation": Activation,
    "output": Output,
    "returned": Returned,
    "cut_gradient": CutGradient,
    "finished": Finished,
    "rest": Rest,
    "evaluate": Evaluate,
    "evaluated": Evaluated,
}
NAMES = {kind: name for name, kind in KINDS.items()}
CROSSES = {Activation: "activation", Output: "output", Returned: "gradient", CutGradient: "gradient"}
"""The tensors that cross the cut, which a wire may pack."""

LONGEST_REASON = 500
LARGEST = 1e6
"""No number that crosses the cut upwards is larger: the running statistics of a server model that all share would have
it for good."""

CLOSE = 1e-9
"""By how much a learning rate may differ that another machine has computed."""


@dataclass(frozen=True)
class Terms:
    """What every round of a client keeps to: the seed of its batches, how many rounds there are, how many samples a
    batch may have, and how many steps that makes."""

    seed: int
    rounds: int
    batch_sizes: range
    steps_with: Callable[[int], int]


def pack(message: Down | Up, wire: Compression | None = None) -> list[Buffer]:
    """A message as bytes, in parts: a tensor's is its own memory. What crosses the cut has the bits of the wire."""
    own = {field.name: getattr(message, field.name) for field in fields(message)}
    if isinstance(message, Begin):
        plan, cut = own.pop("plan"), own.pop("cut")
        own |= vars(plan) | {"first": cut.first, "last": cut.last, "updates": list(message.updates)}
    tensors = {name: value.cpu() for name, value in own.items() if isinstance(value, Tensor)}
    plain = {name: value for name, value in own.items() if value is not None and name not in tensors}
    if "square" in plain:  # one that is infinite becomes as large as can be, and again infinite; of NaN, tensors tell
        plain["square"] = min(max(0.0, plain["square"]), sys.float_info.max)
    if isinstance(message, Rest):
        plain["reason"] = message.reason[:LONGEST_REASON]
    crossing = CROSSES.get(type(message))
    return parts_of(Frame(NAMES[type(message)], plain, tensors), {crossing: wire} if crossing and wire else None)


def read_up(parsed: Parsed, expected: Expected, wire: Compression | None = None) -> Up:
    """A client's message, if it is what is expected of it."""
    check_kind(parsed, expected.kind)
    given = Fields(parsed.fields)
    round = given.whole("round", expected.round, expected.round)
    if expected.kind is Evaluated:
        samples = given.whole("samples", 0, expected.most)
        correct = given.whole("correct", 0, samples)
        given.end()
        take(parsed, {})
        return Evaluated(round, samples, correct)
    if expected.kind is Finished:
        square = given.square(expected.square)
        given.end()
        return Finished(round, **take(parsed, expected.tensors), square=square)
    step = given.whole("step", expected.step, expected.step)
    if expected.kind is Returned:
        loss = given.loss()
        given.end()
        return Returned(round, step, loss, **take(parsed, expected.tensors, "gradient", wire, LARGEST))
    square = given.square(expected.square)
    given.end()
    taken = take(parsed, expected.tensors, "activation", wire, LARGEST)
    return Activation(round, step, **taken, square=square)


def check_kind(parsed: Parsed, *accepted: type[Any]) -> None:
    """Refuse any other kind of message."""
    if KINDS.get(parsed.kind) not in accepted:
        reject("kind", parsed.kind, " or ".join(NAMES[kind] for kind in accepted))


def take(
    parsed: Parsed,
    shapes: Mapping[str, Shape],
    crossing: str = "",
    wire: Compression | None = None,
    largest: float | None = None,
) -> dict[str, Any]:
    """The tensors of a message, if they are those expected; `crossing` is the one that the wire packs, and none of its
    numbers may be larger than `largest`."""
    if unknown := parsed.tensors.keys() - shapes.keys():
        raise BadFrame(f"tensors.{min(unknown)}", "is not expected")
    for name, shape in shapes.items():
        if name not in parsed.tensors:
            raise BadFrame(f"tensors.{name}", "is missing")
        header, packing = parsed.tensors[name], wire.name if wire and name == crossing else None
        if header.dtype != shape.dtype:
            reject(f"tensors.{name}.dtype", _plain(header.dtype), _plain(shape.dtype))
        if header.shape != shape.sizes:
            reject(f"tensors.{name}.shape", list(header.shape), str(list(shape.sizes)))
        if header.order not in _orders(len(shape.sizes)):
            reject(f"tensors.{name}.order", list(header.order), "dimensions in order, or the channels last")
        if header.packing != packing:
            reject(f"tensors.{name}.packing", header.packing, str(packing))
    taken = {name: parsed.take(name) for name in shapes}
    for name, tensor in taken.items():
        _check_values(name, tensor, shapes[name].classes, largest if name == crossing else None)
    return taken


def _orders(dimensions: int) -> tuple[tuple[int, ...], ...]:
    """How a tensor may lie in memory: a model may rely on it.

    >>> _orders(2), _orders(4)
    (((0, 1),), ((0, 1, 2, 3), (0, 2, 3, 1)))
    """
    natural = tuple(range(dimensions))
    return (natural, (0, 2, 3, 1)) if dimensions == 4 else (natural,)


def _check_values(name: str, tensor: Tensor, classes: int | None, largest: float | None) -> None:
    if largest is not None and not within(tensor, largest):
        raise NotFinite(f"tensors.{name}", f"has numbers that are not finite, or larger than {largest:g}")
    if largest is None and tensor.is_floating_point() and not all_finite(tensor):
        raise NotFinite(f"tensors.{name}", "has numbers that are not finite")
    if classes is not None and tensor.numel():
        counted = tensor[tensor != IGNORED]
        if counted.numel() and not 0 <= int(counted.min()) <= int(counted.max()) < classes:
            raise BadFrame(f"tensors.{name}", f"has other classes than 0 to {classes - 1}")


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read_begin(parsed: Parsed, crossings: Mapping[tuple[int, int], Crossing], terms: Terms) -> Begin:
    """The beginning of a round, if it is one that the client has agreed to; `crossings` are those of the run's cuts, by
    their first and last block."""
    check_kind(parsed, Begin)
    given = Fields(parsed.fields)
    batch_size = given.whole("batch_size", terms.batch_sizes[0], terms.batch_sizes[-1])
    steps = terms.steps_with(batch_size)
    plan = ClientPlan(
        seed=given.whole("seed", terms.seed, terms.seed),
        round=given.whole("round", 0, terms.rounds - 1),
        client=given.whole("client", 0, MOST),
        steps=given.whole("steps", steps, steps),
        batch_size=batch_size,
    )
    place = given.whole("first", 1, MOST), given.whole("last", 1, MOST)
    if place not in crossings:
        reject("fields.first", list(place), f"blocks of a cut of this run, one of {[list(one) for one in crossings]}")
    crossing = crossings[place]
    rate = crossing.setup.optimizer.lr * crossing.setup.optimizer.lr_decay**plan.round
    lr = given.number("lr", rate * (1 - CLOSE), rate * (1 + CLOSE))
    onednn = given.flag("onednn")
    updates = given.numbers("updates", crossing.carried_blocks)
    given.end()
    return Begin(plan, lr, crossing.cut, onednn, **take(parsed, crossing.of_columns()), updates=updates)


def read_answer(parsed: Parsed, plan: ClientPlan, step: int, crossing: Crossing, wire: Compression | None) -> Down:
    """What a client gets in return for what it sent of a step: in the U shape first the output, then the gradient."""
    accepted = Output if parsed.kind == NAMES[Output] and crossing.cut.u_shaped else CutGradient
    check_kind(parsed, accepted)
    given = Fields(parsed.fields)
    round, step = given.whole("round", plan.round, plan.round), given.whole("step", step, step)
    if accepted is Output:
        share = given.number("share", 0, 1)
        given.end()
        tensors = take(parsed, {"output": crossing.batch_of(crossing.output, plan)}, "output", wire)
        return Output(round, step, **tensors, share=share)
    square = given.square(crossing.squares)
    given.end()
    tensors = take(parsed, {"gradient": crossing.batch_of(crossing.activation, plan)}, "gradient", wire)
    return CutGradient(round, step, **tensors, square=square)


def read_evaluate(parsed: Parsed, crossing: Crossing) -> Evaluate:
    """The global model, to be judged."""
    check_kind(parsed, Evaluate)
    given, layout = Fields(parsed.fields), crossing.setup.layout
    round = given.whole("round", 0, MOST)
    given.end()
    sizes = {"weights": layout.size, "statistics": layout.statistics_size}
    return Evaluate(round, **take(parsed, {name: Shape(layout.dtype, (size,)) for name, size in sizes.items()}))


def read_rest(parsed: Parsed) -> Rest:
    """That a client is left out of a round, and why."""
    check_kind(parsed, Rest)
    given = Fields(parsed.fields)
    message = Rest(given.whole("round", 0, MOST), given.text("reason", LONGEST_REASON))
    given.end()
    take(parsed, {})
    return message
