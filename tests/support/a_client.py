"""A client of the transport as a process: it echoes what it receives, and may compute in between.

a_client.py PORT NAME [compute SECONDS]
"""

from __future__ import annotations

import sys
from time import monotonic

from smofi.net.transport.dialer import Dialer
from smofi.net.transport.events import Received
from smofi.net.transport.limits import Limits
from smofi.net.transport.times import Times

if __name__ == "__main__":
    port, name, *others = sys.argv[1:]
    dialer = Dialer(f"127.0.0.1:{port}", None, lambda: b"hello", Limits(), Times(1.5, 0.5, 2.0), name)
    dialer.start()
    while True:
        event = dialer.receive()
        if isinstance(event, Received):
            dialer.send(event.payload)
            if others:
                end = monotonic() + float(others[1])
                while monotonic() < end:
                    sum(range(10**7))  # holds Python's lock for long
                others = []
