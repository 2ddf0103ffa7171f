"""The gate of a server, as its listener asks it."""

from __future__ import annotations

from dataclasses import dataclass

from smofi.net.certs import Gate, Refused
from smofi.net.transport.gate import Refused as Turned


@dataclass(frozen=True)
class Admission:
    """A client's name from its certificate. Lists may change, so no refusal is for good."""

    gate: Gate

    def name_of(self, pem: bytes | None) -> str:
        """The name, or a refusal in a sentence."""
        if pem is None:
            raise Turned("a client needs a certificate", final=True)
        try:
            return self.gate.admit(pem)
        except Refused as error:
            raise Turned(str(error), name=error.name) from None
