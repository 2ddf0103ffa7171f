"""Served runs made of real processes: started in milliseconds, killed, stopped, watched."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from smofi.runs import RunFolder

ROOT = Path(__file__).parents[2]
ZYGOTE = Path(__file__).with_name("zygote.py")


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """What becomes true in time; an error in words if nothing does."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds:g} s: {what}")
        time.sleep(0.02)
    return found


@dataclass(eq=False)
class Process:
    """A `smofi` command; what it prints goes to `log`."""

    words: list[str]
    log: Path
    namespace: str | None
    pid: int = 0
    code: int | None = None
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def alive(self) -> bool:
        return not self.ended.is_set()

    def signal(self, number: int) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut does it."""
        self.signal(signal.SIGKILL)
        self.wait(30)

    def wait(self, seconds: float) -> int:
        """Its exit code."""
        if not self.ended.wait(seconds):
            raise AssertionError(f"smofi {' '.join(self.words)} is still there after {seconds:g} s:\n{self.text()}")
        assert self.code is not None
        return self.code

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def usage(self) -> Usage:
        return Usage.of(self.pid)


@dataclass(frozen=True)
class Usage:
    """What a process takes: MiB of memory, open files, threads."""

    memory: float
    files: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        files, threads = (len(os.listdir(f"/proc/{pid}/{kind}")) for kind in ("fd", "task"))
        return cls(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, files, threads)

    def __str__(self) -> str:
        return f"{self.memory:.1f} MiB, {self.files} files, {self.threads} threads"


class Zygote:
    """The process that forks all others. It has loaded everything, which takes seconds."""

    def __init__(self, folder: Path) -> None:
        paths = [str(ROOT), str(ROOT / "tests")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        environment.setdefault("SMOFI_DATA", str(folder / "cache"))
        self._numbers = itertools.count()
        self._children: dict[int, Process] = {}
        self._waiting: dict[int, Process] = {}
        self._process = subprocess.Popen(
            [sys.executable, str(ZYGOTE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            bufsize=1,
        )
        assert self._process.stdout
        ready = self._process.stdout.readline()
        assert ready, "the process that forks others did not start"
        self._thread = threading.Thread(target=self._listen, name="nursery", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout
        self._process.stdout.close()

    def start(self, child: Process, environment: dict[str, str]) -> None:
        """Start a command in the folder that this process is in."""
        number = next(self._numbers)
        self._waiting[number] = child
        command = {
            "number": number,
            "words": child.words,
            "folder": os.getcwd(),
            "log": str(child.log),
            "namespace": child.namespace,
            "environment": environment,
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        assert child.started.wait(60)

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            told = json.loads(line)
            if "started" in told:
                child = self._waiting.pop(told["number"])
                child.pid = told["started"]
                self._children[child.pid] = child
                child.started.set()
            else:
                child = self._children.pop(told["ended"])
                child.code = told["code"]
                child.ended.set()


_zygotes: list[Zygote] = []


def zygote(folder: Path) -> Zygote:
    """One for all tests of this process."""
    if not _zygotes:
        _zygotes.append(Zygote(folder))
    return _zygotes[0]


class Nursery:
    """Starts `smofi` commands, and ends whatever is left of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: list[Process] = []

    def __enter__(self) -> Nursery:
        self._zygote = zygote(self.folder)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)
        for child in self._children:
            child.ended.wait(10)

    def smofi(
        self, *words: object, log: str | None = None, namespace: str | None = None, **environment: str
    ) -> Process:
        """Start a command."""
        name = log or str(len(self._children))
        child = Process([str(word) for word in words], self.folder / f"{name}.log", namespace)
        self._children.append(child)
        self._zygote.start(child, environment)
        return child


# ------------------------------------------------------------------------------------------------------- what they left


def rounds_in(folder: Path) -> list[str]:
    """The rounds on record, each as its line; an unfinished last line does not count."""
    path = folder / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()


def finished_in(folder: Path) -> list[str]:
    """The rounds on record whose state is saved: from the last of them, a killed run goes on."""
    saved = RunFolder(folder).saved_rounds() if (folder / "manifest.json").exists() else []
    return rounds_in(folder)[: max(saved, default=0)]


def accuracy(folder: Path) -> float:
    found: float = json.loads(rounds_in(folder)[-1])["accuracy"]
    return found


def state_in(folder: Path) -> dict[str, Tensor]:
    """The tensors of the last checkpoint."""
    return load_file(max((folder / "checkpoints").glob("round-*.safetensors")))


def differing(one: Path, other: Path) -> list[str]:
    """The names of the tensors in two checkpoints that are not the same byte for byte."""
    mine, theirs = state_in(one), state_in(other)
    names = sorted(mine.keys() | theirs.keys())
    return [
        name
        for name in names
        if name not in mine or name not in theirs or mine[name].numpy().tobytes() != theirs[name].numpy().tobytes()
    ]
