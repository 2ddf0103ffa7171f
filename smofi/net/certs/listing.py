"""What an authority has issued: to whom, until when, and whether it is revoked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509

from smofi.errors import InputError, check_path
from smofi.files import read_regular
from smofi.net.certs.files import CA_CERT, CRL, ISSUED, LARGEST
from smofi.net.certs.making import now
from smofi.net.certs.reading import common_name, hosts_of, is_for, read_certificates, read_revocation_lists


@dataclass(frozen=True)
class Issued:
    """A certificate of an authority: a server's has hosts, a client's has none."""

    name: str
    kind: str
    hosts: tuple[str, ...]
    serial: int
    since: datetime
    until: datetime
    revoked: datetime | None = None

    @property
    def state(self) -> str:
        """What has become of it: valid, expired, or revoked and when."""
        if self.revoked is not None:
            return f"revoked {self.revoked:%Y-%m-%d}"
        return "expired" if now() > self.until else "valid"


def issued_in(folder: Path | str) -> list[Issued]:
    """Every certificate that the authority of a folder has issued, by name, the newest last."""
    folder = check_path("folder", folder)
    authority = read_authority_certificate(folder)
    revoked = revoked_by(folder, authority)
    certs = [read_certificates(path)[1][0] for path in sorted((folder / ISSUED).glob("*.pem"))]
    found = [described(cert, revoked) for cert in certs]
    return sorted(found, key=lambda one: (one.kind == "client", one.name, one.since, one.until))


def read_authority_certificate(folder: Path) -> x509.Certificate:
    """The authority's own certificate; refused if the folder has none."""
    if not (folder / CA_CERT).exists() or not (folder / ISSUED).is_dir():
        raise InputError(f"{folder} has no certificate authority; smofi certs init {folder} makes one")
    return read_certificates(folder / CA_CERT)[1][0]


def revoked_by(folder: Path, authority: x509.Certificate) -> dict[int, datetime]:
    """The serial numbers that the authority has revoked, and since when."""
    path = folder / CRL
    try:
        (found,) = read_revocation_lists(read_regular(path, LARGEST, "the authority's revocation list"))
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{path} is damaged: expected the authority's revocation list; copy back a good one") from None
    if not found.is_signature_valid(authority.public_key()):  # type: ignore[arg-type]  # of a key that signs
        raise InputError(f"{path} is not signed by {folder / CA_CERT}: expected the authority's own revocation list")
    return {one.serial_number: one.revocation_date_utc for one in found}


def described(cert: x509.Certificate, revoked: Mapping[int, datetime]) -> Issued:
    """What there is to say about a certificate."""
    return Issued(
        name=common_name(cert) or "?",
        kind="server" if is_for(cert, "server") else "client",
        hosts=tuple(hosts_of(cert)),
        serial=cert.serial_number,
        since=cert.not_valid_before_utc,
        until=cert.not_valid_after_utc,
        revoked=revoked.get(cert.serial_number),
    )
