"""Where a server listens: host:port."""

from __future__ import annotations

import ipaddress
from urllib.parse import unquote

from smofi.errors import refuse

EXAMPLES = {"listen": "0.0.0.0:7443"}
"""What an address looks like where it is not that of a machine elsewhere, by field."""


def parse(address: str, field: str = "address") -> tuple[str, int]:
    """The host and the port of an address; a refusal calls it `field`.

    >>> parse("train.example.org:7443"), parse("[::1]:0")
    (('train.example.org', 7443), ('::1', 0))
    >>> parse("7443")
    Traceback (most recent call last):
    smofi.errors.InputError: address='7443' is not accepted: expected host:port, such as train.example.org:7443
    """
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    plain = bare and not set(bare) & set("/[]@ ") and (":" not in bare or bare != host)
    if not (colon and plain and port.isascii() and port.isdigit() and int(port) < 2**16):
        refuse(field, address, f"host:port, such as {EXAMPLES.get(field, 'train.example.org:7443')}")
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and not reachable from another one.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def written(host: str, port: int) -> str:
    """An address as gRPC and people write it.

    >>> written("::1", 7443)
    '[::1]:7443'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def of_peer(peer: str) -> str:
    """The address of a connection's other end, from what gRPC calls it.

    >>> of_peer("ipv4:10.0.0.7:51234"), of_peer("ipv6:%5B::1%5D:51234")
    ('10.0.0.7:51234', '[::1]:51234')
    """
    kind, _, address = peer.partition(":")
    return unquote(address) if kind in ("ipv4", "ipv6") else peer
