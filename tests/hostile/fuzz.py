"""Attack a server while honest clients train: `make fuzz`, or python -m hostile.fuzz --messages 100000.

Real processes with certificates, on this machine only. Attackers hold good certificates of the same authority, and send
what tests/support/attacks.py makes up. Afterwards nothing may have crashed, the server's memory, files and threads must
be what they were, and the honest clients must have computed the bits of a run that nobody attacked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.chaos import Nursery, Process, Usage, differing, rounds_in, until
from support.mallory import ATTACKS, MANY, Mallory, Tally
from support.ports import free_port

HONEST, ATTACKERS = 3, 6
MOST_GROWTH = 18.0
"""MiB by which the server's memory may grow after the first quarter of the messages, however many there are. In that
quarter it finds its size, as it does without any attack."""

MOST_IN_ALL = 40.0
"""MiB by which it may grow from before the first message to after the last."""

TRAINING = ["--data", "digits", "--model", "cnn", "--width", "4", "--cut", "1", "--clients", str(HONEST)]
TRAINING += ["--max-train", "240", "--max-test", "100", "--partition", "iid", "--local-epochs", "1"]
TRAINING += ["--batch-size", "16", "--participation", "1", "--method", "smofi", "--seed", "1", "--display", "jsonl"]


@dataclass
class Found:
    """What came of an attack."""

    tally: Tally
    before: Usage
    samples: list[tuple[int, Usage]] = field(default_factory=list)
    after: Usage | None = None
    rounds: int = 0
    seconds: float = 0.0
    round_seconds: float = 0.0
    clean_round_seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Attacked:
    """A served run and its honest clients, as processes."""

    def __init__(self, nursery: Nursery, folder: Path, pki: Path) -> None:
        self.nursery, self.folder, self.pki = nursery, folder, pki
        self.port = free_port()

    def serve(self, name: str, *words: object) -> Process:
        server = ["serve", "--certs", self.pki / "server", "--listen", f"127.0.0.1:{self.port}"]
        return self.nursery.smofi(*server, *words, log=f"server-{name}")

    def join(self, name: str) -> list[Process]:
        clients = []
        for number in range(HONEST):
            words = ["join", f"127.0.0.1:{self.port}", "--certs", self.pki / f"honest-{number}", "--part", number]
            log = f"{name}-honest-{number}"
            clients.append(self.nursery.smofi(*words, "--data", "digits", "--allow-labels", log=log))
        return clients

    def train(self, name: str, rounds: int) -> Path:
        """A run that nobody attacks."""
        folder = self.folder / name
        server, clients = self.serve(name, *TRAINING, "--rounds", rounds, "--output", folder), self.join(name)
        assert server.wait(60 + 20 * rounds) == 0, server.text()
        assert [client.wait(60) for client in clients] == [0] * HONEST
        return folder


def make_pki(folder: Path) -> Path:
    from smofi.net.certs import init, issue

    init(folder)
    issue(folder, server=["127.0.0.1", "localhost"])
    for name in [f"honest-{n}" for n in range(HONEST)] + [f"mallory-{n}" for n in range(ATTACKERS)]:
        issue(folder, client=name)
    return folder


# ------------------------------------------------------------------------------------------------------------- attacks


async def attack(port: int, pki: Path, messages: int, seed: int, tally: Tally, watch: Any) -> None:
    """All attackers at once, until so many messages are sent."""
    from smofi.net.certs import Identity, client_credentials

    mallories = []
    for number in range(ATTACKERS):
        name = f"mallory-{number}"
        credentials = client_credentials(Identity.load(pki / name, "client"))
        mallories.append(Mallory(f"127.0.0.1:{port}", credentials, name, tally, seed + number))
    # floods bring most of the messages; each of the others is answered by itself
    single = [one for one in ATTACKS if one not in MANY]

    async def go(one: Mallory, number: int) -> None:
        draw = random.Random(seed * 1000 + number)
        while tally.sent < messages:
            await one.attack(draw.choice(list(MANY)) if draw.random() < 0.005 else draw.choice(single))
            if draw.random() < 0.01:
                await one.close()  # and a new connection
            watch()
        await one.close()

    await asyncio.gather(*(go(one, number) for number, one in enumerate(mallories)))


class Lorises:
    """Connections that say nothing, or a byte now and then; those that the server closes are made again."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count, self.made, self.closed = port, count, 0, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Lorises:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connections: list[socket.socket] = []
        hello = bytes.fromhex("1603010200010001fc0303")
        while not self._stop.is_set():
            while len(connections) < self.count:
                connections.append(socket.create_connection(("127.0.0.1", self.port)))
                self.made += 1
            for number, one in enumerate(list(connections)):
                try:
                    one.setblocking(False)
                    if number % 3:
                        one.send(hello[self.made % len(hello) :][:1])
                    gone = one.recv(100) == b""
                except BlockingIOError:
                    gone = False
                except OSError:
                    gone = True
                if gone:
                    one.close()
                    connections.remove(one)
                    self.closed += 1
            self._stop.wait(0.5)
        for one in connections:
            one.close()


# ----------------------------------------------------------------------------------------------------------- the whole


def fuzz(folder: Path, messages: int, seed: int, say: Any = lambda line: None) -> Found:
    """Attack, and compare with a run that is not attacked."""
    with Nursery(folder) as nursery:
        run = Attacked(nursery, folder, make_pki(folder / "pki"))
        output = folder / "attacked"
        server = run.serve("attacked", *TRAINING, "--rounds", 10**6, "--output", output)
        clients = run.join("attacked")
        until(lambda: len(rounds_in(output)) >= 2 or not server.alive, 240, "no round was finished")
        assert server.alive, server.text()
        found = Found(Tally(), server.usage())
        say(f"before: {found.before}; {len(rounds_in(output))} rounds done")
        started, told = time.monotonic(), time.monotonic()

        def watch() -> None:
            nonlocal told
            if time.monotonic() > told + 5:
                told = time.monotonic()
                found.samples.append((found.tally.sent, server.usage()))
                done = f"{found.tally.sent:>7} messages, {len(rounds_in(output))} rounds"
                say(f"{told - started:5.0f} s  {done}, {found.samples[-1][1]}")

        with Lorises(run.port, 30) as lorises:
            asyncio.run(attack(run.port, run.pki, messages, seed, found.tally, watch))
        found.tally.add("connections that say next to nothing", "closed by the server", lorises.closed)
        found.seconds = time.monotonic() - started
        if found.seconds > 30 and not lorises.closed:  # three times what a connection has to say who it is
            found.problems.append("connections that say next to nothing stayed open")
        until(lambda: server.usage().files <= found.before.files + 2, 60, f"files stay open: {server.usage()}")
        found.after = server.usage()
        server.signal(signal.SIGTERM)
        if server.wait(120) != 128 + signal.SIGTERM:
            found.problems.append(f"SIGTERM ended the server with {server.code}: {server.text()[-500:]}")
        found.rounds = len(rounds_in(output)) + 1
        server = run.serve("resumed", "--resume", output, "--rounds", found.rounds, "--display", "jsonl")
        if server.wait(300) != 0:
            found.problems.append(f"the server ended in words: {server.text()[-500:]}")
        codes = [client.wait(90) for client in clients]
        if any(codes):
            found.problems.append(f"honest clients ended with the codes {codes}: {clients[0].text()[-500:]}")
        check(found, output, run.train("clean", found.rounds), folder)
    return found


def check(found: Found, output: Path, clean: Path, folder: Path) -> None:
    """What may not have happened."""
    if different := differing(output, clean):
        found.problems.append(f"these tensors differ from those of a clean run: {', '.join(different)}")
    lines = [json.loads(line) for line in rounds_in(output)]
    if lost := [line["round"] for line in lines if line.get("left_out")]:
        found.problems.append(f"clients were left out of the rounds {lost}")
    found.round_seconds = statistics.median(line["seconds"] for line in lines[2:]) if len(lines) > 3 else 0.0
    calm = [json.loads(line)["seconds"] for line in rounds_in(clean)]
    found.clean_round_seconds = statistics.median(calm[1:] or calm)
    assert found.after
    early = next((usage for sent, usage in found.samples if sent >= found.tally.sent / 4), found.before)
    if found.after.memory > min(early.memory + MOST_GROWTH, found.before.memory + MOST_IN_ALL):
        found.problems.append(f"the server's memory grew from {early.memory:.1f} to {found.after.memory:.1f} MiB")
    if found.after.threads > found.before.threads + 4:
        found.problems.append(f"threads: {found.before.threads} before, {found.after.threads} after")
    silent = {attack: answers["no answer"] for attack, answers in found.tally.answers.items() if answers["no answer"]}
    if silent:
        found.problems.append(f"left without an answer: {silent}")
    for log in folder.glob("*.log"):
        if "Traceback" in (text := log.read_text(errors="replace")):
            found.problems.append(f"{log.name} has a traceback: {text[-1500:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smofi-fuzz-") as folder:
        found = fuzz(Path(folder), given.messages, given.seed, lambda line: print(line, flush=True))
    print("\n".join(found.tally.lines()))
    print(f"{found.tally.sent} messages in {found.seconds:.0f} s, while {found.rounds} rounds were trained")
    print(f"server before: {found.before}\nserver after:  {found.after}")
    print(f"a round took {found.round_seconds:.2f} s, in a clean run {found.clean_round_seconds:.2f} s (medians)")
    for problem in found.problems:
        print(f"PROBLEM: {problem}")
    print(
        "FAILED"
        if found.problems
        else "Nothing crashed, nothing grew, and the honest clients have the bits of a clean run."
    )
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
