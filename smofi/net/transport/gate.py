"""Who may come in."""

from __future__ import annotations

from typing import Protocol


class Refused(Exception):
    """A client that may not come in, and why; `final` when trying again cannot help, `name` where it is known."""

    def __init__(self, sentence: str, *, final: bool = False, name: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence, self.final, self.name = sentence, final, name


class Gate(Protocol):
    """Whoever knows the clients by their certificates."""

    def name_of(self, pem: bytes | None) -> str:
        """The name of the client that has this certificate; raises `Refused`. May be asked again at any time."""
        ...
