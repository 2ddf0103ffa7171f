"""A server and its clients as processes: killed, stopped, started again, with a record of what was done to them."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.chaos import Nursery, Process, finished_in, rounds_in, until
from support.network import Network
from support.proxy import Proxy

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
