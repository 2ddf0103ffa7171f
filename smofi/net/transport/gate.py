"""Who may come in."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """A client that may not come in, and why; `final` when trying again cannot help."""

    def __init__(self, sentence: str, *, final: bool = False) -> None:
        super().__init__(sentence)
        self.sentence, self.final = sentence, final


class Gate(Protocol):
    """Whoever knows the clients by their certificates."""

    def name_of(self, pem: bytes | None) -> str:
        """The name of the client that has this certificate; raises `Refused`. May be asked again at any time."""
        ...
