"""An attacker who is selected: it plays along in rounds, and then sends a forgery of the message that is expected."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import torch

from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Shape
from smofi.models import build
from smofi.net.frames import Frame, Parsed, encode, read
from smofi.net.transport.channels import BROKEN, grpc
from smofi.net.transport.envelope import Kind, Message, pack, sentence_in, unpack
from smofi.serving.offer import Accepted, Offer
from smofi.serving.setups import setup_of, task_of
from support.forged import Draft, forges_for, with_flipped_numbers, with_odd_numbers
from support.mallory import PATIENCE, Mallory, Tally

TESTS = 50
"""Samples that it claims to hold out."""

TAKEN = "TAKEN"
"""A forgery that the server did not notice."""

NOT_FINITE, FLIPPED = "forged: numbers that are not finite", "forged: bits flipped in tensors"
UNFINISHED = "forged: pieces of a message without the last"


def no_such_kind(number: int, heard: int, body: bytes, draw: random.Random) -> bytes:
    kind = draw.choice((0, 9, 255, 2**63, Kind.OPENED, Kind.UNKNOWN, Kind.WELCOME))
    return kind.to_bytes(8, "little") + pack(Kind.PAYLOAD, number, heard, body)[8:]


def ahead(number: int, heard: int, body: bytes, draw: random.Random) -> bytes:
    return pack(Kind.PAYLOAD, number + draw.choice((1, 2, 1000, 2**60)), heard, body)


def never_sent(number: int, heard: int, body: bytes, draw: random.Random) -> bytes:
    return pack(Kind.PAYLOAD, number, heard + draw.choice((9, 1000, 2**62)), body)


def short(number: int, heard: int, body: bytes, draw: random.Random) -> bytes:
    return pack(Kind.PAYLOAD, number, heard, body)[: draw.randrange(24)]


WRAPPINGS: dict[str, Callable[[int, int, bytes, random.Random], bytes]] = {
    "envelope of another kind": no_such_kind,
    "envelope out of order": ahead,
    "envelope acknowledges what was not sent": never_sent,
    "envelope too short": short,
}
"""A right message in a wrong envelope."""


def crossing_of(offer: Offer) -> dict[tuple[int, int], Crossing]:
    """What crosses the cuts of a run: with it, an attacker knows what is expected of it."""
    from smofi.cut import parse_cut

    config, task = offer.config(), offer.task
    shape, classes = tuple(task["input_shape"]), len(task["classes"])
    model = build(config.model, seed=0, input_shape=shape, classes=classes, width=config.width, norm=config.norm)
    setup = setup_of(config, model, torch.device("cpu"))
    asked = task_of(task["kind"], shape, classes, setup.layout)
    cuts = parse_cut(config.cut, setup.layout, offer.clients).options
    return {(cut.first, cut.last): Crossing(setup, cut, asked) for cut in cuts}


class Participant(Mallory):
    """It claims to have `samples`. If it `diverges`, it also sends right messages with numbers that are none."""

    def __init__(
        self, address: str, credentials: Any, name: str, tally: Tally, seed: int, samples: int, diverges: bool
    ) -> None:
        super().__init__(address, credentials, name, tally, seed)
        self.samples, self.diverges = samples, diverges
        self.crossings: dict[tuple[int, int], Crossing] = {}

    async def take_part(self) -> None:
        """One session, until it is refused or leaves."""
        call = self._stream()
        try:
            if not await self._enter(call):
                await asyncio.sleep(0.05)
                return
            assert self.offer
            self.crossings = self.crossings or crossing_of(self.offer)
            self.number, self.heard = 0, 1
            await self._say(call, Accepted(self.samples, TESTS, self.offer.layout).pack())
            await self._play(call)
        except (asyncio.TimeoutError, *BROKEN):
            self.tally.add("(a session in a round)", "ended", 0)
        finally:
            call.cancel()

    async def _play(self, call: Any) -> None:
        answer = await self._next(call)
        while isinstance(answer, Parsed):
            frame = self._valid(answer)
            if frame is None:
                answer = await self._next(call)
            elif frame.kind != "finished" and self.draw.random() < 0.5:
                await self._say(call, encode(frame))
                answer = await self._next(call)
            elif self.diverges and frame.tensors and self.draw.random() < 0.6:
                answer = await self._diverge(call, frame)
            else:
                await self._forge(call, frame)
                return

    # ------------------------------------------------------------------------------------------------------ messages

    async def _say(self, call: Any, body: bytes) -> None:
        self.number += 1
        await call.write(pack(Kind.PAYLOAD, self.number, self.heard, body))

    async def _next(self, call: Any) -> Parsed | Message | None:
        """The next payload as it is read, a last word, or None if the stream ends."""
        while True:
            data = await asyncio.wait_for(call.read(), PATIENCE)
            if data is grpc.aio.EOF:
                return None
            message = unpack(data)
            if message.kind == Kind.PAYLOAD:
                self.heard = message.number
                return read(message.body)
            if message.kind in (Kind.REFUSED, Kind.GOODBYE):
                return message

    def _valid(self, asked: Parsed) -> Frame | None:
        """What an honest client could answer."""
        if asked.kind == "evaluate":
            return Frame("evaluated", {"round": asked.fields["round"], "samples": TESTS, "correct": 7})
        if asked.kind == "begin":
            given: dict[str, Any] = dict(asked.fields)
            self.crossing = self.crossings[given["first"], given["last"]]
            plan = {name: given[name] for name in ("seed", "round", "client", "steps", "batch_size")}
            self.plan, self.step = ClientPlan(**plan), 0
        elif asked.kind == "output":
            fields = {"round": self.plan.round, "step": self.step, "loss": 2.25}
            return Frame("returned", fields, self._filled(self.crossing.expects_returned(self.plan, self.step).tensors))
        elif asked.kind == "cut_gradient":
            self.step += 1
        else:
            return None
        if self.step == self.plan.steps:
            expected = self.crossing.expects_finished(self.plan, square=False)
            return Frame("finished", {"round": self.plan.round}, self._filled(expected.tensors))
        expected = self.crossing.expects_activation(self.plan, self.step, square=False)
        fields = {"round": self.plan.round, "step": self.step}
        return Frame("activation", fields, self._filled(expected.tensors))

    def _filled(self, shapes: dict[str, Shape]) -> dict[str, torch.Tensor]:
        seeded = torch.Generator().manual_seed(self.draw.getrandbits(31))
        return {
            name: torch.randint(one.classes, one.sizes, generator=seeded)
            if one.classes
            else 0.1 * torch.randn(one.sizes, generator=seeded, dtype=one.dtype)
            for name, one in shapes.items()
        }

    # ----------------------------------------------------------------------------------------------------- forgeries

    async def _diverge(self, call: Any, frame: Frame) -> Parsed | Message | None:
        """A right message with numbers that may be none. The session goes on with what comes in return."""
        flips = frame.kind != "finished" and self.draw.random() < 0.5  # a sum that is taken has to be an honest one
        forged = (with_flipped_numbers if flips else with_odd_numbers)(frame, self.draw)
        await self._say(call, encode(forged))
        answer = await self._next(call)
        left_out = isinstance(answer, Parsed) and answer.kind == "rest"
        said = "left out: " + str(answer.fields["reason"]) if left_out and isinstance(answer, Parsed) else None
        self.tally.add(FLIPPED if flips else NOT_FINITE, said or ("as any number" if flips else TAKEN))
        return answer

    async def _forge(self, call: Any, frame: Frame) -> None:
        """A message that no server may take; the session ends with it."""
        forges = forges_for(frame)
        name = self.draw.choice([*forges, *WRAPPINGS, UNFINISHED])
        if name == UNFINISHED:
            await self._begin_pieces(call, encode(frame))
            return
        if name in WRAPPINGS:
            message = WRAPPINGS[name](self.number + 1, self.heard, encode(frame), self.draw)
        else:
            message = pack(Kind.PAYLOAD, self.number + 1, self.heard, forges[name](Draft.of(frame), self.draw))
        await call.write(message)
        self.tally.add(f"forged: {name}", await self._verdict(call, frame.kind, name))

    async def _verdict(self, call: Any, kind: str, name: str) -> str:
        try:
            answer = await self._next(call)
        except asyncio.TimeoutError:
            return "no answer"
        except BROKEN:
            return "ended"
        if isinstance(answer, Parsed) and answer.kind == "rest":
            return "left out meanwhile"  # the round began anew with others: what it still sends is not looked at
        if isinstance(answer, Parsed):
            return f"{TAKEN}: {kind}, {name}, then came {answer.kind}"
        return "ended" if answer is None else f"refused: {sentence_in(answer)}"

    async def _begin_pieces(self, call: Any, body: bytes) -> None:
        """It leaves in the middle of a message."""
        count = self.draw.randint(1, 6)
        for number in range(count):
            self.number += 1
            await call.write(pack(Kind.PIECE, self.number, self.heard, body[64 * number : 64 * number + 64]))
        self.tally.add(UNFINISHED, "left unfinished", count)
