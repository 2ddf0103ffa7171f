"""Damage to the files of run folders, and what the commands make of it."""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open

from smofi.cli import main
from smofi.runs import RunFolder

TINY_RUN = [
    "--clients", "6", "--participation", "0.5", "--model", "cnn", "--width", "2", "--max-train", "300",
    "--local-epochs", "1", "--batch-size", "32", "--threads", "1", "--workers", "1", "--display", "jsonl",
]  # fmt: skip
Files = dict[str, bytes]


def files_in(folder: Path) -> Files:
    """All files below a folder by name, but the lock, which has the id of the last writer."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def run_and_file(name: str) -> tuple[str, str]:
    """Which run of a comparison a file belongs to, and its name there.

    >>> run_and_file("fedavg/checkpoints/best.safetensors"), run_and_file("config.yaml")
    (('fedavg/', 'checkpoints/best.safetensors'), ('', 'config.yaml'))
    """
    parts = re.fullmatch(r"(.*?)((checkpoints/)?[^/]+)", name)
    assert parts
    return parts[1], parts[2]


# ---------------------------------------------------------------------------------------------------------- the damages


def flip(content: bytes, dice: random.Random) -> bytes:
    """One bit is another."""
    place = dice.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :]


def zero(content: bytes, dice: random.Random) -> bytes:
    """A block is lost."""
    place = dice.randrange(len(content))
    block = content[place : place + dice.choice([8, 64, 512])]
    return content[:place] + bytes(len(block)) + content[place + len(block) :]


def truncate(content: bytes, dice: random.Random) -> bytes:
    return content[: dice.randrange(len(content))]


def append(content: bytes, dice: random.Random) -> bytes:
    return content + dice.choice([b"\0", b"\n", b"garbage\n", dice.randbytes(100)])


def empty(content: bytes, dice: random.Random) -> bytes:
    return b""


def remove_line(content: bytes, dice: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    lines.pop(dice.randrange(len(lines)))
    return b"".join(lines)


def duplicate_line(content: bytes, dice: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    place = dice.randrange(len(lines))
    return b"".join([*lines[: place + 1], *lines[place:]])


CONTENTS = (flip, zero, truncate, append, empty, remove_line, duplicate_line)
SETTINGS = {b"lr=0.05": b"lr=0.5", b"clients: 6": b"clients: 7", b"width: 2": b"width: 4", b"seed: ": b"seed: 1"}


def edit(content: bytes, dice: random.Random) -> bytes:
    """Another setting in config.yaml."""
    old = dice.choice([old for old in SETTINGS if old in content])
    return content.replace(old, SETTINGS[old])


@dataclass(frozen=True)
class Damage:
    """What was done to which files of a run folder."""

    kind: str
    names: tuple[str, ...]


def damage_one(folder: Path, name: str, change: Callable[[bytes, random.Random], bytes], dice: random.Random) -> Damage:
    """Change the content of a file."""
    (folder / name).write_bytes(change((folder / name).read_bytes(), dice))
    return Damage(change.__name__, (name,))


def delete(folder: Path, name: str) -> Damage:
    (folder / name).unlink()
    return Damage("delete", (name,))


def replace(folder: Path, name: str, other: Path) -> Damage:
    """By another run's file."""
    (folder / name).write_bytes(other.read_bytes())
    return Damage("replace", (name,))


def swap(folder: Path, one: str, two: str) -> Damage:
    first, second = (folder / one).read_bytes(), (folder / two).read_bytes()
    (folder / one).write_bytes(second)
    (folder / two).write_bytes(first)
    return Damage("swap", (one, two))


def delete_checkpoints(folder: Path, below: str = "", whole: bool = True) -> Damage:
    """All states of a run, or the whole folder of them."""
    names = tuple(name for name in files_in(folder) if name.startswith(f"{below}checkpoints/"))
    if whole:
        shutil.rmtree(folder / below / "checkpoints")
    else:
        for name in names:
            (folder / name).unlink()
    return Damage("delete checkpoints/" if whole else "delete every checkpoint", names)


def at_random(folder: Path, others: Mapping[str, Path], dice: random.Random) -> Damage:
    """Any damage to any file, after which something is different. `others` are files of other runs by name."""
    before = files_in(folder)
    while True:
        name, kind = dice.choice(list(before)), dice.randrange(len(CONTENTS) + 5)
        run, _ = run_and_file(name)
        if kind < len(CONTENTS):
            if before[name]:
                damage = damage_one(folder, name, CONTENTS[kind], dice)
        elif kind == len(CONTENTS):
            damage = delete(folder, name)
        elif kind == len(CONTENTS) + 1:
            if Path(name).name in others:
                damage = replace(folder, name, others[Path(name).name])
        elif kind == len(CONTENTS) + 2:
            damage = swap(folder, name, dice.choice(list(before)))
        elif kind == len(CONTENTS) + 3:
            damage = damage_one(folder, f"{run}config.yaml", edit, dice)
        elif (folder / run / "checkpoints").exists():
            damage = delete_checkpoints(folder, run, whole=dice.random() < 0.5)
        if files_in(folder) != before:
            return damage


# --------------------------------------------------------------------------------------------------------- the commands


@dataclass(frozen=True)
class Told:
    """How a command ended: its code, what it said, and what came of it."""

    code: int
    said: str
    outcome: Any


@dataclass(frozen=True)
class Case:
    """A run folder, its runs, and the run of it that is exported and whose partition is taken."""

    folder: Path
    runs: tuple[str, ...] = ("",)
    exported: str = ""
    best: bool = False


def call(*arguments: object) -> tuple[int, str, str]:
    """A command in this process: its code, standard output and standard error. What escapes is an AssertionError."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(one) for one in arguments])
        except BaseException as error:
            raise AssertionError(f"{arguments}: {''.join(traceback.format_exception(error))}") from error
    assert "Traceback" not in out.getvalue() + err.getvalue(), f"{arguments}: {out.getvalue()}{err.getvalue()}"
    return code, out.getvalue(), err.getvalue()


def told(command: str, case: Case, aside: Path) -> Told:
    """What a command makes of a folder; `aside` is where it may write."""
    shutil.rmtree(aside, ignore_errors=True)
    run = case.folder / case.exported
    if command == "resume":
        code, out, err = call("run", "--resume", case.folder, "--workers", "1", "--display", "jsonl")
        ends = {}
        if code == 0:
            ends = {name: (bytes_of(case.folder / name), _rounds(case.folder / name)) for name in case.runs}
        return Told(code, out + err, ends)
    if command == "show":
        code, out, err = call("show", case.folder)
        return Told(code, err, out)
    if command == "export":
        more = ["--best"] if case.best else []
        code, _, err = call("export", run, aside, "--format", "safetensors", *more)
        return Told(code, err, _exported(aside))
    code, out, err = call(
        "run", *TINY_RUN, "--rounds", "1", "--method", "fedavg", "--partition", f"file:{run}", "--output", aside
    )
    return Told(code, out + err, bytes_of(aside) if code == 0 else b"")


COMMANDS = ("show", "export", "file:", "resume")


def bytes_of(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()


def _rounds(run: Path) -> list[dict[str, Any]]:
    """What is on record, but for the time it took; what follows in the file does not count."""
    return [{**record, "seconds": 0} for record in RunFolder(run).records()]


def _exported(folder: Path) -> Any:
    """What an export holds; the bytes of a header with several entries are in any order."""
    if not folder.exists():
        return None
    with safe_open(folder / "model.safetensors", framework="np") as file:
        tensors = {name: file.get_tensor(name).tobytes() for name in file.keys()}  # noqa: SIM118  # not a mapping
        return tensors, file.metadata(), (folder / "README.md").read_text()
