"""Who a server or a client is: its certificate, its key, and the authority that it trusts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography import x509

from smofi.errors import InputError, check_choice, check_path
from smofi.net.certs.chain import signed_by, time_is_wrong
from smofi.net.certs.files import CA_CERT, CERT, KEY
from smofi.net.certs.names import NAMES_ARE, acceptable
from smofi.net.certs.reading import common_name, hosts_of, is_for, public_bytes, read_certificates, read_key


@dataclass(frozen=True)
class Identity:
    """The files of a server or a client, checked. Its key does not show when it is printed."""

    folder: Path
    kind: str
    name: str
    hosts: tuple[str, ...]
    until: datetime
    ca: bytes = field(repr=False)
    cert: bytes = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def load(cls, folder: Path | str, kind: str) -> Identity:
        """Read ca.pem, cert.pem and key.pem for a "server" or a "client". Certificates of other authorities do as well.

        What would fail when connecting is refused here, in a sentence: a file that is missing or damaged, a key that
        does not belong to the certificate or that others can read, a certificate that is expired, not yet valid, not
        signed by the authority, or not meant for this.

        >>> import tempfile
        >>> from smofi.net.certs import init, issue
        >>> pki = Path(tempfile.mkdtemp())
        >>> until, one = init(pki), issue(pki, client="hospital-a")
        >>> Identity.load(pki / "hospital-a", "client").name
        'hospital-a'
        """
        folder, kind = check_path("certs", folder), check_choice("kind", kind, ("server", "client"))
        if not folder.is_dir():
            missing = "is not a folder" if folder.exists() else "does not exist"
            raise InputError(f"{folder} {missing}: expected a folder with {CA_CERT}, {CERT} and {KEY}")
        ca, authorities = read_certificates(folder / CA_CERT)
        pem, chain = read_certificates(folder / CERT)
        key_pem, key = read_key(folder / KEY)
        cert = chain[0]
        if public_bytes(key.public_key()) != public_bytes(cert.public_key()):
            raise InputError(f"{folder / KEY} does not belong to {folder / CERT}: expected the key of this certificate")
        _check_time_and_signature(folder, chain, authorities)
        _check_kind(folder / CERT, cert, kind)
        name, hosts = common_name(cert) or "", tuple(hosts_of(cert))
        return cls(folder, kind, name, hosts, cert.not_valid_after_utc, ca, pem, key_pem)


def _check_time_and_signature(folder: Path, chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> None:
    if wrong := time_is_wrong(chain[0]):
        raise InputError(f"{folder / CERT} {wrong}: renew it, if the clock of this machine is right")
    if not signed_by(chain, authorities):
        raise InputError(f"{folder / CERT} is not signed by {folder / CA_CERT}: expected files that belong together")
    if len(authorities) == 1 and (wrong := time_is_wrong(authorities[0])):
        raise InputError(f"{folder / CA_CERT} {wrong}")


def _check_kind(path: Path, cert: x509.Certificate, kind: str) -> None:
    """A server is looked for by its hosts, a client is known by its name."""
    if not is_for(cert, kind):
        other = "client" if kind == "server" else "server"
        meant = f"is for a {other}, not for a {kind}" if is_for(cert, other) else f"is not meant for a {kind}"
        raise InputError(f"{path} {meant}: expected one that smofi certs issue --{kind} makes, or the like")
    if kind == "server" and not hosts_of(cert):
        raise InputError(f"{path} names no hosts (subjectAltName), so that no client would accept it")
    if kind == "client" and not acceptable(common_name(cert)):
        raise InputError(
            f"{path} has the name (CN) {common_name(cert)!r}, which no server accepts: expected {NAMES_ARE}"
        )
