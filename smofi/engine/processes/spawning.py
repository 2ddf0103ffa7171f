"""Workers started by running the same command again, joined by `torch.distributed`: where a fork is not safe."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import torch

from smofi.engine.processes.endings import ENDINGS
from smofi.engine.processes.watching import Report, Watch

STARTED = "SMOFI_STARTED"


class SpawnLauncher:
    """Starts further workers by `command`; each reads its rank from its environment."""

    workers = None

    def __init__(self, count: int, command: Sequence[str], report_loss: Report) -> None:
        self.count, self.command, self.report_loss = count, command, report_loss
        self.address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(count)}
        os.environ.update(self.address, RANK="0", LOCAL_RANK="0")
        self.children: list[subprocess.Popen[bytes]] = []
        self.watch: Watch | None = None

    def launch(self, follow: Callable[[], None]) -> None:
        self.children.extend(_start(self.command, self.address, rank) for rank in range(1, self.count))
        self.watch = Watch([child.poll for child in self.children], self.report_loss)

    def lost(self) -> str | None:
        return self.watch.lost() if self.watch else None

    def end(self) -> None:
        if self.watch:
            self.watch.stop()
        for child in self.children:
            child.kill()  # it saves nothing
            child.communicate()
        for name in (*self.address, "RANK", "LOCAL_RANK"):
            os.environ.pop(name, None)
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def end_with_the_first() -> None:
    """Leave signals to the first worker, and stop when it ends: that closes the pipe which is our standard input."""
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def started_by_us() -> bool:
    """Whether this process was started here by another worker."""
    return STARTED in os.environ


def _start(command: Sequence[str], address: dict[str, str], rank: int) -> subprocess.Popen[bytes]:
    """A worker in a session of its own, so that Ctrl-C reaches only the first; its input closes when the first ends."""
    return subprocess.Popen(
        [sys.executable, "-m", "smofi", *command],
        env={**os.environ, **address, "RANK": str(rank), "LOCAL_RANK": str(rank), STARTED: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
