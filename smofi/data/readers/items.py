"""The samples that lie in a folder: which files they are, to train on or to test on, of which class and whose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from smofi.data.formats.files import wrong
from smofi.data.formats.labels import LEAST_CLASSES, say_held_out
from smofi.data.formats.names import printable
from smofi.data.formats.pictures import SUFFIXES
from smofi.seeds import generator

OTHER_PROGRAMS = ("thumbs.db", "desktop.ini")
"""What other programs put into folders of pictures: not counted as left out."""

NO_TEXTS = ("readme.txt", "license.txt", "licence.txt")
"""Texts about the others, and no client's."""


@dataclass(frozen=True)
class Medium:
    """What the samples of a folder are: a word for one and for several, how their names end, if they have classes."""

    one: str
    many: str
    suffixes: tuple[str, ...]
    labelled: bool = True

    def has(self, path: Path) -> bool:
        """Whether the name is that of such a file.

        >>> PICTURES.has(Path("a.JPEG")), TEXTS.has(Path("README.txt"))
        (True, False)
        """
        name = path.name.lower()
        return name.endswith(self.suffixes) and (self.labelled or name not in NO_TEXTS)


PICTURES = Medium("picture", "pictures", SUFFIXES)
RECORDINGS = Medium("recording", "recordings", (".wav", ".wave"))
TEXTS = Medium("text", "texts", (".txt",), labelled=False)


@dataclass(frozen=True)
class Item:
    """A file, and what is known about it; `label` and `client` are empty where there are none."""

    path: Path
    label: str
    client: str = ""


@dataclass(frozen=True)
class Found:
    """The files to train on and those to test on; where the latter come from, and what is left out.

    Of texts without a test set of their own, `test` is empty: the end of each is for the test.
    """

    medium: Medium
    train: list[Item]
    test: list[Item]
    about: dict[str, str] = field(default_factory=dict)
    others: tuple[Path, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """All files that were looked at."""
        return [*(item.path for item in (*self.train, *self.test)), *self.others]


def with_test(found: Found, root: Path, instead: str = "a folder test beside a folder train") -> Found:
    """The same, checked, and with a test set made if there is none; `root` is where the files to train on lie, and
    `instead` what would be a test set of the user's own."""
    medium, train, test = found.medium, found.train, found.test
    classes = {item.label for item in train}
    if medium.labelled and len(classes) < LEAST_CLASSES.get():
        inside = " in the folders of the clients" if train[0].client else ""
        wrong(root, f"two classes or more, a sub-folder each{inside}, but there is only {min(classes)!r}")
    if not test:
        if not medium.labelled:
            own = f"the last fifth of every text; to choose the test set yourself, add {instead}"
            return replace(found, about={"test": own, **found.about})
        kept, held_out = _hold_out(train, medium, root)
        return replace(
            found, train=kept, test=held_out, about={"test": say_held_out(medium.many, instead), **found.about}
        )
    if test[0].client and not train[0].client:
        wrong(
            test[0].path,
            f"a {medium.one} in a class folder, as in {train[0].path}; the test set may have clients only if the "
            "training set does",
        )
    for item in test:
        if item.label not in classes:
            wrong(item.path, f"a class that is in {root} too, but {item.label!r} is not")
    return found


def left_out(paths: Iterable[Path], what: str, one: str = "") -> list[str]:
    """What is said of files that are not read, if there are any: how many, and how their names end; `one` is how it is
    said of a single file, if not the same.

    >>> left_out([Path("a.dcm"), Path("b.DCM")], "that are not pictures")
    ['2 files that are not pictures: .dcm (2)']
    """
    some = [path for path in paths if path.name.lower() not in OTHER_PROGRAMS]
    if not some:
        return []
    counts = Counter(printable(path.suffix.lower() or path.name)[:40] for path in some).most_common(5)
    listed = ", ".join(f"{ending} ({count:,})" for ending, count in counts)
    return [f"{len(some):,} files {what}: {listed}" if len(some) > 1 else f"1 file {one or what}: {listed}"]


def _hold_out(items: list[Item], medium: Medium, folder: Path) -> tuple[list[Item], list[Item]]:
    """A fifth of every class for the test, at least one of two; every client keeps something to train on."""
    chosen: set[int] = set()
    left = Counter(item.client for item in items)
    draw = generator(0, "folder test")
    for label in sorted({item.label for item in items}):
        rows = [row for row, item in enumerate(items) if item.label == label]
        wanted = max(1, round(len(rows) / 5)) if len(rows) > 1 else 0
        for row in draw.permutation(rows):
            client = items[row].client
            if wanted and left[client] > 1:
                chosen.add(int(row))
                left[client] -= 1
                wanted -= 1
    if not chosen:
        wrong(folder, f"at least two {medium.many} of some class, or a folder test beside train")
    train = [item for row, item in enumerate(items) if row not in chosen]
    return train, [items[row] for row in sorted(chosen)]
