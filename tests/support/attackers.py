"""Attackers who hold good certificates, and a served run that they attack: its server and its honest clients as
processes, streams as gRPC has them without any of our own client, and connections that say nothing."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from smofi.engine.plan import ClientPlan
from smofi.engine.remote.crossing import Crossing
from smofi.engine.remote.links import Shape
from smofi.models import build
from smofi.net.frames import Frame, Parsed, encode, read
from smofi.net.transport.channels import BROKEN, METHOD, SERVICE, grpc
from smofi.net.transport.envelope import Kind, Message, ProtocolError, pack, sentence_in, unpack
from smofi.serving.offer import Accepted, Offer
from smofi.serving.setups import setup_of, task_of
from support.attacks import (
    ENVELOPES,
    FRAMES,
    OPENINGS,
    Draft,
    Make,
    activation,
    forges_for,
    opening,
    with_flipped_numbers,
    with_odd_numbers,
)
from support.chaos import Nursery, Process, Usage
from support.ports import free_port

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


# ------------------------ an attacker who is selected: it plays along in rounds, and then sends a forgery of the mes


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


# ------------------------ a served run that is attacked: its server and its honest clients as processes, and connect


HONEST, ATTACKERS = 3, 10


def make_pki(folder: Path) -> Path:
    from smofi.net.certs import init, issue

    init(folder)
    issue(folder, server=["127.0.0.1", "localhost"])
    for name in [f"honest-{n}" for n in range(HONEST)] + [f"mallory-{n}" for n in range(ATTACKERS)]:
        issue(folder, client=name)
    return folder


@dataclass
class Attacked:
    """`words` are the settings of its run, for `honest` clients. Its server keeps no attacker out, as another would
    after a few messages, and so has to deal with all of them."""

    nursery: Nursery
    folder: Path
    pki: Path
    words: list[str]
    honest: int
    port: int = field(default_factory=free_port)

    def serve(self, name: str, *words: object) -> Process:
        server = ["serve", "--certs", self.pki / "server", "--listen", f"127.0.0.1:{self.port}"]
        return self.nursery.smofi(*server, *words, log=f"server-{name}", SMOFI_TESTS_PATIENT="1")

    def join(self, name: str) -> list[Process]:
        clients = []
        for number in range(self.honest):
            words = ["join", f"127.0.0.1:{self.port}", "--certs", self.pki / f"honest-{number}", "--part", number]
            log = f"{name}-honest-{number}"
            clients.append(self.nursery.smofi(*words, "--data", "digits", "--allow-labels", log=log))
        return clients

    def train(self, name: str, rounds: int) -> tuple[Path, Usage]:
        """A run that nobody attacks, and the most memory that its server takes."""
        folder = self.folder / name
        server, clients = self.serve(name, *self.words, "--rounds", rounds, "--output", folder), self.join(name)
        usage, end = server.usage(), time.monotonic() + 60 + 20 * rounds
        while server.alive and time.monotonic() < end:
            with suppress(OSError):  # it may end while it is looked at
                usage = max(usage, server.usage(), key=lambda one: one.memory)
            time.sleep(0.5)
        assert server.wait(1) == 0, server.text()
        assert [client.wait(60) for client in clients] == [0] * self.honest
        return folder, usage


class Lorises:
    """Connections that say nothing, or a byte now and then; those that the server closes are made again."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count, self.made, self.closed = port, count, 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Lorises:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connections: list[socket.socket] = []
        hello = bytes.fromhex("1603010200010001fc0303")
        while not self._stop.is_set():
            while len(connections) < self.count:
                connections.append(socket.create_connection(("127.0.0.1", self.port)))
                self.made += 1
            for number, one in enumerate(list(connections)):
                try:
                    one.setblocking(False)
                    if number % 3:
                        one.send(hello[self.made % len(hello) :][:1])
                    gone = one.recv(100) == b""
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    one.close()
                    connections.remove(one)
                    self.closed += 1
            self._stop.wait(0.5)
        for one in connections:
            one.close()
