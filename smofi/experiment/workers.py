"""Workers on this machine: the same command started again, once per further process, and none left behind.

    smofi run ... --workers 2        this process is the first worker, and starts the second
    torchrun ... -m smofi run ...    torchrun has started them all; each finds out from its environment

The first worker talks, writes the run's folder, and decides how long it goes on. The others follow it, and end with it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from smofi.config import Config
from smofi.errors import check_count
from smofi.methods import parse_method

LINGER = 5.0
"""Seconds that a worker whose fellow has died is given to say so itself."""


def worker_count(asked: int | None, config: Config) -> int:
    """How many workers a run gets: as many as asked for, or as SMOFI_WORKERS says, or as torchrun has started.

    If nobody says: one per core that this process may use, or per GPU; but no more than clients in a round, and one
    where more would have nothing to do.

    >>> worker_count(3, Config()), worker_count(None, Config(method="sflv2"))
    (3, 1)
    """
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    if asked is None and "SMOFI_WORKERS" in os.environ:
        asked = int(os.environ["SMOFI_WORKERS"])
    if asked is not None:
        return check_count("workers", asked, high=4096)
    one_server = all(parse_method(method).where.one_server for method in config.method)
    if one_server or config.diagnose:
        return 1
    if torch.device(config.device).type == "cuda":
        return max(1, torch.cuda.device_count())
    allowed = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(allowed(0)) if allowed else os.cpu_count() or 1
    return max(1, min(cores, round(config.participation * config.clients)))


def follows() -> bool:
    """Whether this process follows another one: neither prints nor writes."""
    return int(os.environ.get("RANK", "0")) > 0


def own_device(device: str) -> str:
    """The device of this worker: where there are several GPUs, one each."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


@contextmanager
def workers(count: int, command: Sequence[str]) -> Iterator[Callable[[], None]]:
    """What starts `count` - 1 further workers with the same command; when this block ends, so have they.

    To be called when nothing can be refused any more, so that a refusal is quick and said once.
    """
    if count == 1 or "WORLD_SIZE" in os.environ:
        if follows():
            _end_with_the_first()
        yield lambda: None
        return
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(count)}
    os.environ.update(place, RANK="0", LOCAL_RANK="0")
    children: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def launch() -> None:
        children.extend(_start(command, place, rank) for rank in range(1, count))
        threading.Thread(target=_watch, args=(children, done), daemon=True).start()

    try:
        yield launch
    finally:
        done.set()
        _end(children)
        for name in (*place, "RANK", "LOCAL_RANK"):
            os.environ.pop(name, None)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _start(command: Sequence[str], place: dict[str, str], rank: int) -> subprocess.Popen[bytes]:
    """A worker with a session of its own, so that Ctrl-C reaches the first one only; it hears when that one ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "smofi", *command],
        env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), "SMOFI_STARTED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _watch(children: Sequence[subprocess.Popen[bytes]], done: threading.Event) -> None:
    """When a worker dies, the others cannot go on: the run ends, if it does not notice by itself."""
    while not done.wait(0.2):
        for rank, child in enumerate(children, 1):
            code = child.poll()
            if code not in (None, 0) and not done.wait(LINGER):
                how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
                sys.stderr.write(f"smofi: worker {rank + 1} has ended ({how}), so the run cannot go on\n")
                _end(children, patience=0.0)
                os._exit(1)


def _end(children: Sequence[subprocess.Popen[bytes]], patience: float = LINGER) -> None:
    until = time.monotonic() + patience
    for child in children:
        if child.stdin:
            child.stdin.close()  # what it waits for: see below
    for child in children:
        try:
            child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _end_with_the_first() -> None:
    """Stop at once when the first worker is gone, however it went: then nobody holds the other end of our input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "SMOFI_STARTED" in os.environ:

        def wait() -> None:
            while os.read(0, 1):
                pass
            time.sleep(LINGER)  # the end of a run may take a moment
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
