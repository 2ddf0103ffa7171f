"""The server's end: named clients that send and receive bytes, whatever the network does in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

from smofi.errors import InputError, refuse_unwanted
from smofi.files import allow_files
from smofi.net.transport import background
from smofi.net.transport.addresses import is_loopback, parse, written
from smofi.net.transport.backlog import Mailbox
from smofi.net.transport.channels import METHOD, SERVICE, grpc, server_options
from smofi.net.transport.envelope import Kind, Parts
from smofi.net.transport.events import Arrived, Joined, Left
from smofi.net.transport.gate import Gate, Refused
from smofi.net.transport.limits import Limits
from smofi.net.transport.notices import Observer, Unobserved
from smofi.net.transport.peer import Peer, PeerStatus
from smofi.net.transport.reception import Reception
from smofi.net.transport.sizes import check_payload
from smofi.net.transport.times import Times
from smofi.plural import plural


class Listener:
    """Listens at an address; every method may be called from any thread.

    Without credentials it speaks plain text, on loopback only, and clients name themselves; with credentials the gate
    names them by their certificates.

        >>> listener = Listener("127.0.0.1:0", None, None, Limits(), Times())
        >>> port = listener.start()
        >>> listener.peers()
        {}
        >>> listener.stop("the example is over", grace=1)
    """

    def __init__(self, address: str, credentials: Any, gate: Gate | None, limits: Limits, times: Times) -> None:
        self._host, self._port = parse(address)
        if credentials is None and not is_loopback(self._host):
            refuse_unwanted("address", address, "without certificates, a server listens on 127.0.0.1 only")
        if credentials is not None and gate is None:
            raise InputError("a server with certificates needs a gate that names its clients")
        self._credentials, self._gate = credentials, gate if credentials is not None else None
        self._limits, self._times = limits, times
        self.observer: Observer = Unobserved()
        """Is told at once what happens to connections."""
        self.events: Mailbox[Joined | Arrived | Left] = Mailbox()
        self._lock = threading.Lock()
        self._seen: dict[str, Peer] = {}  # the conversations that the application knows of
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self) -> int:
        """Listen, and say at which port."""
        loop = background.acquire(self._end)
        try:
            port = background.run(loop, self._start())
        except BaseException:
            background.release(self._end)
            raise
        self._loop = loop
        return port

    async def _start(self) -> int:
        self._reception = Reception(
            self._gate, self._limits, self._times, self.events, self._know, lambda: self.observer
        )
        # Each takes a file descriptor, before it has said anything. More than may stay, so that those can be told why.
        wanted, least = self._limits.connections, self._limits.strangers
        if (most := allow_files(wanted)) < min(wanted, least):
            raise InputError(
                f"the limit on open files leaves room for {plural(most, 'connection')}, and a server needs {least}: "
                "raise it with ulimit -n, or with LimitNOFILE of a service"
            )
        options = [*server_options(self._times), ("grpc.max_allowed_incoming_connections", most)]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((Methods(self._reception),))
        address = written(self._host, self._port)
        try:
            if self._credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError:
            await self._server.stop(None)
            raise InputError(
                f"a server cannot listen at {address}: another program has this port, or no such address is here"
            ) from None
        await self._server.start()
        if self._gate is not None:
            self._spawn(self._reception.watch())
        return int(port)

    def stop(self, reason: str, grace: float = 5.0) -> None:
        """Send what waits, tell clients the reason and end, after `grace` seconds at the latest."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                background.run(loop, self._stop(reason, grace))
                self._reception.asking.shutdown()
            finally:
                background.release(self._end)

    def _end(self) -> None:
        self.stop("the server's program ended", grace=1.0)

    async def _stop(self, reason: str, grace: float) -> None:
        await self._reception.close(reason, grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.stop(0.5)
        del self._server  # gRPC's own thread ends with the last server and channel

    # ----------------------------------------------------------------------------------------------- what clients get

    def send(self, name: str, payload: Parts) -> None:
        """Send a payload, in order; to a client that is away for a moment when it is back."""
        check_payload(payload, self._limits.payload)
        self._put(name, Kind.PAYLOAD, payload)

    def welcome(self, name: str, payload: Parts) -> None:
        """Answer a hello: the client may stay, and send."""
        check_payload(payload, self._limits.payload)
        if (peer := self._peer(name)) is not None:
            peer.link.may_receive = True
            self._put(name, Kind.WELCOME, payload)

    def dismiss(self, name: str, reason: str, final: bool) -> None:
        """Tell a client to go: for good, or to try again later."""
        peer = self._peer(name)
        if peer is not None:
            self._dismiss(peer, Refused(reason, final=final))

    def offended(self, name: str, reason: str) -> None:
        """Tell a client to go since its message cannot be used; after a few of them, keep its name out."""
        peer = self._peer(name)
        self._soon(lambda: self._reception.offended(name, peer, reason))

    def _put(self, name: str, kind: Kind, payload: Parts) -> None:
        peer = self._peer(name)
        if peer is not None and not peer.link.put(kind, payload):
            self._dismiss(peer, Refused("it does not take what is sent to it"))

    def _peer(self, name: str) -> Peer | None:
        """The conversation that the application knows of: not a newer one, whose `Joined` it has not seen yet."""
        with self._lock:
            return self._seen.get(name)

    def _dismiss(self, peer: Peer, refused: Refused) -> None:
        self._soon(lambda: self._reception.dismiss(peer, refused))

    def _soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: self._spawn(work()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ------------------------------------------------------------------------------------------------ what is told

    def _know(self, peer: Peer, here: bool) -> None:
        with self._lock:
            if here:
                self._seen[peer.name] = peer
                self._reception.unanswered.discard(peer.name)
            elif self._seen.get(peer.name) is peer:
                del self._seen[peer.name]

    def peers(self) -> dict[str, PeerStatus]:
        """The clients at this moment, by name."""
        if self._loop is None:
            return {}
        return background.run(self._loop, self._peers())

    async def _peers(self) -> dict[str, PeerStatus]:
        return {name: peer.status(monotonic()) for name, peer in self._reception.peers.items()}


class Methods(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """The one method that there is, and all others."""

    def __init__(self, reception: Reception) -> None:
        self._join, self._other = map(grpc.stream_stream_rpc_method_handler, (reception.join, reception.elsewhere))

    def service(self, details: Any) -> Any:
        return self._join if details.method == f"/{SERVICE}/{METHOD}" else self._other


__all__ = ["Listener"]
