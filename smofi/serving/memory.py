"""How much memory a server needs for a round, added up before it listens: what does not fit is refused with the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smofi.config import Config
from smofi.cut import Cut, parse_cut
from smofi.engine.cohort.setup import Setup
from smofi.engine.cpu.private import observing
from smofi.engine.cpu.widest import widest_of_batch
from smofi.engine.evaluate import AT_A_TIME
from smofi.engine.memory.limit import in_use_on, total_of
from smofi.engine.memory.needs import Memory
from smofi.engine.remote.crossing import Task
from smofi.errors import InputError, check_size, refuse
from smofi.flat import blocks_of, columns_in, shell
from smofi.memory import as_text, available, available_cores
from smofi.plural import plural

COPIES = 3
"""Of its weights that a run has all the time: its model, the global weights, and what is saved or given back."""

ANSWERS = 2
"""Messages of a client that are under way: one that it sent, and one that it has not acknowledged."""

WORK = 50_000_000
"""Bytes that libraries, their compiled kernels and connections take once clients are there."""

GRADIENTS = 4
"""Tensors as large as the largest that a backward pass has besides: gradients, and gaps between them in the heap.
Fitted to measured passes, which took 3 to 6."""

OF_WEIGHTS = 3
"""Tensors as large as the model's largest weight, for its gradient and what kernels make of it: fitted to measured
passes of small batches of a ResNet-18."""

ENDING = 3
"""Copies of the weights that come and go between the sum of the rows and the evaluation: measured, not explained."""

GAPS = 1.75
"""How many times what its widest operation takes and gives a forward pass has with the gaps in the heap: measured were
1.5 to 2.4 times, part of which is where a step's tensors were."""


@dataclass(frozen=True)
class ServedMemory:
    """What the rounds of one method take on a server, with J = `per_round` of `clients` clients, all side by side.

        rows          J (P + S)              one server model: J (Pc + Sc) + Ps + Ss
        gradients     J P                    one server model: J Pc + Ps
        momentum      K J P                  one server model: K (J Pc + Ps); SMoFi: K (J Pc + (1 + 2 J) Ps)
        sums          P + S                  FedNAG: (1 + K) P + S, and (1 + L) K P while momenta are added
        passes        N (F + 4 A + 3 W)      N: threads that compute, the main one included; one server model: 1,
                                             where batches are merged J; in the U shape J F, and the rest N times
        the end       3 P or 1.75 E          E: what the widest operation of an evaluation takes and gives
        messages      2 J of the largest     and 50 MB for libraries

    times the bytes of a number, in the words of docs/memory.md. F is all that the operations of a batch's forward pass
    make, A the largest of it, W the largest weight. SMoFi adds momenta in the order of the clients' numbers: one that
    comes early waits, and each client's last one is kept in case it is lost.

    A thread has a heap of its own, and freed memory stays in it for the next step: so passes of several threads add up,
    also those that only time whether a pool pays, and an evaluation hardly fits where a step's tensors were.
    """

    setup: Setup
    config: Config
    task: Task
    clients: int
    largest: int  # bytes of a message
    judged: int = 0  # samples that the server judges the model on
    judged_by_clients: bool = False

    @property
    def per_round(self) -> int:
        """How many clients take part in a round, if all of them are there."""
        return max(1, round(self.config.participation * self.clients))

    def items(self) -> list[Memory]:
        """All of it."""
        return [*self._rows(), *self._momentum(), *self._sums(), *self._passes()]

    def lasting(self) -> int:
        """The bytes that the run has also while others train."""
        layout, method = self.setup.layout, self.setup.method
        vectors = (method.outer.vectors if method.outer else 0) + (self.setup.optimizer.moments if method.carry else 0)
        return (COPIES * (layout.size + layout.statistics_size) + vectors * layout.size) * layout.dtype.itemsize

    @property
    def _cuts(self) -> Sequence[Cut]:
        return list(dict.fromkeys(parse_cut(self.config.cut, self.setup.layout, self.clients).options))

    @property
    def _server(self) -> int:
        """The parameters of the server's part: the least of them where it exists once, the most where each has one."""
        sizes = [columns_in(cut.server(self.setup.layout)) for cut in self._cuts]
        return min(sizes) if self.setup.method.where.one_server else max(sizes)

    def _item(self, what: str, arithmetic: str, numbers: int) -> Memory:
        width = self.setup.layout.dtype.itemsize
        return Memory(what, f"{arithmetic} x {width} bytes", numbers * width)

    def _in_rows(self) -> tuple[str, int]:
        """As many numbers as the rows have parameters."""
        size, server, count = self.setup.layout.size, self._server, self.per_round
        if self.setup.method.where.one_server:
            return f"({count} x {size - server:,} + {server:,})", count * (size - server) + server
        return f"{count} x {size:,}", count * size

    def _rows(self) -> list[Memory]:
        in_rows, rows = self._in_rows()
        statistics = self.per_round * self.setup.layout.statistics_size
        return [
            self._item("rows: weights", in_rows, rows),
            self._item("rows: statistics", f"{statistics:,}", statistics),
            self._item("gradients", in_rows, rows),
        ]

    def _momentum(self) -> list[Memory]:
        moments, count, server = self.setup.optimizer.moments, self.per_round, self._server
        if not moments:
            return []
        if not self.setup.method.fuse:
            in_rows, rows = self._in_rows()
            return [self._item("momentum", f"{moments} x {in_rows}", moments * rows)]
        client, fused = self.setup.layout.size - server, 1 + 2 * count
        return [
            self._item("momentum: client parts", f"{moments} x {count} x {client:,}", moments * count * client),
            self._item("momentum: fused", f"{moments} x {fused} x {server:,}", moments * fused * server),
        ]

    def _sums(self) -> list[Memory]:
        layout, moments = self.setup.layout, self.setup.optimizer.moments if self.setup.method.carry else 0
        # K P of the average, and the vectors of a tree with J leaves
        vectors = moments * (2 + (self.per_round - 1).bit_length())
        numbers = (1 + vectors) * layout.size + layout.statistics_size
        return [self._item("sums", f"({1 + vectors} x {layout.size:,} + {layout.statistics_size:,})", numbers)]

    def _passes(self) -> list[Memory]:
        asked = self.clients if self.judged_by_clients else self.per_round
        messages, threads = ANSWERS * asked, self.threads
        forward, largest = self._made()
        batches = max(self.at_a_time, threads)
        merged = self.per_round if self.setup.method.where.merges else 1
        weight = max(one.numel() * one.element_size() for one in self.setup.template.parameters())
        backward = GRADIENTS * merged * largest, OF_WEIGHTS * weight
        each = " + ".join(map(as_text, backward))
        return [
            Memory("activations", f"{batches} x {as_text(forward)}", batches * forward),
            Memory("backward passes", f"{threads} x ({each})", threads * sum(backward)),
            self._end_of_round(),
            Memory("messages", f"{messages} x {as_text(self.largest)}", messages * self.largest),
            Memory("libraries", as_text(WORK), WORK),
        ]

    def _end_of_round(self) -> Memory:
        """Rows are added up, then the model is judged in the same room."""
        size, judging = self.setup.layout.size, round(GAPS * self._evaluation())
        ending = self._item("end of a round", f"{ENDING} x {size:,}", ENDING * size)
        judged = Memory("end of a round", f"evaluation of {min(AT_A_TIME, self.judged)} samples", judging)
        return max(ending, judged, key=lambda one: one.bytes)

    @property
    def threads(self) -> int:
        """How many have computed passes, and so have a heap: the main one, and those of a pool, even if it is timed
        only and not used."""
        pooled = self._in_pool
        device = next(iter(self.setup.template.parameters())).device
        return 1 if self.setup.method.where.one_server or pooled < 2 or device.type != "cpu" else 1 + pooled

    @property
    def _in_pool(self) -> int:
        return min(self.per_round, self.config.workers or max(1, available_cores() // self.config.threads))

    @property
    def at_a_time(self) -> int:
        """Of how many clients activations are needed at a time."""
        where = self.setup.method.where
        if where.merges:
            return self.per_round
        if where.one_server:
            return 1
        if any(cut.u_shaped for cut in self._cuts):
            return self.per_round
        return self._in_pool

    def _made(self) -> tuple[int, int]:
        """What the operations of the server's forward pass make of a client's batch, and the largest of it, worked out
        from two samples and from four."""
        found = [self._made_of(samples) for samples in (2, 4)]
        more = (self.config.batch_size - 2) / 2
        total, largest = (max(0, round(two + (four - two) * more)) for two, four in zip(*found, strict=True))
        return total, largest

    def _made_of(self, samples: int) -> tuple[int, int]:
        cut = max(self._cuts, key=lambda one: columns_in(one.server(self.setup.layout)))
        device = next(iter(self.setup.template.parameters())).device
        model = shell(self.setup.template).eval()  # which changes no statistics
        seen: list[Tensor] = []  # which keeps them, so that each has its own place
        with self.setup.cast():
            with torch.no_grad():
                activation = blocks_of(model, 0, cut.first)(self.task.inputs(samples, device))
            with observing(seen.extend):
                blocks_of(model, cut.first, cut.last)(activation.clone().requires_grad_())
        own = {one.untyped_storage().data_ptr() for one in (*model.parameters(), *model.buffers())}
        made = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in seen}
        sizes = [size for place, size in made.items() if place not in own]
        return sum(sizes), max(sizes, default=0)

    def _evaluation(self) -> int:
        """What the widest operation of an evaluation takes and gives."""
        if not self.judged:
            return 0
        device = next(iter(self.setup.template.parameters())).device
        model = shell(self.setup.template).eval()
        return widest_of_batch(model, self.task.inputs(2, device), min(AT_A_TIME, self.judged))


def check_memory(limit: str | None, methods: Sequence[ServedMemory], seeds: int, device: torch.device) -> None:
    """Refuse a run that needs more than `limit`, or more than there is."""
    most = max((one.items() for one in methods), key=total_of)
    # all runs are prepared before the first of them begins
    lasting = sum(one.lasting() for one in methods) * seeds
    items = [*most, Memory("models", f"of {plural(len(methods) * seeds, 'run')}", lasting)]
    needed = total_of(items)
    sums = ", ".join(f"{item.what} {item.arithmetic}" for item in items if item.bytes > needed / 50)
    less = "A smaller model, a lower participation or fewer clients need less"
    if limit is not None:
        used = in_use_on(device)
        if used + needed > check_size("memory_limit", limit):
            refuse(
                "memory_limit",
                limit,
                f"at least {as_text(used + needed)} = {as_text(used)} that this process already uses + "
                f"{as_text(needed)} for {sums}. {less}",
            )
    elif needed > (left := _left(device)):
        raise InputError(
            f"this run is not accepted: a round needs {as_text(needed)} for {sums}, and {as_text(left)} of memory are "
            f"available. {less}, or say with memory_limit how much may be used all the same"
        )


def _left(device: torch.device) -> float:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available()
