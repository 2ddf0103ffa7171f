"""How fast bytes travel between a server and its clients on this machine, in plain text and with TLS.

    python benchmarks/transport.py [--seconds 2]

The server is a process, and the clients are another one; small payloads go back and forth one at a time, large ones
stream up and down. Each number is of all clients together.
"""

from __future__ import annotations

import multiprocessing
import queue
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter

from shared.connections import (
    Admission,
    Arrived,
    Buffer,
    Dialer,
    Gate,
    Identity,
    Joined,
    Limits,
    Listener,
    Received,
    Times,
    Welcomed,
    client_credentials,
    init,
    issue,
    server_credentials,
)
from shared.options import parser_for

MEGABYTE = 10**6


def certificates(folder: Path, clients: int) -> Path:
    """An authority, and certificates for the server and for each client."""
    init(folder)
    issue(folder, server=["localhost"])
    for number in range(clients):
        issue(folder, client=f"client-{number}")
    return folder


def serve(pipe: Connection, pki: Path | None) -> None:
    """Send back what comes; a payload that begins with "up" is only counted, "down" asks for that many large ones."""
    identity = pki and Identity.load(pki / "server", "server")
    credentials, gate = (server_credentials(identity), Admission(Gate.of(identity))) if identity else (None, None)
    listener = Listener("127.0.0.1:0", credentials, gate, Limits(), Times())
    pipe.send(listener.start())
    large = bytes(MEGABYTE)
    while not pipe.poll():
        try:
            event = listener.events.get(0.1)
        except queue.Empty:
            continue
        if isinstance(event, Joined):
            listener.welcome(event.name, b"")
        elif isinstance(event, Arrived):
            if event.payload[:4] == b"down":
                listener.send(event.name, large)
            elif event.payload[:2] == b"up":
                listener.send(event.name, b"got it")
            else:
                listener.send(event.name, event.payload)
    listener.stop("the benchmark is over")


def received(dialer: Dialer) -> Buffer:
    while not isinstance(event := dialer.receive(30), Received):
        pass
    return event.payload


def talk(dialer: Dialer, question: bytes, ahead: int, seconds: float, counts: list[int]) -> None:
    """Ask and wait for answers, with some questions under way, and count the answers."""
    for _ in range(ahead):
        dialer.send(question)
    end, count = perf_counter() + seconds, 0
    while perf_counter() < end:
        received(dialer)
        dialer.send(question)
        count += 1
    counts.append(count)
    for _ in range(ahead):
        received(dialer)


def rate(dialers: list[Dialer], question: bytes, ahead: int, seconds: float) -> float:
    """Answers a second, of all clients."""
    counts: list[int] = []
    threads = [threading.Thread(target=talk, args=(one, question, ahead, seconds, counts)) for one in dialers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def dial(port: int, number: int, pki: Path | None) -> Dialer:
    credentials = client_credentials(Identity.load(pki / f"client-{number}", "client")) if pki else None
    dialer = Dialer(f"localhost:{port}", credentials, lambda: b"", Limits(), Times(), name=f"client-{number}")
    dialer.start()
    while not isinstance(dialer.receive(30), Welcomed):
        pass
    return dialer


def measure(clients: int, pki: Path | None, seconds: float) -> None:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, pki))
    server.start()
    port = here.recv()
    dialers = [dial(port, number, pki) for number in range(clients)]
    trips = rate(dialers, b"ping", 1, seconds)
    up = rate(dialers, b"up" + bytes(MEGABYTE), 4, seconds)
    down = rate(dialers, b"down", 4, seconds)
    for dialer in dialers:
        dialer.close()
    here.send("end")
    server.join()
    kind = "TLS" if pki else "plain"
    print(f"{kind:>6} {clients:>7} {trips:>14,.0f} {1e6 * clients / trips:>12,.0f} {up:>9,.0f} {down:>9,.0f}")


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    arguments = parser.parse_args()
    print(f"{'':>6} {'clients':>7} {'round trips/s':>14} {'us of each':>12} {'MB/s up':>9} {'MB/s down':>9}")
    with tempfile.TemporaryDirectory() as name:
        for pki in (None, certificates(Path(name), max(arguments.clients))):
            for clients in arguments.clients:
                measure(clients, pki, arguments.seconds)


if __name__ == "__main__":
    main()
