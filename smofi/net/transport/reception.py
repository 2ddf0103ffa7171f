"""What the server does with a new stream: who is it, may it come in, and is it back or new?"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Any

from smofi.net.logs import log
from smofi.net.transport.addresses import of_peer
from smofi.net.transport.backlog import Mailbox
from smofi.net.transport.channels import BROKEN, grpc
from smofi.net.transport.door import Door
from smofi.net.transport.envelope import Kind, Opening, ProtocolError, pack, pack_sentence, unpack_opening
from smofi.net.transport.events import Arrived, Joined, Left
from smofi.net.transport.gate import Gate, Refused
from smofi.net.transport.limits import Limits
from smofi.net.transport.link import Goodbye
from smofi.net.transport.notices import Observer, Refusals, Unobserved
from smofi.net.transport.offences import Offences
from smofi.net.transport.peer import Peer
from smofi.net.transport.times import Times

logger = logging.getLogger("smofi.net")
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
RECHECK = 3.0
"""Seconds between two questions to the gate about those who are connected."""

REMEMBERED = 1000
"""How many dismissed sessions are remembered, for clients that did not hear why."""


Seen = Callable[[Peer, bool], None]
"""seen(peer, here): the application knows that a client has come, or gone."""


class Reception:
    """All clients of a server. It belongs to the event loop."""

    def __init__(
        self,
        gate: Gate | None,
        limits: Limits,
        times: Times,
        events: Mailbox[Joined | Arrived | Left],
        seen: Seen,
        observer: Callable[[], Observer] = Unobserved,
    ) -> None:
        self.peers: dict[str, Peer] = {}
        self.events = events
        self._gate, self._limits, self._times, self._seen = gate, limits, times, seen
        self.unanswered: set[str] = set()
        """Whose hello the application has not seen yet: one each, so that they do not pile up."""
        self._streams = 0
        self._door, self._offences = Door(limits), Offences()
        self._observer, self._refusals = observer, Refusals(now=monotonic())
        self._dismissed: OrderedDict[bytes, Refused] = OrderedDict()
        self.asking = ThreadPoolExecutor(1, "smofi-net-gate")
        self.closing: str | None = None

    async def join(self, _: Any, stream: Any) -> None:
        """Handle one stream of a client, from its opening to its end. Whatever happens here stays here."""
        try:
            await self._join(stream)
        except BROKEN as error:
            log(logger, "stream_broke", level="debug", address=of_peer(stream.peer()), reason=str(error))
        except Exception:
            log(logger, "stream_failed", level="error", exc_info=True, address=of_peer(stream.peer()))

    async def _join(self, stream: Any) -> None:
        pem = self._certificate(stream)
        if (why := self.closing or self._door.closed(pem, self._streams, now=monotonic())) is not None:
            self._refused(stream, Refused(why))
            await self._hold()
            # Nothing has been read, so the client may still be writing: a status reaches it all the same.
            await stream.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, why)
        try:
            peer = await self._enter(stream, pem)
        except Refused as refused:
            self._refused(stream, refused)
            await self._tell(stream, pack_sentence(Kind.REFUSED, refused.sentence, final=refused.final))
            return
        if peer is None:
            await self._tell(stream, pack(Kind.UNKNOWN))
            return
        self._streams += 1
        try:
            await self._carry(peer, stream)
        finally:
            self._streams -= 1

    async def elsewhere(self, _: Any, stream: Any) -> None:
        """Handle a call of a method that is not there."""
        await self._hold()
        await stream.abort(grpc.StatusCode.UNIMPLEMENTED, "there is no such method")

    async def _hold(self) -> None:
        if self.closing is None:
            await self._door.hold(self._times.connect)

    def _refused(self, stream: Any, refused: Refused) -> None:
        """Say so, but not each time."""
        if self.closing is not None:
            return
        told = self._refusals.note(refused.name, of_peer(stream.peer()), refused.sentence, now=monotonic())
        self._observer().refused(told)
        if told is not None:
            known: dict[str, Any] = {"address": told.address, "reason": told.reason, "times": told.times}
            log(logger, "refused", level="warning", client=told.name, **known)

    async def _tell(self, stream: Any, message: bytes) -> None:
        """The last word on a stream. Whoever does not take it is not waited for, or its stream would count for ever."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(stream.write(message), self._times.connect)

    # ------------------------------------------------------------------------------------------------------ entering

    async def _enter(self, stream: Any, pem: bytes | None) -> Peer | None:
        """The client behind a new stream, or None for one that continues a conversation this server does not know."""
        with self._door.stranger(pem):
            opening = await self._opening(stream)
            name = await self._name(pem, opening)
        self._offences.check(name)
        try:
            return await self._peer(name, pem, opening, stream)
        except Refused as refused:
            refused.name = name
            raise

    async def _opening(self, stream: Any) -> Opening:
        try:
            first = await asyncio.wait_for(stream.read(), self._times.connect)
        except asyncio.TimeoutError:
            raise Refused(f"no hello came within {self._times.connect:g} s") from None
        if first is grpc.aio.EOF:
            raise Refused("the stream ended before a hello came")
        try:
            return unpack_opening(first, self._limits.hello)
        except ProtocolError as error:
            raise Refused(str(error), final=True) from None

    def _certificate(self, stream: Any) -> bytes | None:
        found = stream.auth_context().get("x509_pem_cert") if self._gate is not None else None
        return found[0] if found else None

    async def _name(self, pem: bytes | None, opening: Opening) -> str:
        if self._gate is None:
            name = opening.name
        else:
            name = await self._ask(pem)
        if not NAME.fullmatch(name):
            raise Refused("a client's name has up to 100 letters, digits, dots, dashes and underscores", final=True)
        return name

    async def _ask(self, pem: bytes | None) -> str:
        """What the gate says; it may read files, so not here."""
        assert self._gate is not None
        try:
            return await asyncio.get_running_loop().run_in_executor(self.asking, self._gate.name_of, pem)
        except (Refused, asyncio.CancelledError):
            raise
        except Exception:
            log(logger, "check_failed", level="error", exc_info=True)
            raise Refused("the server could not check the certificate") from None

    async def _peer(self, name: str, pem: bytes | None, opening: Opening, stream: Any) -> Peer | None:
        peer = self.peers.get(name)
        if (dismissed := self._dismissed.get(opening.session)) is not None:
            if not dismissed.final:  # it knows now, and may begin anew
                del self._dismissed[opening.session]
            raise dismissed
        if peer is not None and peer.session.identity == opening.session:
            await peer.interrupt()  # the network blinked, and this side may not have noticed
            if peer.over:
                return None
        elif opening.resumed:
            return None
        elif peer is not None and peer.connected:
            raise Refused(f"another process is connected as {name}")
        else:
            if name in self.unanswered or len(self.unanswered) >= self._limits.streams:
                raise Refused(f"the server has not come to the last hello of {name} yet")
            if peer is not None:
                self.leave(peer, "another process took its place")
            self.unanswered.add(name)
            peer = self.peers[name] = Peer(name, opening, self._limits, self.events)
            self.events.put(Joined(peer.name, peer.hello), partial(self._seen, peer, True))
        try:
            peer.session.resume(opening.received)
        except ProtocolError as error:
            raise Refused(self._broken(peer, error), final=True) from None
        peer.pem, peer.address = pem, of_peer(stream.peer())
        return peer

    # ------------------------------------------------------------------------------------------------ coming, going

    async def _carry(self, peer: Peer, stream: Any) -> None:
        log(logger, "back" if peer.away else "connected", client=peer.name, address=peer.address)
        if peer.away:
            peer.away = False
            self._observer().back(peer.name)
        try:
            await peer.carry(stream)
        except Goodbye as goodbye:
            self.leave(peer, goodbye.sentence)
        except ProtocolError as error:
            await self._tell(stream, pack_sentence(Kind.REFUSED, self._broken(peer, error), final=True))
        finally:
            if not peer.connected and not peer.over and self.closing is None:
                peer.wait_for_return(self._times.patience, lambda: self._expired(peer))
                if not peer.dismissed:
                    peer.away = True
                    log(logger, "away", level="warning", client=peer.name, address=peer.address)
                    self._observer().away(peer.name)

    def _expired(self, peer: Peer) -> None:
        self.leave(peer, f"it was away for {self._times.patience:g} s")

    def _broken(self, peer: Peer, error: ProtocolError) -> str:
        """A client that breaks the protocol is gone; what it is told."""
        self.leave(peer, str(error), refused=True)
        return self._offences.add(peer.name, str(error)).sentence

    def leave(self, peer: Peer, reason: str, refused: bool = False) -> None:
        """A client's conversation is over. The application says so to people: it knows who took part."""
        if peer.over:
            return
        peer.over = True
        peer.stop_waiting()
        peer.session.end()
        if self.peers.get(peer.name) is peer:
            del self.peers[peer.name]
        self.events.put(Left(peer.name, reason, refused), partial(self._seen, peer, False))

    async def dismiss(self, peer: Peer, refused: Refused) -> None:
        """Tell a client to go, after what was sent to it before, and count it as gone."""
        if peer.over:
            return
        self._dismissed[peer.session.identity] = refused
        while len(self._dismissed) > REMEMBERED:
            self._dismissed.popitem(last=False)
        peer.dismissed = True
        peer.link.finish(pack_sentence(Kind.REFUSED, refused.sentence, final=refused.final))
        await peer.ended(self._times.connect)
        await peer.interrupt()
        self.leave(peer, refused.sentence, refused=True)

    async def offended(self, name: str, seen: Peer | None, sentence: str) -> None:
        """A message of the peer that the application has `seen` cannot be used. Once too often, and the name is kept
        out, also where it has begun another conversation meanwhile."""
        refused = self._offences.add(name, sentence)
        sent_away = {seen, self.peers.get(name)} if refused.final else {seen}
        await asyncio.gather(*(self.dismiss(peer, refused) for peer in sent_away if peer is not None))

    async def watch(self) -> None:
        """Ask the gate again and again whether those who are here may stay."""
        while True:
            await asyncio.sleep(RECHECK)
            here = [peer for peer in self.peers.values() if peer.pem is not None and peer.connected]
            verdicts = [(peer, await self._verdict(peer)) for peer in here]
            await asyncio.gather(*(self.dismiss(peer, refused) for peer, refused in verdicts if refused is not None))

    async def _verdict(self, peer: Peer) -> Refused | None:
        try:
            name = await self._ask(peer.pem)
        except Refused as refused:
            return refused
        return None if name == peer.name else Refused(f"its certificate is not that of {peer.name}", final=True)

    async def close(self, reason: str, grace: float) -> None:
        """Tell every client why, after what was sent to it before, and end all streams."""
        self.closing = reason
        peers = list(self.peers.values())
        for peer in peers:
            peer.link.finish(pack_sentence(Kind.GOODBYE, reason), patient=True)
        await asyncio.gather(*(peer.ended(grace) for peer in peers))
        await asyncio.gather(*(peer.interrupt() for peer in peers))
        for peer in peers:
            peer.stop_waiting()
            peer.session.end()
