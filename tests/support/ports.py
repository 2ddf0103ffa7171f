"""Ports for servers that come later, or come back at the same one."""

from __future__ import annotations

import os
import socket
from itertools import count
from pathlib import Path

FIRST = 10_000
_next = count(os.getpid() * 1009)


def free_port() -> int:
    """A port that was free a moment ago, and that the system gives to nobody in between.

    A port that the system chose would not do: it chooses those of outgoing connections from the same range, and a
    client that dials before its server is there may even be connected to itself.
    """
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = FIRST + next(_next) % (below - FIRST)
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
