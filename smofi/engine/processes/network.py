"""The network by which a machine reaches another one."""

from __future__ import annotations

import socket
import struct
import sys

SIOCGIFADDR = 0x8915
"""Linux's question for the IPv4 address of a network interface."""


def interface_towards(address: str) -> str | None:
    """The network interface that leads to an address; None if that is this machine's own loopback, or cannot be told.

    >>> interface_towards("127.0.0.1")
    """
    if sys.platform != "linux":
        return None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing, but picks the route
            own = probe.getsockname()[0]
            names = [name for _, name in socket.if_nameindex()]
            found = next((name for name in names if _address_of(name, probe) == own), None)
    except OSError:
        return None
    return None if own.startswith("127.") else found


def _address_of(interface: str, probe: socket.socket) -> str | None:
    import fcntl  # not everywhere, and asked for on Linux only

    try:
        answer = fcntl.ioctl(probe, SIOCGIFADDR, struct.pack("256s", interface.encode()))
    except OSError:  # it has none
        return None
    return socket.inet_ntoa(answer[20:24])
