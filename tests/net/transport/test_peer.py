"""A client as the server sees it, at moments that are hard to meet with a network."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from smofi.net.transport.backlog import Mailbox
from smofi.net.transport.envelope import Kind, Opening, pack_sentence
from smofi.net.transport.limits import Limits
from smofi.net.transport.peer import Peer


class Leaving:
    """A stream whose client says goodbye at once."""

    async def read(self) -> bytes:
        return pack_sentence(Kind.GOODBYE, "it said goodbye")

    async def write(self, message: bytes) -> None:
        pass


def test_a_stream_that_ends_twice_at_a_time_leaves_no_noise() -> None:
    """The client says goodbye, and gRPC ends the stream before anyone has heard."""
    heard: list[Any] = []

    async def converse() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        peer = Peer("a", Opening(bytes(16), False, 0, "a", b""), Limits(), Mailbox())
        carrying = asyncio.ensure_future(peer.carry(Leaving()))
        await asyncio.sleep(0)
        assert peer._stream is not None
        peer._stream.add_done_callback(lambda _: carrying.cancel())
        await asyncio.wait({carrying})
        assert carrying.cancelled()
        assert not peer.connected

    asyncio.run(converse())
    gc.collect()
    assert heard == []
