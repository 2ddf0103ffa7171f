"""Which files of a folder are samples, of which class each is and whose, by the folders it lies in.

cat/1.png, dog/1.png                         a folder per class; a fifth of each class is kept for the test
train/cat/1.png, test/cat/1.png              test may also be called val, valid or validation
train/anna/cat/1.png, test/cat/1.png         clients; the test set may be divided too
anna.txt, ben.txt; anna/1.txt, ben/1.txt     texts have no class: a file per client, or a folder of files
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smofi.data.formats.files import Listing, listing, wrong
from smofi.data.formats.pictures import suffixes
from smofi.data.readers.items import PICTURES, RECORDINGS, TEXTS, Found, Item, Medium, left_out, with_test

TRAIN_FOLDERS = ("train", "training")
TEST_FOLDERS = ("test", "testing", "val", "valid", "validation")
"""In any case of letters; if there are several, the first of these is the test set, and the others are left alone."""


@dataclass(frozen=True)
class Tree:
    """All folders and all files below a folder."""

    root: Path
    folders: list[Path]
    files: list[Path]


def by_folders(folder: Path, listed: Listing) -> Found:
    """All samples in a folder; no folder is listed twice."""
    train_folder, test_folders = train_and_tests(folder, listed[0])
    trees = [walk(train_folder, listed if train_folder == folder else listing(train_folder))]
    trees += [walk(place, listing(place)) for place in test_folders[:1]]
    medium = medium_of(folder, [path for tree in trees for path in tree.files])
    train, *tests = (_items(tree, medium) for tree in trees)
    others = [path for tree in trees for path in tree.files if not medium.has(path)]
    beside = listed[1] if train_folder != folder else []
    said = [f"folder {path.name}/" for path in test_folders[1:]]
    said += left_out(others, f"that are not {medium.many}", f"that is not a {medium.one}") + left_out(
        beside, "outside the folders"
    )
    about = {"left_out": "; ".join(said)} if said else {}
    if tests:
        about = {"test": f"folder {test_folders[0].name}/", **about}
    return with_test(Found(medium, train, tests[0] if tests else [], about), train_folder)


def train_and_tests(folder: Path, inside: list[Path]) -> tuple[Path, list[Path]]:
    """Where the files to train on are, and those to test on; the first of several such folders counts."""
    names = {path.name.lower(): path for path in inside}
    trains = [names.pop(name) for name in TRAIN_FOLDERS if name in names]
    tests = [names.pop(name) for name in TEST_FOLDERS if name in names]
    others = [path.name for path in names.values()]
    if len(trains) == 1 and not others:
        return trains[0], tests
    if trains and tests:
        odd = [*others, *(path.name for path in trains[1:])][0]
        wrong(folder, f"only {trains[0].name} and {tests[0].name}, but there is {odd} too")
    if tests and not others:
        wrong(folder, f"a folder train beside {tests[0].name}")
    return folder, []  # classes or clients, one of which may well be called train


def medium_of(root: Path, files: list[Path]) -> Medium:
    """What the files are; other kinds of files may lie among them, but not pictures among recordings."""
    first = {medium: path for medium in (PICTURES, RECORDINGS, TEXTS) for path in reversed(files) if medium.has(path)}
    if PICTURES in first and RECORDINGS in first:
        both = f"{first[PICTURES].relative_to(root.parent)} and {first[RECORDINGS].relative_to(root.parent)}"
        wrong(root, f"pictures or recordings, but there are both, such as {both}: give each a folder of its own")
    for medium in first:
        return medium
    classes = f"pictures ({', '.join(PICTURES.suffixes)}) or recordings (.wav) in a sub-folder per class"
    wrong(root, f"{classes}, or texts (.txt), but it has {suffixes(files)}")


def _items(tree: Tree, medium: Medium) -> list[Item]:
    """The files below a folder, equally deep: in class folders, or in class folders of clients; texts in it or in
    folders of clients."""
    found = [path for path in tree.files if medium.has(path)]
    if not found:
        wrong(tree.root, f"{medium.many} ({', '.join(medium.suffixes)}), but it has {suffixes(tree.files)}")
    above, classes = len(tree.root.parts), int(medium.labelled)
    depth = len(found[0].parts) - above
    places = "all in class folders, or all in class folders of clients" if classes else "all in folders of clients"
    for path in found:
        if len(path.parts) != above + depth:
            wrong(path, f"a {medium.one} as deep as {found[0]}: {places}{'' if classes else ', or all in none'}")
    if not 1 <= depth - classes <= 2:
        inside = "per class, or per client and in it per class" if classes else "per client"
        wrong(found[0], f"a {medium.one} in a sub-folder of {tree.root} {inside}")
    items = [_item(path, path.parts[above:], medium) for path in found]
    _check_none_empty(tree, items, medium)
    return items


def _item(path: Path, parts: tuple[str, ...], medium: Medium) -> Item:
    if not medium.labelled:
        return Item(path, "", parts[0] if len(parts) > 1 else path.stem)
    return Item(path, parts[-2], parts[0] if len(parts) == 3 else "")


def walk(root: Path, listed: Listing, deepest: int = 4) -> Tree:
    folders, files = listed
    if folders and deepest == 1:
        wrong(folders[0], "no folder nested as deeply as this one")
    tree = Tree(root, list(folders), list(files))
    for path in folders:
        below = walk(path, listing(path), deepest - 1)
        tree.folders.extend(below.folders)
        tree.files.extend(below.files)
    return tree


def _check_none_empty(tree: Tree, items: list[Item], medium: Medium) -> None:
    """Refuse a class or a client without files; that a client has none of some class is fine."""
    labels, clients = {item.label for item in items}, {item.client for item in items}
    used = {parent for item in items for parent in item.path.parents}
    outer = {path.parent for path in tree.folders}
    for path in tree.folders:
        if path not in used and path not in outer:
            *client, label = path.relative_to(tree.root).parts
            if label not in labels or len(client) != 1 or client[0] not in clients:
                wrong(path, f"{medium.many} in this folder, but there are none")
