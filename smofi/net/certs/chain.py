"""Whether an authority has signed a certificate, and whether its time has come or is over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from smofi.net.certs.making import now
from smofi.net.certs.reading import UNREADABLE

LONGEST = 8
"""Certificates between one and its authority."""


def signed_by(chain: Sequence[x509.Certificate], authorities: Sequence[x509.Certificate]) -> bool:
    """Whether the first certificate of a chain leads to an authority, over the others if need be.

    So that a mistake is found before a connection is tried; the connection itself checks much more.
    """
    cert = chain[0]
    for _ in range(LONGEST):
        if cert in authorities or any(_issued(cert, authority) for authority in authorities):
            return True
        between = next((other for other in chain[1:] if other != cert and _issued(cert, other)), None)
        if between is None:
            return False
        cert = between
    return False


def time_is_wrong(cert: x509.Certificate, moment: datetime | None = None) -> str | None:
    """What is wrong with a certificate's dates at this moment, if anything."""
    moment = moment or now()
    if moment > cert.not_valid_after_utc:
        return f"expired on {day(cert.not_valid_after_utc)}"
    if moment < cert.not_valid_before_utc:
        return f"is not valid before {day(cert.not_valid_before_utc)}"
    return None


def day(moment: datetime) -> str:
    """A moment of a certificate, as people write it.

    >>> day(datetime(2030, 1, 2, 3, 4))
    '2030-01-02 03:04 UTC'
    """
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _issued(cert: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        cert.verify_directly_issued_by(issuer)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True
