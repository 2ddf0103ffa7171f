"""What a server asks of a client, and what would leave the client's machine, as sentences.

Both the words and the bytes are those of the tensors and numbers that the messages of a round hold. Bytes are without
headers, of some hundred bytes a message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Shape
from smofi.engine.remote.messages import Activation, CutGradient, Output, Returned
from smofi.memory import as_text
from smofi.net.messages import CROSSES
from smofi.plural import all_of, plural
from smofi.serving.participation import Agreed

Message = tuple[type[Any], Mapping[str, Shape]]
"""A kind of message, and its tensors."""

WORDS = {
    (Activation, "activation"): "activations",
    (Activation, "targets"): "labels",
    (Returned, "gradient"): "the gradient of the server's output",
    (Output, "output"): "the server's output",
    (CutGradient, "gradient"): "the gradient of your activations",
}
"""What the tensors of a step are called."""

COLUMNS = {"weights": "weights", "statistics": "statistics of normalisation layers", "moments": "numbers of momentum"}
"""And those of a round."""

LOSS, SQUARE, SERVERS_SQUARE = "the loss", "the squared norm of your gradient", "the squared norm of the server's"


@dataclass(frozen=True)
class AtCut:
    """What crosses one of the run's cuts, in a round of this client."""

    agreed: Agreed
    crossing: Crossing

    @property
    def plan(self) -> ClientPlan:
        """A round, with the batches that were offered where others are possible."""
        agreed, config = self.agreed, self.agreed.config
        sizes = agreed.batch_sizes
        batch_size = sizes[0] if len(sizes) == 1 else config.batch_size
        return ClientPlan(config.seed, 0, 0, agreed.steps_with(batch_size), batch_size)

    @property
    def up(self) -> list[Message]:
        """What leaves in a step."""
        crossing, plan = self.crossing, self.plan
        expected = [crossing.expects_activation(plan, 0, crossing.squares)]
        expected += [crossing.expects_returned(plan, 0)] if crossing.cut.u_shaped else []
        return [(one.kind, one.tensors) for one in expected]

    @property
    def down(self) -> list[Message]:
        """What comes in a step."""
        crossing, plan = self.crossing, self.plan
        gradient = CutGradient, {"gradient": crossing.batch_of(crossing.activation, plan)}
        output = Output, {"output": crossing.batch_of(crossing.output, plan)}
        return [output, gradient] if crossing.cut.u_shaped else [gradient]

    @property
    def columns(self) -> dict[str, Shape]:
        """What comes before a round and leaves after it."""
        return {name: one for name, one in self.crossing.of_columns().items() if math.prod(one.sizes)}

    @property
    def column_bytes(self) -> int:
        """The bytes of that, one way."""
        return sum(_bytes(one.dtype, one.sizes) for one in self.columns.values())

    def bytes_of(self, messages: Iterable[Message]) -> int:
        """The bytes of a step, one way."""
        return sum(
            _bytes(*part) for kind, tensors in messages for name in tensors for part in self._sent(kind, name, tensors)
        )

    def _sent(self, kind: type[Any], name: str, tensors: Mapping[str, Shape]) -> Iterable[tuple[Any, tuple[int, ...]]]:
        """The types and sizes of what is sent of a tensor."""
        one, wire = tensors[name], self.agreed.wire
        return wire.parts(one.sizes) if wire and CROSSES.get(kind) == name else [(one.dtype, one.sizes)]

    def listed(self, messages: Iterable[Message], *numbers: str) -> str:
        """A step in words, one way."""
        words = []
        for kind, tensors in messages:
            for name in tensors:
                dtype, sizes = next(iter(self._sent(kind, name, tensors)))
                shape = " x ".join(map(str, sizes))
                words.append(f"{WORDS[kind, name]} ({shape} {str(dtype).removeprefix('torch.')})")
        return all_of([*words, *numbers])

    def sentences(self, allow_labels: bool) -> Iterator[str]:
        """All of it."""
        cut, squares = self.crossing.cut, self.crossing.squares
        leave = (
            "leave this machine, as you allow"
            if allow_labels
            else "would leave this machine, which needs --allow-labels"
        )
        yield f"Cut {cut}: labels stay here." if cut.u_shaped else f"Cut {cut}: labels {leave}."
        told = ([LOSS] if cut.u_shaped else []) + ([SQUARE] if squares else [])
        up, down = self.bytes_of(self.up), self.bytes_of(self.down)
        yield f"  up, each step: {self.listed(self.up, *told)}; {as_text(up)}"
        answered = [SERVERS_SQUARE] if squares else []
        yield f"  down, each step: {self.listed(self.down, *answered)}; {as_text(down)}"
        own = all_of([f"{math.prod(one.sizes):,} {COLUMNS[name]}" for name, one in self.columns.items()])
        yield f"  down before a round, and up after it: your part's {own}; {as_text(self.column_bytes)}"
        steps = self.plan.steps
        whole = [as_text(steps * each + self.column_bytes) for each in (up, down)]
        yield f"  a round, of {plural(steps, 'step')}: {whole[0]} up, {whole[1]} down"


def about(agreed: Agreed, allow_labels: bool = False) -> Iterator[str]:
    """What is asked for, then what leaves at each cut that the run may use, with what the client's user allows."""
    config, samples = agreed.config, len(agreed.device.samples)
    (method,) = config.method
    rounds = f"{plural(config.rounds, 'round')}, {config.participation:.0%} of the clients in each"
    yield f"The server trains {config.model} with {method}, {config.optimizer}; {rounds}."
    if agreed.offer.runs > 1:
        yield f"It trains {agreed.offer.runs} models, one after the other. This is said of each of them."
    own = f"{plural(samples, 'sample')} to train on, {len(agreed.tests):,} held out"
    yield f"Your data: {own}. These two numbers leave when you join; the samples stay on this machine."
    sizes = agreed.batch_sizes
    if not sizes:
        yield f"That is less than a batch of {config.batch_size}: the server would refuse this client."
        return
    if agreed.tells_counts:
        yield "The server is then told, too, how many samples of each class you have: clients are selected by it."
    which = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    yield f"Batches have {which} samples: any other batch size or learning rate, and further rounds, are refused here."
    for crossing in agreed.crossings.values():
        yield from AtCut(agreed, crossing).sentences(allow_labels)
    if agreed.offer.evaluates == "clients":
        whole, counts = as_text(model_bytes(agreed)), "how many samples you hold out and how many of them are right"
        yield f"After a round, the whole model comes here ({whole}), and the server is told {counts}."
    yield "Activations and gradients can reveal something of samples, and of labels that stay: see docs/security.md."


def model_bytes(agreed: Agreed) -> int:
    """The bytes of the whole model, with its statistics, as it comes to be judged."""
    layout = agreed.device.setup.layout
    return (layout.size + layout.statistics_size) * layout.dtype.itemsize


def _bytes(dtype: Any, sizes: tuple[int, ...]) -> int:
    return int(math.prod(sizes) * dtype.itemsize)
