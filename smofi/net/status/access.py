"""Where the status page listens and who may read it.

On this machine alone (127.0.0.1, ::1, localhost) it is open, but only under such a name: a page elsewhere whose name is
made to point here (DNS rebinding) is refused. Anywhere else, or where a token is given, a token is needed.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass
from urllib.parse import quote

from smofi.errors import refuse

TOKEN_VARIABLE = "SMOFI_STATUS_TOKEN"  # no option: a command line is seen by all users, and kept with the run
SHORTEST_TOKEN = 16
ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>[0-9]{1,5})")
ACCEPTED = "an address and a port, such as 127.0.0.1:8080, localhost:8080, [::1]:8080 or 0.0.0.0:8080"


def parse_address(address: str) -> tuple[str, int]:
    """Host and port; port 0 is any that is free.

    >>> parse_address("127.0.0.1:8080"), parse_address("[::1]:0")
    (('127.0.0.1', 8080), ('::1', 0))
    >>> parse_address("8080")
    Traceback (most recent call last):
    smofi.errors.InputError: status='8080' is not accepted: expected an address and a port, such as 127.0.0.1:8080, \
localhost:8080, [::1]:8080 or 0.0.0.0:8080
    """
    found = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if not found or int(found["port"]) > 65535:
        refuse("status", address, ACCEPTED)
    if found["six"]:
        try:
            ipaddress.IPv6Address(found["six"])
        except ValueError:
            refuse("status", address, ACCEPTED)
    return found["six"] or found["host"], int(found["port"])


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine and no other.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Access:
    """Who may read: those under a name of this machine, or those with the token. `made` says that the token is ours."""

    loopback: bool
    token: str | None = None
    made: bool = False

    @classmethod
    def decide(cls, host: str, token: str | None) -> Access:
        """What an address needs.

        >>> Access.decide("127.0.0.1", None).token is None, len(Access.decide("0.0.0.0", None).token)
        (True, 43)
        """
        if token is not None and not (token.isascii() and token.isprintable() and len(token) >= SHORTEST_TOKEN):
            # what was given is a secret, and not repeated
            refuse(TOKEN_VARIABLE, "...", f"at least {SHORTEST_TOKEN} letters, digits and signs")
        if token is None and not is_loopback(host):
            return cls(False, secrets.token_urlsafe(), made=True)
        return cls(is_loopback(host), token)

    def name_accepted(self, host: str) -> bool:
        """Whether a request may be for this Host, which has a port as a rule."""
        name = re.sub(r":[0-9]*$", "", host)
        return not self.loopback or is_loopback(name.strip("[]"))

    def token_accepted(self, given: str) -> bool:
        """Takes as long for one wrong token as for another."""
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def cookie_accepted(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.cookie.encode())

    @property
    def cookie(self) -> str:
        """What a browser keeps: made from the token, and so good after a restart, but not the token itself."""
        return hmac.new((self.token or "").encode(), b"smofi status page", hashlib.sha256).hexdigest()

    def url(self, host: str, port: int) -> str:
        """Where to point a browser. A token that was given is known, one that we made is told here, once."""
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/" + (f"?token={quote(self.token)}" if self.made and self.token else "")
