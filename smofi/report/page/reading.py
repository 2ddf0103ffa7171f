"""The runs of the given folders. One that cannot be read is listed with the reason, and the others are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from smofi.errors import InputError, refuse
from smofi.report.page.private import without_folders
from smofi.report.setups import folders_at
from smofi.report.show import Snapshot
from smofi.runs import DamagedFile, RunFolder, folders_in

UNFINISHED = ("still going", "interrupted")


@dataclass(frozen=True)
class FoundRun:
    """A run by the `label` it has on the page: the folder that was given, and what is below that. `error` says why it
    cannot be read; then there is no `run`."""

    label: str
    run: Snapshot | None
    error: str = ""

    @property
    def state(self) -> str:
        """That of the run, or damaged if it cannot be read."""
        return self.run.state if self.run else "damaged"

    @property
    def damage(self) -> list[str]:
        """What is wrong with its files."""
        if self.run is None:
            return [self.error]
        return [_named(error.what, self.run.path, self.label) for error in self.run.damaged]


def find_runs(paths: Sequence[str | Path]) -> list[FoundRun]:
    """All runs in these folders, each once; a folder without any is refused.

    >>> find_runs(["no-such-folder"])
    Traceback (most recent call last):
    smofi.errors.InputError: folder='no-such-folder' is not accepted: expected the folder of a run, but there is none
    """
    found: dict[Path, FoundRun] = {}
    for given in paths:
        for folder in folders_at(given):
            for one, run in _read(folder, given=Path(given)):
                found.setdefault(one.resolve(), run)
    if not any(one.run for one in found.values()):
        reasons = next((one.error for one in found.values()), "nothing was given")
        refuse("run", ", ".join(map(str, paths)), f"at least one run that can be read, but {reasons}")
    return list(found.values())


def _read(folder: Path, given: Path) -> Iterator[tuple[Path, FoundRun]]:
    """The run of a folder, or those of a comparison."""
    try:
        folders = folders_in(folder)
    except DamagedFile as error:
        yield folder, _unreadable(folder, given, error)
        return
    for one in folders:
        label = _label(one.path, given)
        try:
            yield one.path, FoundRun(label, Snapshot.read(RunFolder(one.path)))
        except InputError as error:
            yield one.path, _unreadable(one.path, given, error)


def _unreadable(path: Path, given: Path, error: InputError) -> FoundRun:
    label = _label(path, given)
    what = error.what if isinstance(error, DamagedFile) else str(error)
    return FoundRun(label, None, _named(what, path, label))


def _label(path: Path, given: Path) -> str:
    """The name of the folder that was given, and the way from there.

    >>> _label(Path("a/b/c/smofi"), given=Path("a/b"))
    'b/c/smofi'
    """
    name = given.name if given.name not in ("", "..") else given.resolve().name
    return (Path(name) / path.relative_to(given)).as_posix()


def _named(text: str, path: Path, label: str) -> str:
    """A sentence about a folder's files, without the way to it."""
    name = label.rpartition("/")[2]
    return without_folders(text.replace(f"{path}/", f"{name}: ").replace(str(path), name))
