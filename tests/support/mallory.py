"""A client that holds a good certificate and misbehaves: streams as gRPC has them, without any of our own client."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from smofi.net.frames import read
from smofi.net.transport.channels import BROKEN, METHOD, SERVICE, grpc
from smofi.net.transport.envelope import Kind, ProtocolError, pack, sentence_in, unpack
from smofi.serving.offer import Accepted, Offer
from support.attacks import ENVELOPES, FRAMES, OPENINGS, Make, activation, opening

PATIENCE = 30.0
"""Seconds for an answer, on a machine that is busy."""


@dataclass
class Tally:
    """What was sent, and how it was answered."""

    answers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, attack: str, answer: str, count: int = 1) -> None:
        kind, _, sentence = answer.partition(": ")
        self.answers[attack][kind] += count
        if sentence and attack not in self.examples:
            self.examples[attack] = sentence

    @property
    def sent(self) -> int:
        return sum(sum(one.values()) for one in self.answers.values())

    def lines(self) -> list[str]:
        """A table."""
        wide = max(map(len, self.answers), default=0)
        found = []
        for attack, answers in sorted(self.answers.items()):
            counts = ", ".join(f"{kind} {count}" for kind, count in answers.most_common())
            found.append(f"{attack:{wide}}  {sum(answers.values()):>7}  {counts}")
            if example := self.examples.get(attack):
                found.append(f"{'':{wide}}           such as: {example[:150]}")
        return found


class Mallory:
    """One attacker with one name; `tally` is shared."""

    def __init__(self, address: str, credentials: Any, name: str, tally: Tally, seed: int) -> None:
        self.address, self.credentials, self.name, self.tally = address, credentials, name, tally
        self.draw = random.Random(seed)
        self.offer: Offer | None = None
        self.channel: Any = None

    # ---------------------------------------------------------------------------------------------------- streams

    def _stream(self) -> Any:
        if self.channel is None:
            options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
            options.append(("grpc.use_local_subchannel_pool", 1))
            if self.credentials is None:
                self.channel = grpc.aio.insecure_channel(self.address, options=options)
            else:
                self.channel = grpc.aio.secure_channel(self.address, self.credentials, options=options)
        return self.channel.stream_stream(f"/{SERVICE}/{METHOD}")()

    async def close(self) -> None:
        if self.channel is not None:
            await self.channel.close()
            self.channel = None

    async def _enter(self, call: Any) -> bool:
        """Begin a session as an honest client would; False if it is not let in."""
        await call.write(opening(self.draw.randbytes(16), name=self.name))
        while True:
            answer = await asyncio.wait_for(call.read(), PATIENCE)
            if answer is grpc.aio.EOF or (message := unpack(answer)).kind in (Kind.REFUSED, Kind.UNKNOWN):
                return False
            if message.kind == Kind.WELCOME:
                self.offer = Offer.read(read(message.body))
                return True

    async def _answer(self, call: Any, opening: bool = False) -> str:
        """How the server answers, apart from what it would say to anyone."""
        try:
            while True:
                answer = await asyncio.wait_for(call.read(), PATIENCE)
                if answer is grpc.aio.EOF:
                    return "ended"
                message = unpack(answer)
                if message.kind in (Kind.REFUSED, Kind.GOODBYE):
                    return f"refused: {sentence_in(message)}"
                if message.kind == Kind.UNKNOWN:
                    return "unknown session"
                if message.kind == Kind.WELCOME and opening:
                    return "let in as itself"
        except asyncio.TimeoutError:
            return "no answer"
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name.lower()}: {error.details()}"
        except (ProtocolError, *BROKEN):
            return "ended"

    # ----------------------------------------------------------------------------------------------------- attacks

    async def attack(self, attack: str) -> None:
        """One message of this kind, or many where that is the attack."""
        call = self._stream()
        try:
            if attack in OPENINGS:
                self.tally.add(attack, await self._send(call, OPENINGS[attack](self.draw), opening=True))
            elif not await self._enter(call):
                self.tally.add("(not let in again yet)", "refused", 0)
                await asyncio.sleep(0.05)
            elif attack in ENVELOPES:
                self.tally.add(attack, await self._send(call, ENVELOPES[attack](self.draw)))
            elif attack in FRAMES:
                self.tally.add(attack, await self._frame(call, FRAMES[attack]))
            else:
                await MANY[attack](self, call)
        except (asyncio.TimeoutError, *BROKEN):
            self.tally.add(attack, "ended")
        finally:
            call.cancel()

    async def _send(self, call: Any, message: bytes, opening: bool = False) -> str:
        with contextlib.suppress(*BROKEN):
            await call.write(message)
        return await self._answer(call, opening)

    async def _frame(self, call: Any, make: Make) -> str:
        """A frame, half of the time of one who has accepted the offer with too few samples to be selected."""
        number = 1
        if self.draw.random() < 0.5:
            await call.write(pack(Kind.PAYLOAD, number, 1, self._accepted()))
            number += 1
        return await self._send(call, pack(Kind.PAYLOAD, number, 1, make(self.draw)))

    def _accepted(self) -> bytes:
        assert self.offer is not None
        return Accepted(1, 0, self.offer.layout).pack()

    async def replays(self, call: Any) -> None:
        """One good message, and the same again and again."""
        message = pack(Kind.PAYLOAD, 1, 1, self._accepted())
        await self._flood("replay: one message again and again", call, [message] * 1200)

    async def acknowledgements(self, call: Any) -> None:
        """Messages that say nothing."""
        await self._flood("flood: acknowledgements", call, [pack(Kind.ACKNOWLEDGED, 0, 0)] * 1200)

    async def payloads(self, call: Any) -> None:
        """Numbered rightly, as fast as they go."""
        base = activation(self.draw)
        await self._flood("flood: payloads", call, [pack(Kind.PAYLOAD, number, 1, base) for number in range(1, 200)])

    async def acceptances(self, call: Any) -> None:
        """Accepts what was offered once, and again."""
        messages = [pack(Kind.PAYLOAD, number, 1, self._accepted()) for number in range(1, 60)]
        await self._flood("flood: accepts again and again", call, messages)

    async def oversized(self, call: Any) -> None:
        """More than any message of the run may have."""
        await self._flood("message: larger than any may be", call, [pack(Kind.PAYLOAD, 1, 1, bytes(3 * 2**20))])

    async def _flood(self, attack: str, call: Any, messages: list[bytes]) -> None:
        sent = 0

        async def send() -> None:
            nonlocal sent
            with contextlib.suppress(*BROKEN):
                for message in messages:
                    await call.write(message)
                    sent += 1

        sending = asyncio.ensure_future(send())
        answer = await self._answer(call)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        self.tally.add(attack, answer, max(1, sent))


MANY = {
    "replay: one message again and again": Mallory.replays,
    "flood: acknowledgements": Mallory.acknowledgements,
    "flood: payloads": Mallory.payloads,
    "flood: accepts again and again": Mallory.acceptances,
    "message: larger than any may be": Mallory.oversized,
}
ATTACKS = [*OPENINGS, *ENVELOPES, *FRAMES, *MANY]
