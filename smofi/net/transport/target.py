"""The server that a client wants to reach, and why it cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smofi.errors import shortened
from smofi.net.logs import log
from smofi.net.transport.addresses import written
from smofi.net.transport.channels import grpc
from smofi.net.transport.gate import Refused

logger = logging.getLogger("smofi.net")


@dataclass(frozen=True)
class Target:
    """Where a server is, how to speak to it and as whom; `explain` may know better why it cannot be reached."""

    host: str
    port: int
    credentials: Any
    name: str | None
    explain: Callable[[str, int], str | None] | None

    def __str__(self) -> str:
        return written(self.host, self.port)

    def channel(self, options: list[tuple[str, Any]]) -> Any:
        """A new channel; it connects when it is used."""
        if self.credentials is None:
            direct = ("grpc.enable_http_proxy", 0)  # gRPC would go by http_proxy, even to 127.0.0.1
            return grpc.aio.insecure_channel(str(self), options=[*options, direct])
        return grpc.aio.secure_channel(str(self), self.credentials, options=options)

    async def failure(self, call: Any) -> str:
        """Why a call did not come about, as a sentence."""
        try:
            code, details = await asyncio.wait_for(asyncio.gather(call.code(), call.details()), 1)
        except asyncio.TimeoutError:
            return f"{self} closed the connection"
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return f"{self} says: {shortened(details, 300)}"
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return f"{self} is not a server of smofi"
        for found, sentence in _KNOWN.items():
            if found in details:
                return f"{self} {sentence}"
        return f"{self} cannot be reached ({code.name}: {shortened(details, 200)})"

    async def why(self, sentence: str) -> str:
        """A better sentence, if there is one; a `Refused` that is final goes on to the application."""
        if self.explain is None:
            return sentence
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, self.explain, self.host, self.port)
        except Refused as refused:
            if refused.final:
                raise
            found = refused.sentence
        except Exception:
            log(logger, "explanation_failed", level="error", exc_info=True, address=str(self))
            found = None
        return found or sentence


_KNOWN = {
    "Connection refused": "does not answer: nothing listens there",
    "DNS resolution failed": "cannot be found: its name has no address",
    "Network is unreachable": "cannot be reached: there is no network",
    "No route to host": "cannot be reached: there is no route to it",
    "Handshake read failed": "and this client do not accept each other's certificates",
    "CERTIFICATE_VERIFY_FAILED": "shows a certificate that this client does not accept",
    "Timeout": "does not answer",
    "Socket closed": "closed the connection: it is a server with certificates, or none of smofi's",
}
"""What is found in gRPC's details, and what that means."""
