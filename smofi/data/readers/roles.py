"""The texts of shakespeare by role, each role once, over the 80 characters of LEAF."""

from __future__ import annotations

from pathlib import Path

from smofi.data.decoded import Decoded
from smofi.data.formats.files import wrong
from smofi.data.formats.letters import NAMES, Changed, numbers, text_input
from smofi.data.formats.names import printable
from smofi.data.readers.leaf import LENGTH
from smofi.data.readers.texts import Texts, check_characters, normal


class Roles:
    """Texts to train on and to test on, role by role."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.changed = Changed()
        self.characters = self.too_short = 0
        self.texts = Texts(lambda text: numbers(text, self.changed), "shakespeare order")

    def add(self, name: str, text: str, path: Path) -> None:
        """Add a role, unless its text is too short for a single sample."""
        if name in self.names:
            wrong(path, f"every role once, but {printable(name)!r} occurs twice")
        self.names.add(name)
        self.characters += len(text)
        check_characters(self.characters, path)
        self.too_short += not self.texts.add(name, normal(text))

    def decoded(self, folder: Path) -> Decoded:
        """All of them, the samples of each split shuffled."""
        train, test = self.texts.splits(folder, "role")
        owners, tested = self.texts.owners, self.texts.texts["test"]
        roles = {"roles": len(owners), "roles_too_short": self.too_short, "roles_to_test": len(tested)}
        return Decoded(
            "text", train, test, NAMES, tuple(owners), standardise=False, length=LENGTH,
            about={**roles, **self.changed.about()}, raw_input=text_input(LENGTH),
        )  # fmt: skip
