"""Workers started by the same command once more, which meet by `torch.distributed`: where a fork is not safe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import torch

from smofi.engine.processes.watching import Watch


class Spawning:
    """Further workers by `command`; each finds out from its environment what it is."""

    crew = None

    def __init__(self, count: int, command: Sequence[str]) -> None:
        self.count, self.command = count, command
        self.place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(count)}
        os.environ.update(self.place, RANK="0", LOCAL_RANK="0")
        self.children: list[subprocess.Popen[bytes]] = []
        self.watch: Watch | None = None

    def launch(self, follow: Callable[[], None]) -> None:
        self.children.extend(_start(self.command, self.place, rank) for rank in range(1, self.count))
        self.watch = Watch([child.poll for child in self.children])

    def end(self) -> None:
        if self.watch:
            self.watch.stop()
        for child in self.children:
            child.kill()  # it has nothing to save
            child.communicate()
        for name in (*self.place, "RANK", "LOCAL_RANK"):
            os.environ.pop(name, None)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def end_with_the_first() -> None:
    """Leave signals to the first worker, and stop when it is gone: then nobody holds the other end of our input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "SMOFI_STARTED" in os.environ:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

        def wait() -> None:
            while os.read(0, 1):
                pass
            os._exit(1)

        threading.Thread(target=wait, daemon=True).start()


def _start(command: Sequence[str], place: dict[str, str], rank: int) -> subprocess.Popen[bytes]:
    """A worker with a session of its own, so that Ctrl-C reaches the first one only; it hears when that one ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "smofi", *command],
        env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank), "SMOFI_STARTED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
