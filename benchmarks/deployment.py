"""What a deployment costs on this machine: a served run beside the same work in one process and a plain socket.

    round trip   microseconds of a step of a model that computes nothing, with 1, 8 and 32 clients
    tensors      MB/s each way of activations of 4 MB and their gradients, with 1, 8 and 32 clients
    step         seconds of a step of ResNet-8, over the same split step in one process and a socket's copy of its bytes
    bytes        what the connections carry, TLS and all, over the bytes of the tensors; and with smaller numbers
    crowd        what 200 clients take of the server's memory, and how long a round of two steps takes with them
    passes       how many times as fast the server's passes for two clients are in two threads

Server and clients are processes, with TLS unless `--insecure`. A round's seconds are those of its steps and of the
client's weights; evaluation is off.

    python benchmarks/deployment.py
    python benchmarks/deployment.py --only "round trip" bytes
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from shared.connections import (
    Crossing,
    Task,
    direct,
    init,
    issue,
    two_at_a_time,
)
from shared.goals import Goal, at_least, at_most
from shared.options import options
from shared.rows import Row, Sheet, markdown, pick, spread
from torch import Tensor, nn

import smofi
from smofi.config import Config

sys.path.append(str(Path(__file__).resolve().parent))
fork = multiprocessing.get_context("fork")
"""Clients begin as copies of this process, which makes no connection itself: torch is loaded once for all."""

CROWD = 200
ON_THE_WIRE = "bytes on the wire over the tensors' bytes"
THROUGHPUT = "MB/s each way, all clients together"


class Scale(nn.Module):
    """One weight, so that there is something to train before the cut."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs * self.weight


class Mean(nn.Module):
    """Classes from the mean of a sample: next to nothing to compute."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(1, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.last(inputs.mean(1, keepdim=True))
        return out


def empty(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """A model that computes nothing worth mentioning."""
    return nn.Sequential(Scale(), Mean(classes))


@dataclass(frozen=True)
class Case:
    """What is served: samples of a shape, settings, and how many clients take part in how many rounds."""

    shape: tuple[int, ...]
    settings: dict[str, Any]
    clients: int
    steps: int
    rounds: int
    batch: int = 1

    def write(self, folder: Path) -> str:
        """Samples for every client, in a file."""
        count = self.steps * self.batch
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(count, *self.shape)).astype(np.float32), np.arange(count) % 2
        np.savez(folder / "samples.npz", x=x, y=y, x_test=x[:2], y_test=y[:2])
        return f"npz:{folder / 'samples.npz'}"

    def config(self, data: str) -> Config:
        """One epoch a round, all clients."""
        fixed = {"data": data, "clients": self.clients, "partition": "iid", "participation": 1.0, "local_epochs": 1}
        fixed |= {"batch_size": self.batch, "rounds": self.rounds, "method": "fedavg", "metrics": "top1"}
        return Config(**fixed | {"optimizer": "sgd(lr=0.001)", "cut": "0"} | self.settings)


PASSES = (
    ("resnet8", 8, (1, 8, 8), 0, 8),
    ("resnet8", 8, (1, 14, 14), 1, 16),
    ("resnet8", 16, (3, 32, 32), 1, 32),
    ("resnet18", 64, (3, 32, 32), 2, 32),
)
EMPTY = {"model": "python:deployment:empty"}
RESNET = {"model": "resnet8", "width": 16, "cut": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def certificates(folder: Path, clients: int) -> Path:
    """An authority, and a certificate for the server and for each client."""

    init(folder / "pki")
    issue(folder / "pki", server=["localhost", "127.0.0.1"])
    for number in range(clients):
        issue(folder / "pki", client=f"client-{number}")
    return folder / "pki"


def serve(case: Case, folder: Path, data: str, port: int, pki: Path | None, pipe: Any, telling: bool = False) -> None:
    """The server: sends the seconds, and the payloads' bytes, of every round but the first. If it is `telling`, before
    that the memory it has when it listens, when all clients are there, and after the first round."""

    def tell(event: smofi.Event) -> None:
        first = isinstance(event, smofi.RoundStarted) and event.round == 1
        if telling and (first or (isinstance(event, smofi.RoundDone) and event.record.round == 1)):
            pipe.send(memory())

    records = smofi.serve(
        case.config(data).model_dump(),
        str(folder / "run"),
        listen=f"127.0.0.1:{port}",
        certs=str(pki / "server") if pki else None,
        insecure=pki is None,
        min_clients=case.clients,
        evaluate="none",
        callback=tell,
        started=lambda _: pipe.send(memory()) if telling else None,
    )[0].history[1:]
    pipe.send([(one.seconds, sum(one.bytes_up), sum(one.bytes_down)) for one in records])


def join(number: int, data: str, port: int, pki: Path | None, model: str) -> None:
    """A client."""
    own = model if model.startswith("python:") else None
    name, certs = (None, str(pki / f"client-{number}")) if pki else (f"client-{number}", None)
    plain = pki is None
    smofi.join(f"localhost:{port}", data, certs=certs, insecure=plain, name=name, allow_labels=True, model=own)


def join_all(numbers: range, data: str, port: int, pki: Path | None, model: str) -> None:
    """Clients, each in a thread."""
    threads = [threading.Thread(target=join, args=(number, data, port, pki, model)) for number in numbers]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@contextmanager
def processes() -> Iterator[Callable[..., Any]]:
    """Start processes that end with this block."""
    started: list[Any] = []

    def start(target: Callable[..., None], *arguments: Any) -> Any:
        started.append(fork.Process(target=target, args=arguments))
        started[-1].start()
        return started[-1]

    try:
        yield start
    finally:
        for one in started:
            one.join(10)
            one.kill()


def measured(case: Case, secure: bool, counting: bool = False) -> tuple[list[tuple[float, int, int]], int]:
    """Seconds and payload bytes of the rounds; and all bytes on the wire, where they are counted."""
    with tempfile.TemporaryDirectory() as name, processes() as start:
        folder, port = Path(name), free_port()
        pki = certificates(folder, case.clients) if secure else None
        data = case.write(folder)
        mine, theirs = fork.Pipe()
        counter = Counter(port) if counting else None
        start(serve, case, folder, data, port, pki, theirs)
        for number in range(case.clients):
            start(join, number, data, counter.port if counter else port, pki, case.settings["model"])
        rows: list[tuple[float, int, int]] = mine.recv()
        return rows, counter.bytes if counter else 0


class Counter:
    """A port that passes everything on to another one, and counts the bytes both ways."""

    def __init__(self, target: int) -> None:
        self.target, self.bytes = target, 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.server.accept()
            try:
                target = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for one, other in ((client, target), (target, client)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with source, sink, suppress(OSError):  # the other direction has ended, and closed both
            while some := source.recv(1 << 20):
                self.bytes += len(some)
                sink.sendall(some)


def alone(case: Case) -> float:
    """Seconds of a step whose split is executed in one process, a copy of this one as server and clients are."""
    with processes() as start:
        mine, theirs = fork.Pipe()
        start(train_alone, case, theirs)
        seconds: float = mine.recv()
        return seconds


def train_alone(case: Case, pipe: Any) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        config = case.config(case.write(Path(name)))
        session = smofi.prepare(
            **config.arguments() | {"method": "fedavg", "wire": direct, "executor": "loop", "test": None}
        )
        session.train()
    rounds = session.run.history[1:]
    pipe.send(median(one.seconds for one in rounds) / (case.steps * case.clients))


def copied(size: int, times: int = 50) -> float:
    """Seconds in which so many bytes go to another process through a socket and come back."""
    server = socket.create_server(("127.0.0.1", 0))

    def echo() -> None:
        with socket.create_connection(server.getsockname()) as line:
            for _ in range(times):
                line.sendall(_receive(line, size))

    with processes() as start:
        start(echo)
        line, _ = server.accept()
        with line:
            payload, taken = bytes(size), []
            for _ in range(times):
                began = time.perf_counter()
                line.sendall(payload)
                _receive(line, size)
                taken.append(time.perf_counter() - began)
    return sorted(taken)[times // 2]


def _receive(line: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view.nbytes:
        view = view[line.recv_into(view) :]
    return buffer


def round_trip(sheet: Sheet, secure: bool, repetitions: int) -> None:
    for clients in (1, 8, 32):
        case = Case((4,), EMPTY, clients, steps=max(20, 400 // clients), rounds=repetitions + 1)
        rows, _ = measured(case, secure)
        sheet.add("microseconds a step", [1e6 * one[0] / case.steps for one in rows], ".0f", clients=clients)
        sheet.add("steps a second", [case.steps * clients / one[0] for one in rows], ".0f", clients=clients)


def tensors(sheet: Sheet, secure: bool, repetitions: int) -> None:
    for clients in (1, 8, 32):
        case = Case((1 << 18,), EMPTY, clients, steps=max(4, 32 // clients), rounds=repetitions + 1, batch=4)
        rows, _ = measured(case, secure)
        sheet.add(THROUGHPUT, [one[1] / 1e6 / one[0] for one in rows], ".0f", clients=clients)


def step(sheet: Sheet, secure: bool, repetitions: int) -> None:
    # One way after the other, again and again, for the machine is not always equally fast; the first round of each, in
    # which memory and buffers find their sizes, is left out.
    case = Case((3, 32, 32), RESNET, 1, steps=30, rounds=4, batch=32)
    size = 32 * 16 * 32 * 32 * 4
    bounds, deployed = [], []
    for _ in range(repetitions):
        bounds.append(alone(case) + copied(size))
        rows, _ = measured(case, secure)
        deployed.append(median(one[0] for one in rows) / case.steps)
    ratios = [one / bound for one, bound in zip(deployed, bounds, strict=True)]
    sheet.add("seconds a step", deployed, ".4f", what_is_it="deployed")
    sheet.add("seconds a step", bounds, ".4f", what_is_it="one process and a socket's copy")
    sheet.add("ratio", ratios, ".2f", what_is_it="deployed over the other")


def wire_bytes(sheet: Sheet, secure: bool, repetitions: int) -> None:
    case = Case((3, 32, 32), RESNET, 1, steps=20, rounds=2, batch=32)
    rows, everything = measured(case, secure, counting=True)
    each = 2 * 32 * 16 * 32 * 32 * 4 + 32 * 8
    tensor_bytes = case.rounds * case.steps * each
    sheet.add(ON_THE_WIRE, [everything / tensor_bytes], ".4f", of="all rounds")
    payload = sum(rows[0][1:])
    sheet.add("payload bytes over the tensors' bytes", [payload / (case.steps * each)], ".4f", of="a round")
    for wire in ("bf16", "fp16", "int8"):
        smaller, _ = measured(replace(case, settings=RESNET | {"wire": wire}), secure)
        sheet.add("payload bytes over fp32's", [sum(smaller[0][1:]) / payload], ".4f", of=wire)


def crowd(sheet: Sheet, secure: bool, repetitions: int) -> None:
    """Clients are threads of few processes: what is measured is the server."""
    with tempfile.TemporaryDirectory() as name, processes() as start:
        folder, port = Path(name), free_port()
        pki = certificates(folder, CROWD) if secure else None
        case = Case((1, 8, 8), {"model": "cnn", "width": 2, "cut": "1"}, CROWD, steps=2, rounds=2)
        data = case.write(folder)
        mine, theirs = fork.Pipe()
        start(serve, case, folder, data, port, pki, theirs, True)
        for first in range(0, CROWD, CROWD // 4):
            start(join_all, range(first, first + CROWD // 4), data, port, pki, case.settings["model"])
        alone, connected, trained = (mine.recv() for _ in range(3))
        ((seconds, _, _),) = mine.recv()
    what = "kB of the server's memory a client"
    sheet.add(what, [(connected - alone) / CROWD / 1e3], ".0f", clients=CROWD, when="connected")
    sheet.add(what, [(trained - alone) / CROWD / 1e3], ".0f", clients=CROWD, when="after a round")
    sheet.add("seconds of a round of two steps", [seconds], ".2f", clients=CROWD)


def passes(sheet: Sheet, secure: bool, repetitions: int) -> None:
    """As a server times them when it starts."""
    torch.set_num_threads(1)
    for model, width, shape, cut, batch in PASSES:
        session = smofi.prepare(
            smofi.models.build(model, seed=0, input_shape=shape, classes=10, width=width),
            [(torch.zeros(batch, *shape), torch.arange(batch) % 10)],
            cut=cut,
            batch_size=batch,
        )
        simulation = session.run.simulation
        task = Task(shape, torch.float32)
        crossing = Crossing(simulation.setup, session.run.planner.cuts.options[0], task)
        with ThreadPoolExecutor(2, initializer=lambda: torch.set_num_threads(1)) as pool:
            ratios = [two_at_a_time(simulation.state, crossing, batch, pool)[1] for _ in range(repetitions)]
        name = f"{model} width {width}, {'x'.join(map(str, shape[1:]))}, batch {batch}"
        sheet.add("times as fast two at a time", ratios, ".2f", model=name)


def memory() -> int:
    """What this process has of the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def table(rows: Sequence[Row]) -> str:
    """A line for every measurement."""
    lines = []
    for row in rows:
        others = {key: value for key, value in row.items() if key not in ("question", "connection", "what", "values")}
        counted = {key: f"{value} client{'s' * (value > 1)}" for key, value in others.items() if key == "clients"}
        about = ", ".join(map(str, (others | counted).values()))
        form = ".4f" if max(row["values"]) < 1 else ".3f" if max(row["values"]) < 10 else ",.0f"
        lines.append([row["question"], row["connection"], about, row["what"], spread(row["values"], form)])
    return markdown(["question", "connection", "", "", ""], lines)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Little beside the tensors, little beside the work, and much more than others give."""
    one = pick(rows, THROUGHPUT, clients=1)
    return [
        at_most("deployment: bytes on the wire within 1 % of the tensors' bytes", pick(rows, ON_THE_WIRE), 1.01),
        at_most("deployment: a step within 1.25 times one process and a socket's copy", pick(rows, "ratio"), 1.25),
        at_least("deployment: three times 76 MB/s each way with one client", one, 228, " MB/s"),
    ]


QUESTIONS = {
    "round trip": round_trip,
    "tensors": tensors,
    "step": step,
    "bytes": wire_bytes,
    "crowd": crowd,
    "passes": passes,
}


def main() -> None:
    parser = options(__doc__, repetitions=5)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--insecure", action="store_true", help="without TLS")
    given = parser.parse_args()
    sheet = Sheet(given.results)
    for name in given.only:
        sheet.begin(question=name, connection="plain text" if given.insecure else "TLS")
        QUESTIONS[name](sheet, not given.insecure, given.repetitions)
    print("\n" + table(sheet.rows))


if __name__ == "__main__":
    main()
