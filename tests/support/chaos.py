"""Served runs made of real processes: started in milliseconds, killed, stopped, started again, watched."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import random
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
from support.network import Network, Proxy

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


# ------------------------ a server and its clients as processes: killed, stopped, started again, with a record of wh


Say = Callable[[str], object]
ESTABLISHED, LISTENS = "01", "0A"
"""States of a socket, as Linux lists them."""


def make_pki(folder: Path, clients: int, *hosts: str) -> Path:
    """Certificates for a server and clients 0, 1, ..."""
    from smofi.net.certs import init, issue

    init(folder)
    issue(folder, server=["127.0.0.1", "localhost", *hosts])
    for number in range(clients):
        issue(folder, client=f"client-{number}")
    return folder


WAITS = ("until you stop it, for instance with Ctrl-C", "now")
"""How the last sentence of a client ends that finds no server: it goes on trying."""


@dataclass
class Fleet:
    """`address` is where clients find the server, but for those whose way leads through one of `proxies`; `network`, if
    any, has a machine for each client."""

    nursery: Nursery
    pki: Path
    output: Path
    settings: list[str]
    clients: int
    address: str
    listen: str
    network: Network | None = None
    patience: list[str] = field(default_factory=list)
    say: Say = lambda line: None
    proxies: dict[int, Proxy] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    server: Process | None = None
    joined: dict[int, Process] = field(default_factory=dict)
    lost_rounds: list[str] = field(default_factory=list)
    on_record: list[str] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    def tell(self, line: str) -> None:
        """A line of the record, with the time and the rounds that are done."""
        self.say(f"{time.monotonic() - self.began:6.1f} s  round {len(rounds_in(self.output)):>3}  {line}")

    # ------------------------------------------------------------------------------------------------------- the server

    def serve(self) -> None:
        """Start the server, or start it again where it was."""
        fixed = ["serve", "--certs", self.pki / "server", "--listen", self.listen, "--display", "jsonl", *self.patience]
        known = (self.output / "config.yaml").exists()  # as the guide's service asks
        words = ["--resume", self.output] if known else [*self.settings, "--output", self.output]
        place = self.network.hub if self.network else None
        log = f"{self.output.name}-server"
        self.server = self.nursery.smofi(*fixed, *words, log=log, namespace=place, **self.environment)

    def kill_server(self) -> None:
        """Kill it, start it again, and see that no round is lost."""
        assert self.server
        self.check_rounds()
        self.server.kill()
        self.kills += 1
        self.tell(f"the server is killed, for the {self.kills}. time")
        self.check_rounds()
        self.serve()

    def check_rounds(self) -> None:
        """Every round that was ever finished, on record and with its state saved, is on record still, as it was."""
        now = finished_in(self.output)
        if now[: len(self.on_record)] != self.on_record:
            self.lost_rounds.append(f"{len(self.on_record)} rounds were on record, and are not the first of {len(now)}")
        self.on_record = now

    # ------------------------------------------------------------------------------------------------------ the clients

    def join(self, number: int, *more: str, **environment: str) -> None:
        place = self.network.machines[number] if self.network else None
        proxy = self.proxies.get(number)
        address = f"{proxy.host}:{proxy.port}" if proxy else self.address
        words = ["join", address, "--certs", self.pki / f"client-{number}", "--data", "digits", "--part", number]
        log = f"client-{number}"
        self.joined[number] = self.nursery.smofi(
            *words, "--allow-labels", *more, log=log, namespace=place, **environment
        )

    def join_all(self, *more: str, **environment: str) -> None:
        """All clients, once the server listens: then none waits longer and longer to try again."""
        assert self.server
        until(lambda: self._sockets(LISTENS), 120, f"the server does not listen: {self.server.text()}")
        for number in range(self.clients):
            self.join(number, *more, **environment)

    def connections(self) -> int:
        """How many the server has."""
        return self._sockets(ESTABLISHED)

    def _sockets(self, state: str) -> int:
        """Of the server's at its port, how many are in this state."""
        assert self.server
        pid, ending = self.server.pid, f":{int(self.listen.rpartition(':')[2]):04X}"
        tables = [Path(f"/proc/{pid}/net/{kind}") for kind in ("tcp", "tcp6")]
        lines = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()]
        return sum(words[1].endswith(ending) and words[3] == state for words in lines)

    def kill_client(self, number: int) -> None:
        self.joined[number].kill()
        self.tell(f"client-{number} is killed")

    def stop_client(self, number: int, seconds: float) -> None:
        self.joined[number].signal(signal.SIGSTOP)
        self.tell(f"client-{number} is stopped for {seconds:.1f} s")

    def resume_client(self, number: int) -> None:
        self.joined[number].signal(signal.SIGCONT)

    # ---------------------------------------------------------------------------------------------------------- the end

    def finish(self, seconds: float, away: bool = False) -> None:
        """Wait for the end of the run, and of every client; `away`: some may not have been there to be told."""
        assert self.server
        server = self.server
        if server.wait(seconds) != 0:
            raise AssertionError(f"the server ended with {server.code}: {server.text()[-2000:]}")
        for number, client in self.joined.items():
            client.signal(signal.SIGCONT)
            if away and not client.ended.wait(20) and client.text().rstrip().endswith(WAITS):
                client.kill()
                continue
            if client.wait(90) != 0:
                raise AssertionError(f"client-{number} ended with {client.code}: {client.text()[-1000:]}")
        self.check_rounds()
        assert not self.lost_rounds, self.lost_rounds

    def wait_for_round(self, count: int, seconds: float) -> None:
        assert self.server
        server = self.server
        until(lambda: len(rounds_in(self.output)) >= count or not server.alive, seconds, f"round {count} is not there")


class Weather:
    """Things that happen to clients for a while; each client has one at a time."""

    def __init__(self, fleet: Fleet, draw: random.Random, kinds: dict[str, tuple[float, float]]) -> None:
        self.fleet, self.draw, self.kinds = fleet, draw, kinds
        self.until: dict[int, tuple[float, str]] = {}
        self.count: dict[str, int] = dict.fromkeys(kinds, 0)

    def strike(self) -> None:
        """Something new happens to a client that is well."""
        fleet, network = self.fleet, self.fleet.network
        free = [number for number in range(fleet.clients) if number not in self.until]
        if not free:
            return
        number, kind = self.draw.choice(free), self.draw.choice(list(self.kinds))
        if kind == "dropped":
            self._drop(self.draw.choice(list(fleet.proxies)))
            return
        seconds = self.draw.uniform(*self.kinds[kind])
        self.count[kind] += 1
        self.until[number] = time.monotonic() + seconds, kind
        if kind == "killed":
            fleet.kill_client(number)
            return
        if kind == "stopped":
            fleet.stop_client(number, seconds)
            return
        assert network
        {
            "cut off": network.cut,
            "unplugged": network.unplug,
            "lossy": lambda one: network.lose(one, 20),
            "choked": lambda one: network.choke(one, 256),
        }[kind](number)
        fleet.tell(f"client-{number} is {kind} for {seconds:.1f} s")

    def _drop(self, number: int) -> None:
        """Reset the connection of a client, if it has one; it may make a new one at once."""
        if self.fleet.proxies[number].cut():
            self.count["dropped"] += 1
            self.fleet.tell(f"the connection of client-{number} is dropped")

    def clear(self, all_of_it: bool = False) -> None:
        """What has lasted long enough is over."""
        fleet, now = self.fleet, time.monotonic()
        for number, (end, kind) in list(self.until.items()):
            if now < end and not all_of_it:
                continue
            del self.until[number]
            if kind == "killed":
                fleet.join(number)
            elif kind == "stopped":
                fleet.resume_client(number)
            else:
                assert fleet.network
                fleet.network.heal(number)
