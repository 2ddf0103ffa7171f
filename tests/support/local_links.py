"""Links within one process: every client is a `Participation`, messages are real bytes, and answers come back in a
random order."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import torch

import smofi
from smofi.engine.cohort.wire import Compression
from smofi.engine.remote.cohort import Deployment, RemoteCohort
from smofi.engine.remote.crossing import Task
from smofi.engine.remote.device import Device
from smofi.engine.remote.links import Expected, Lost
from smofi.engine.remote.messages import Down, Rest, Up
from smofi.net.fields import NotFinite
from smofi.net.frames import read
from smofi.net.messages import pack, read_up
from smofi.serving.participation import Agreed, Participation

Chosen = Callable[[int, Up], bool]
"""chosen(client, message): whether this message does not come."""

Forge = Callable[[int, Up], Up]
"""forge(client, message): what is sent in its place."""


class LocalLinks:
    """`loses` are messages in place of which the client is lost; `silent` are messages that never come; `forge` changes
    messages on their way.

    A loss is known when all other answers are, or with `early` at any time. `most_ahead` is by how many steps a client
    was ahead of the slowest that was not done; `rested` are clients that were left out, and why. `now` is a clock of
    its own: no time passes but that in which the server waits for what never comes.
    """

    def __init__(
        self,
        seed: int = 0,
        loses: Chosen | None = None,
        silent: Chosen | None = None,
        early: bool = False,
        forge: Forge = lambda client, message: message,
    ) -> None:
        self.random, self.loses, self.silent, self.early = random.Random(seed), loses, silent, early
        self.forge = forge
        self.clients: dict[int, Participation] = {}
        self.wire: Compression | None = None
        self.waiting: list[tuple[int, Up | Lost]] = []
        self.rested: list[tuple[int, str]] = []
        self.most_ahead = self.bytes = 0
        self.now = 0.0

    def send(self, client: int, message: Down, expected: Expected | None = None) -> None:
        answers = list(self.clients[client].answers(self._crossed(message)))
        if isinstance(message, Rest):
            assert not answers
            assert expected is None
            self.rested.append((client, message.reason))
            return
        (answer,) = answers
        self._compare_steps(client)
        assert expected is not None
        if self.silent and self.silent(client, answer):
            return
        lost = self.loses is not None and self.loses(client, answer)
        arrived = Lost("it was switched off") if lost else self._arrived(self.forge(client, answer), expected)
        self.waiting.append((client, arrived))

    def receive(self, timeout: float | None) -> tuple[int, Up | Lost] | None:
        if timeout == 0 and self.random.random() < 0.5:
            return None  # all are still on their way
        if not self.waiting:
            assert timeout is not None, "the server waits for a message that nobody owes"
            self.now += timeout
            return None
        answers = [place for place, (_, one) in enumerate(self.waiting) if self.early or not isinstance(one, Lost)]
        return self.waiting.pop(self.random.choice(answers or range(len(self.waiting))))

    def _arrived(self, answer: Up, expected: Expected) -> Up | Lost:
        try:
            return read_up(self._crossed(answer), expected, self.wire)
        except NotFinite as error:
            return Lost(str(error), diverged=True)

    def _crossed(self, message: Down | Up) -> Any:
        """As it arrives: bytes, with tensors of their own."""
        payload = b"".join(pack(message, self.wire))
        self.bytes += len(payload)
        return read(payload)

    def _compare_steps(self, client: int) -> None:
        done = {number: one.current.steps.done for number, one in self.clients.items() if one.current}
        if client in done:
            self.most_ahead = max(self.most_ahead, done[client] - min(done.values()))


def remotely(
    session: smofi.Session, patience: float | None = None, pool: Executor | None = None, **options: Any
) -> LocalLinks:
    """Make a session compute its clients behind links, which get the options."""
    run, links = session.run, LocalLinks(**options)
    simulation, setup = run.simulation, run.simulation.setup
    links.wire = setup.wire if isinstance(setup.wire, Compression) else None
    inputs, targets = simulation.clients[0].batch(torch.arange(1))
    task = Task(tuple(inputs.shape[1:]), inputs.dtype, tuple(targets.shape[1:]), targets.dtype)
    own = {field.name: getattr(simulation, field.name) for field in fields(simulation)}
    options_of = dict(task=task, patience=patience, pool=pool, weights_later=True)
    run.simulation = deployment = Deployment(**own, **options_of, links=links)
    run.cohort = RemoteCohort  # type: ignore[assignment]
    crossings = {(cut.first, cut.last): deployment.crossing(cut) for cut in run.planner.cuts.options}
    asked = run.planner.settings
    agreed = SimpleNamespace(
        local_epochs=asked.local_epochs, batch_size=asked.batch_size, seed=asked.seed, rounds=run.rounds
    )
    for number, samples in enumerate(simulation.clients):
        device = Device(setup, samples, simulation.augment)
        links.clients[number] = Participation(Agreed(None, agreed, device, samples, crossings))  # type: ignore[arg-type]
    return links
