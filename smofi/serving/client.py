"""`smofi join`: take part in a served run, until it is over."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from smofi.data.decoded import ReadProgress, silent
from smofi.data.samples import TensorSamples
from smofi.engine.check import check_device
from smofi.engine.cpu.threads import in_threads
from smofi.engine.noise import own_random_state
from smofi.engine.remote.messages import Finished
from smofi.errors import InputError, SmofiError, check_count
from smofi.memory import as_text
from smofi.net.frames import BadFrame, read
from smofi.net.messages import pack
from smofi.net.transport.dialer import Dialer
from smofi.net.transport.envelope import Buffer, Parts
from smofi.net.transport.events import Dismissed, Received, Restarted, Waiting, Welcomed
from smofi.net.transport.limits import Limits
from smofi.net.transport.line import Resumed
from smofi.net.transport.sizes import size
from smofi.net.transport.times import Times
from smofi.plural import plural
from smofi.serving.limits import BEFORE_AN_OFFER, MOST_STEPS, limits_for
from smofi.serving.offer import OFFER, Offer
from smofi.serving.own_data import OwnData
from smofi.serving.participation import Agreed, Participation
from smofi.serving.setups import refuse_offer
from smofi.serving.told import NOTICE, OVER, read_told
from smofi.serving.waiting import Waits

Say = Callable[[str], object]

WAIT = 20.0
"""Seconds that a dry run waits for the server."""


EVERY = 30.0
"""Seconds between two lines on how far it is."""


REFUSES = "it cannot take part, or does not want to; its own user is told why"
"""What a server is told: why may have the names of files and classes in it, which stay on this machine."""


class NotWanted(SmofiError):
    """The server does not want this client, and trying again cannot help."""


@dataclass(frozen=True)
class Joining:
    """A client as its user describes it: the server's address, its certificates (None: plain text, on this machine
    only), its data; whether labels may leave this machine; and names of code of its own, by setting."""

    address: str
    data: OwnData
    certs: Path | None = None
    name: str | None = None
    allow_labels: bool = False
    own: Mapping[str, str] = field(default_factory=dict)
    device: str = "cpu"
    threads: int = 1
    times: Times = field(default_factory=Times)
    limits: Limits = BEFORE_AN_OFFER
    progress: ReadProgress = silent


class Client:
    """The conversation with the server; `say` tells people what happens."""

    def __init__(self, joining: Joining, say: Say) -> None:
        check_joining(joining)
        self.joining, self.say, self.waits = joining, say, Waits(say)
        self.dialer = dialer_of(joining)
        self.samples: dict[str, tuple[TensorSamples, TensorSamples]] = {}
        self.part: Participation | None = None
        self.bytes_up = self.bytes_down = self.rounds = 0
        self.told = 0.0

    def run(self) -> str:
        """Take part until the run is over; returns why it is. Raises NotWanted if the server refuses this client."""
        with in_threads(self.joining.threads), own_random_state(torch.device(self.joining.device)):
            self.dialer.start()
            goodbye = "its user ended it"
            try:
                over = self._converse()
                goodbye = "the run is over"
                return over
            except Dismissed as error:
                raise NotWanted(f"{self.joining.address} refuses this client: {error.reason}") from None
            except SmofiError:
                goodbye = REFUSES
                raise
            finally:
                self.dialer.close(reason=goodbye)

    def offered(self) -> Agreed:
        """What the server asks for; nothing is accepted, and nothing but a hello is sent."""
        self.dialer.start()
        end, why = time.monotonic() + WAIT, f"{self.joining.address} did not answer within {WAIT:g} s"
        try:
            while time.monotonic() < end:
                with suppress(queue.Empty):
                    event = self.dialer.receive(max(0.1, end - time.monotonic()))
                    if isinstance(event, Waiting):  # to try again is what `run` is for
                        why = reason_of(event)
                        break
                    elif isinstance(event, Welcomed):
                        parsed = read(event.payload)
                        if parsed.kind == OVER:
                            raise InputError(f"{self.joining.address} asks for nothing: {read_told(parsed)}")
                        return self._agree(Offer.read(parsed), dry=True)
            raise InputError(why)
        except Dismissed as error:
            raise NotWanted(f"{self.joining.address} refuses this client: {error.reason}") from None
        finally:
            self.dialer.close(reason="it was a dry run")

    def _converse(self) -> str:
        while True:
            event = self.dialer.receive()
            if isinstance(event, Waiting):
                self.waits.wait(reason_of(event))
            elif isinstance(event, Resumed):
                self.waits.over(f"connected to {self.joining.address} again")
            elif isinstance(event, Restarted):
                self.part = None
                if not event.refused:
                    self.say("the server was restarted, or counted this client as gone; waiting for its next round")
            elif isinstance(event, Welcomed | Received):
                self.waits.over()
                self.bytes_down += len(event.payload)
                try:
                    over = self._take(event.payload)
                except BadFrame as error:
                    raise InputError(f"{self.joining.address} sent something that is not accepted: {error}") from None
                if over is not None:
                    return over

    def _take(self, payload: Buffer) -> str | None:
        """Answer a message; returns why the run is over, if it is."""
        parsed = read(payload, shared=True)
        if parsed.kind == OVER:
            return read_told(parsed)
        if parsed.kind == NOTICE:
            self.say(read_told(parsed))
            return None
        if parsed.kind == OFFER:
            agreed = self._agree(Offer.read(parsed))
            self.part = Participation(agreed)
            self.dialer.expect(limits_for(agreed.largest).payload)
            told = {"keepalive": agreed.offer.keepalive, "connect": agreed.offer.connect}
            self.dialer.keep_to(replace(self.joining.times, **told))
            self._send(agreed.accepted().pack())
            self.say(f"joined {self.joining.address} {agreed.in_short}; a round begins when enough clients are there")
            return None
        if self.part is None:
            raise BadFrame("kind", f"is {parsed.kind}: expected {OFFER} first")
        for answer in self.part.answers(parsed):
            self._send(pack(answer, self.part.agreed.wire))
            if isinstance(answer, Finished):
                self.rounds += 1
                self._tell_progress(answer.round + 1, self.part.agreed.config.rounds)
        return None

    def _tell_progress(self, round: int, rounds: int) -> None:
        """After the first round, and then now and again."""
        if self.rounds == 1 or time.monotonic() >= self.told + EVERY:
            self.told = time.monotonic()
            sent, received = as_text(self.bytes_up), as_text(self.bytes_down)
            self.say(f"round {round:,} of {rounds:,} done; {sent} sent, {received} received")

    def _send(self, payload: Parts) -> None:
        self.bytes_up += size(payload)
        self.dialer.send(payload)

    def _agree(self, offer: Offer, dry: bool = False) -> Agreed:
        """The run, if it can be accepted with this client's data and what its user allows."""
        joining, config = self.joining, offer.config(dict(self.joining.own))
        key = repr((offer.task, config.image_size, config.seed, config.partition, config.clients))
        if key not in self.samples:
            self.samples = {key: joining.data.load(offer, config, joining.progress)}
        agreed = Agreed.of(offer, config, *self.samples[key], torch.device(joining.device))
        if agreed.sends_labels and not joining.allow_labels and not dry:
            raise refuse_offer(
                "it needs labels on the server, and they leave this machine only with --allow-labels; without it, a "
                "client only joins U-shaped runs (a cut such as 2,1)"
            )
        if not (agreed.batch_sizes or dry):
            least, own = config.batch_size, plural(len(agreed.device.samples), "training sample")
            raise refuse_offer(f"a batch has {least} samples, and with {own} here this client could never take part")
        if (steps := agreed.steps_with(config.batch_size)) > MOST_STEPS:
            raise refuse_offer(f"a round would be {steps:,} steps here, and at most {MOST_STEPS:,} are accepted")
        return agreed


def check_joining(joining: Joining) -> None:
    """Refuse what can be seen to be wrong before there is a server."""
    check_device(joining.device)
    check_count("threads", joining.threads)
    joining.data.check()


def reason_of(event: Waiting) -> str:
    """What it waits for, without when it tries again."""
    return event.sentence.rpartition("; trying again")[0] or event.sentence


def dialer_of(joining: Joining) -> Dialer:
    """The connection, with certificates or in plain text."""
    hello = lambda: b"smofi"  # noqa: E731
    if joining.certs is None:
        return Dialer(joining.address, None, hello, joining.limits, joining.times, name=joining.name)
    from smofi.net.certs import Identity, client_credentials, why_refused

    identity = Identity.load(joining.certs, "client")
    return Dialer(
        joining.address,
        client_credentials(identity),
        hello,
        joining.limits,
        joining.times,
        explain=lambda host, port: why_refused(host, port, identity),
    )
