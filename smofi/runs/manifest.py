"""What belongs to a run: every file that was saved, with its checksum, and which run it is.

    manifest.json    {"run": "5f0c...", "files": {"config.yaml": [{"size": 2046, "sha256": "9b1d..."}], ...}, ...}

It is replaced in one go with each save. A file that is about to be replaced is listed twice, as it is and as it will
be: so a process may be killed at any moment, and each file is one that the manifest lists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from smofi.errors import InputError
from smofi.files import read_regular, sealed, unsealed

MANIFEST, FORMAT, LARGEST = "manifest.json", "smofi-run-1", 16 * 2**20
AT_ONCE = 2**20
CHANGED = "is not what the run saved (its checksum differs): it is damaged, edited or from another run"


class DamagedFile(InputError):
    """A file of a run that is missing, or not as the run saved it: what is wrong with it, and what to do about it.

    >>> DamagedFile("a.json is missing", "Put it back")
    DamagedFile('a.json is missing. Put it back')
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what = what
        super().__init__(f"{what}. {remedy}" if remedy else what)


class UnreadableFile(DamagedFile):
    """A file of a run that the system does not give, perhaps only at this moment."""


@dataclass(frozen=True)
class Checksum:
    """The size and the hash of a file's content, or of its beginning."""

    size: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Checksum:
        """That of a content.

        >>> Checksum.of(b"")
        Checksum(size=0, sha256='e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
        """
        return cls(len(content), hashlib.sha256(content).hexdigest())

    @classmethod
    def of_file(cls, path: Path) -> Checksum:
        """That of a file, however large."""
        digest, size = hashlib.sha256(), 0
        with open(path, "rb") as file:
            while piece := file.read(AT_ONCE):
                digest.update(piece)
                size += len(piece)
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class SavedRounds:
    """The lines of metrics.jsonl that belong to the last save: how many, and their checksum."""

    rounds: int = 0
    content: Checksum = field(default_factory=lambda: Checksum.of(b""))


@dataclass(frozen=True)
class Manifest:
    """The identity of a run; for each of its files by its name below the folder, what it may be; and the rounds that
    were saved, as they may be. A comparison has `runs`, by the names of their folders, in place of rounds."""

    run: str
    files: Mapping[str, Sequence[Checksum]] = field(default_factory=dict)
    saved: Sequence[SavedRounds] = (SavedRounds(),)
    runs: Mapping[str, str] = field(default_factory=dict)

    def check(self, path: Path, name: str, found: Checksum) -> None:
        """Refuse a file that is not what the run saved."""
        if found not in self.files.get(name, ()):
            raise DamagedFile(f"{path} {CHANGED}")

    def encode(self) -> bytes:
        """As JSON that tells by itself whether it was changed."""
        return sealed({"format": FORMAT, **asdict(self)})

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a file; raises DamagedFile if it is none, or not as it was written."""
        content = read_regular(path, LARGEST, "the manifest of a run")
        try:
            values = unsealed(content)
        except ValueError:
            raise DamagedFile(f"{path} {CHANGED}") from None
        try:
            if values["format"] != FORMAT:
                raise DamagedFile(f"{path} has format {values['format']!r}: expected {FORMAT!r}")
            files = {str(name): [Checksum(**one) for one in sums] for name, sums in values["files"].items()}
            saved = [SavedRounds(int(one["rounds"]), Checksum(**one["content"])) for one in values["saved"]]
            return cls(str(values["run"]), files, saved, {str(name): str(run) for name, run in values["runs"].items()})
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, DamagedFile):
                raise
            raise DamagedFile(f"{path} cannot be read: {error}") from None
