"""A served run over real sockets: a server in this process or another, clients in processes of their own.

with Clients(port, 8) as clients, Serve(config, folder, port) as server:
    clients.kill("site-3")
    clients.start(3)
    server.result()

Processes are forked by a nursery, print to files, and end with the block, whatever happens in it.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

import smofi
from smofi.config import Config
from smofi.config.federation import gather
from smofi.engine.events import Event, Record
from smofi.engine.passes import direct
from smofi.net.transport.times import Times
from smofi.serving.checks import Serving
from smofi.serving.server import Server, served
from support.ends import eventually
from support.ports import free_port
from support.processes import ENVIRONMENT, ROOT

SOON = 120.0
"""Seconds in which anything here should happen, on a machine that has much else to do."""

PATIENT = Times(patience=100.0, keepalive=20.0, connect=60.0)
HASTY = Times(patience=1.5, keepalive=20.0, connect=60.0)
"""For tests in which a client is to be missed soon: that a connection was reset is known at once."""

SMALL: dict[str, Any] = dict(
    data="digits",
    model="cnn",
    width=2,
    cut="1",
    clients=8,
    max_train=240,
    max_test=60,
    method="smofi",
    optimizer="sgd(lr=0.05, momentum=0.9, weight_decay=1e-3, lr_decay=0.9)",
    participation=0.6,
    local_epochs=1,
    batch_size=8,
    rounds=2,
    checkpoint_every=1,
)


def small(**changes: Any) -> Config:
    """A configuration that trains in a moment."""
    return Config(**{**SMALL, **changes})


class Nursery:
    """The process that starts all others."""

    def __init__(self) -> None:
        command = [sys.executable, str(ROOT / "tests/support/nursery.py")]
        pipe = subprocess.PIPE
        self.lock = threading.Lock()
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=ENVIRONMENT)
        atexit.register(self.close)

    def ask(self, do: str, **request: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        with self.lock:
            self.process.stdin.write(json.dumps({"do": do, **request}, default=str) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


@cache
def nursery() -> Nursery:
    return Nursery()


class Processes:
    """Processes by name, all of which end with the block; what they said is shown when a test fails."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.times = PATIENT
        self.logs = Path(tempfile.mkdtemp(prefix="smofi-processes-"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        for name in list(self.running):
            self.kill(name)
        if error is not None:
            for log in sorted(self.logs.iterdir()):
                error.add_note(f"{log.name} said:\n{log.read_text()[-1500:]}")
        shutil.rmtree(self.logs)

    def begin(self, do: str, name: str, **request: Any) -> None:
        log = self.logs / name
        log.touch()
        self.running[name] = nursery().ask(do, log=log, times=[*astuple(self.times)], **request)

    def signal(self, name: str, number: int) -> None:
        os.kill(self.running[name], number)

    def kill(self, name: str) -> None:
        """End it without a word."""
        if nursery().ask("ended", process=self.running[name]) is None:
            self.signal(name, signal.SIGKILL)
            self.ended(name)
        else:
            del self.running[name]

    def said(self, name: str) -> str:
        """What it has said so far."""
        return (self.logs / name).read_text()

    def ended(self, name: str, seconds: float = SOON) -> int:
        """Wait for its end; its exit code."""
        process, end = self.running[name], time.monotonic() + seconds
        while (code := nursery().ask("ended", process=process)) is None:
            assert time.monotonic() < end, f"{name} has not ended"
            time.sleep(0.02)
        del self.running[name]
        return int(code)


class Clients(Processes):
    """Clients of a server at a port of this machine, site-0, site-1, ..., each with its part of the data set."""

    def __init__(self, port: int, count: int = 8, times: Times = PATIENT, **options: Any) -> None:
        super().__init__()
        self.port, self.times, self.options = port, times, options
        for number in range(count):
            self.start(number)

    def start(self, number: int, **options: Any) -> None:
        """A client as its user would describe it; `data`, `part`, `certs` and all else may be another."""
        given: dict[str, Any] = {"data": "digits", "part": number, "name": f"site-{number}"}
        given |= {"address": f"localhost:{self.port}"} | self.options | options
        if callable(given.get("certs")):
            given |= {"certs": given["certs"](number)}
        log = f"site-{number}"
        name = given.pop("name")
        self.begin("join", log, **given, **{} if given.get("certs") else {"client_name": name})

    def all_ended(self) -> list[int]:
        return [self.ended(name) for name in sorted(self.running)]


# The server's side


class Serve:
    """A server in a thread of this process, once its clients are forked; `events` are those of its runs."""

    def __init__(self, config: Config, folder: Path, port: int, **options: Any) -> None:
        self.serving = Serving(config, folder, f"127.0.0.1:{port}", **{"times": PATIENT, **options})
        self.events: list[Event] = []
        self.results: list[Any] = []
        self.error: BaseException | None = None
        self.server: Server | None = None
        self.on_event: Callable[[Event], object] = id
        self.thread = threading.Thread(target=self._run, name="server")

    def __enter__(self) -> Serve:
        self.thread.start()
        return self

    def stop(self) -> None:
        """As a signal does it."""
        if self.server:
            self.server.hub.stopping = True
            for one in self.server.runs:
                one.session.run.interrupt()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.thread.join(SOON)
        assert not self.thread.is_alive(), "the server does not stop"

    def _run(self) -> None:
        try:
            with served(self.serving, callback=self._event) as self.server:
                self.results += [result for _, result in self.server.train()]
        except BaseException as error:
            self.error = error

    def _event(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def result(self, seconds: float = SOON) -> list[Any]:
        """What came of it, when it is over."""
        self.thread.join(seconds)
        if self.error:
            raise self.error
        assert not self.thread.is_alive(), "the server has not ended"
        return self.results

    @property
    def history(self) -> list[Record]:
        """Of its first run."""
        return list(self.server.runs[0].session.run.history) if self.server and self.server.runs else []

    def wait_for(self, condition: Callable[[], Any], seconds: float = SOON) -> None:
        assert eventually(lambda: condition() or self.error or not self.thread.is_alive(), seconds), "it did not happen"
        if self.error:
            raise self.error
        assert condition(), "the run was over before"


def deployed(config: Config, folder: Path, joining: Mapping[str, Any] | None = None, **options: Any) -> list[Any]:
    """Serve a configuration to its clients, to the end; the results. `joining` are options of the clients."""
    port, count = free_port(), config.clients or 0
    with Clients(port, count, **joining or {}) as processes, Serve(config, folder, port, **options) as server:
        results = server.result()
        assert processes.all_ended() == [0] * count
    return results


def simulated(config: Config) -> list[smofi.Session]:
    """The same by a simulation whose split is executed for real, a trained session for each method."""
    sessions = []
    for method in config.method:
        own = config.model_copy(update={"method": (method,)})
        sessions.append(session_of(own))
        sessions[-1].train()
    return sessions


def session_of(config: Config, wire: Any = direct) -> smofi.Session:
    """Ready to train; without a wire, the model runs as a whole wherever splitting changes nothing."""
    federation = gather(config)
    same = ("cut", "rounds", "participation", "local_epochs", "batch_size", "seed", "optimizer", "augment", "precision")
    settings = {name: getattr(config, name) for name in same}
    model = config.build_model(federation.source)
    wire = config.wire or wire
    (method,) = config.method
    return smofi.prepare(model, federation.clients, federation.test, method=method, wire=wire, **settings)


def same_bits(results: Sequence[Any], sessions: Sequence[smofi.Session]) -> None:
    """Weights, statistics and records of each run are the same."""
    for result, session in zip(results, sessions, strict=True):
        method = session.run.planner.method
        assert [facts(one) for one in result.history] == [facts(one) for one in session.run.history], method
        got, wanted = tensors(result.model), tensors(session.result().model)
        assert got.keys() == wanted.keys()
        for name, tensor in got.items():
            assert torch.equal(tensor, wanted[name]), f"{method}: {name}"


def tensors(model: Any) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}


def facts(record: Record) -> tuple[Any, ...]:
    """What a record says of the numbers, nothing of time."""
    return facts_of(vars(record))


def facts_of(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same, of a record as it is saved."""
    return tuple(fields[name] for name in NUMBERS)


NUMBERS = ("round", "accuracy", "loss", "train_loss", "selected", "steps", "cut", "learning_rate")
