"""Names of clients and servers, checked before they reach a certificate or the file system."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from smofi.errors import refuse, refuse_unwanted
from smofi.net.certs.files import CA_CERT, CA_KEY, CRL, ISSUED

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
NAMES_ARE = "at most 64 letters, digits, dots, dashes and underscores, no dot or dash first"
TAKEN = (CA_CERT, CA_KEY, CRL, ISSUED)
"""What an authority's folder has besides a folder for each name."""


def acceptable(name: Any) -> bool:
    """Whether this can be a client's name: safe as part of a path, in a log and on a page.

    >>> acceptable("hospital-a"), acceptable("../x"), acceptable("-x"), acceptable("x" * 65)
    (True, False, False, False)
    """
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def check_name(field: str, name: Any) -> str:
    """A name that can be issued, which is also that of its folder."""
    if not acceptable(name):
        refuse(field, name, NAMES_ARE)
    if name.lower() in TAKEN:
        refuse_unwanted(
            field, name, f"the authority has a file of that name; files such as {', '.join(TAKEN)} are its own"
        )
    return str(name)


def check_hosts(field: str, hosts: Any) -> list[str]:
    """What clients may call a server: host names and IP addresses, at least one, each once.

    >>> check_hosts("server", ["train.example.org", "10.0.0.5", "train.example.org"])
    ['train.example.org', '10.0.0.5']
    >>> check_hosts("server", ["train.example.org:7443"])
    Traceback (most recent call last):
    smofi.errors.InputError: server='train.example.org:7443' is not accepted: expected a host name such as \
train.example.org or an IP address, without a port
    """
    listed = [hosts] if isinstance(hosts, str) else hosts
    if not isinstance(listed, Sequence) or not listed:
        refuse(field, hosts, "a host name or an IP address, or several")
    for host in listed:
        if address(host) is None and not _host_name(host):
            refuse(field, host, "a host name such as train.example.org or an IP address, without a port")
    return list(dict.fromkeys(listed))


def address(host: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that this is, if it is one.

    >>> address("127.0.0.1"), address("localhost")
    (IPv4Address('127.0.0.1'), None)
    """
    try:
        return ipaddress.ip_address(host) if isinstance(host, str) else None
    except ValueError:
        return None


def _host_name(host: Any) -> bool:
    """Labels of letters, digits and dashes; 10.0.0.500 is a mistyped address."""
    if not isinstance(host, str) or len(host) > 253:
        return False
    labels = host.split(".")
    return all(LABEL.fullmatch(label) for label in labels) and not labels[-1].isdigit()
