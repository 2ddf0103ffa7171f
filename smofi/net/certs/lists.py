"""Who may come in, by name, and which certificates do not count any more: from files to sets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from smofi.errors import shown
from smofi.net.certs.names import NAMES_ARE, acceptable
from smofi.net.certs.reading import read_revocation_lists

Revoked = dict[tuple[x509.Name, int], datetime]
"""By issuer and serial number, since when."""


def parse_allowed(content: bytes) -> frozenset[str]:
    """The names of an allow-list: one a line; what follows a # is a comment.

    >>> sorted(parse_allowed(b"hospital-a  # since May" + bytes([10]) + b"hospital-b"))
    ['hospital-a', 'hospital-b']
    """
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise ValueError("is not text in UTF-8") from None
    names = set()
    for number, line in enumerate(lines, start=1):
        name = line.partition("#")[0].strip()
        if name and not acceptable(name):
            raise ValueError(f"has {shown(name)} in line {number}, where a name has {NAMES_ARE}")
        names.add(name)
    if not names - {""}:  # more likely a copy that has just begun than a wish to send everyone away
        raise ValueError("names no client")
    return frozenset(names - {""})


def parse_revoked(content: bytes, authorities: Sequence[x509.Certificate]) -> Revoked:
    """What revocation lists revoke, each signed by one of the authorities; ValueError for any other list."""
    revoked: Revoked = {}
    for found in read_revocation_lists(content):
        if not any(_signed(found, authority) for authority in authorities):
            raise ValueError("is not signed by this certificate authority")
        revoked.update({(found.issuer, one.serial_number): one.revocation_date_utc for one in found})
    return revoked


def _signed(found: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    try:
        valid = found.is_signature_valid(authority.public_key())  # type: ignore[arg-type]  # TypeError if it cannot sign
    except (TypeError, ValueError, UnsupportedAlgorithm):
        return False
    return valid and found.issuer == authority.subject
