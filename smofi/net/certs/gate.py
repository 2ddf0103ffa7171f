"""Who may come in: a client's name for its certificate, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from cryptography import x509

from smofi.errors import SmofiError, check_path, shown
from smofi.net.certs.chain import day, time_is_wrong
from smofi.net.certs.files import CRL
from smofi.net.certs.identity import Identity
from smofi.net.certs.lists import Revoked, parse_allowed, parse_revoked
from smofi.net.certs.names import acceptable
from smofi.net.certs.reading import UNREADABLE, common_name, is_for
from smofi.net.certs.watched import Watched


class Refused(SmofiError):
    """A client that may not come in. The sentence is for the client, too; `name` is the certificate's, if any."""

    def __init__(self, sentence: str, name: str | None = None) -> None:
        super().__init__(sentence)
        self.name = name


class Gate:
    """Knows clients by their certificates, which the connection has verified; here their names and both lists count.

    `allowed` is a file with a name per line; without one, every client of the authority may come in. `revoked` is the
    authority's revocation list; it may also be put there later. Both are read again when they change, without a
    restart: ask `still_allowed` of connections that are open. If a file becomes unusable, the last good one stays in
    force and `warn` is told. Several threads may ask at once.
    """

    def __init__(
        self,
        ca: bytes,
        *,
        allowed: Path | str | None = None,
        revoked: Path | str | None = None,
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        authorities = x509.load_pem_x509_certificates(ca)
        self._allowed: Watched[frozenset[str]] | None = None
        self._revoked: Watched[Revoked] | None = None
        if allowed is not None:
            path = check_path("allowed", allowed)
            self._allowed = Watched(path, parse_allowed, "a name per line", warn)
        if revoked is not None:
            path, parse = check_path("revoked", revoked), partial(parse_revoked, authorities=authorities)
            self._revoked = Watched(path, parse, "the authority's revocation list, as PEM", warn, missing={})

    @classmethod
    def of(
        cls,
        identity: Identity,
        *,
        allowed: Path | str | None = None,
        warn: Callable[[str], None] = lambda sentence: None,
    ) -> Gate:
        """The gate of a server, with the revocation list in its folder.

        >>> import tempfile
        >>> from smofi.net.certs import init, issue, revoke
        >>> pki = Path(tempfile.mkdtemp())
        >>> made = init(pki), issue(pki, server="localhost"), issue(pki, client="hospital-a")
        >>> gate, pem = Gate.of(Identity.load(pki / "server", "server")), (pki / "hospital-a/cert.pem").read_bytes()
        >>> gate.admit(pem)
        'hospital-a'
        >>> revoked = revoke(pki, "hospital-a")
        >>> gate.still_allowed("hospital-a", pem)
        False
        """
        return cls(identity.ca, allowed=allowed, revoked=identity.folder / CRL, warn=warn)

    def admit(self, pem: bytes | str) -> str:
        """The name of the client with this certificate; raises `Refused` if it may not come in.

        gRPC has it in `context.auth_context()["x509_pem_cert"][0]`.
        """
        try:
            cert = x509.load_pem_x509_certificate(pem.encode() if isinstance(pem, str) else pem)
        except UNREADABLE:
            raise Refused("the client's certificate cannot be read") from None
        name = common_name(cert)
        if name is None:
            raise Refused("the client's certificate has no name (CN), or more than one")
        if not acceptable(name):
            raise Refused(f"the client's certificate has the name (CN) {shown(name)}, which is not accepted")
        if not is_for(cert, "client"):
            raise Refused(f"the certificate of {name} is not meant for a client", name)
        if wrong := time_is_wrong(cert):
            raise Refused(f"the certificate of {name} {wrong}", name)
        since = self._revoked.value().get((cert.issuer, cert.serial_number)) if self._revoked else None
        if since is not None:
            raise Refused(
                f"the certificate of {name} was revoked on {day(since)}; ask the server's operator for another", name
            )
        if self._allowed is not None and name not in self._allowed.value():
            raise Refused(f"{name} is not on the server's list of clients; ask the server's operator", name)
        return name

    def still_allowed(self, name: str, pem: bytes | str) -> bool:
        """Whether the client of an open connection may stay, as far as certificates and lists are concerned now."""
        try:
            return self.admit(pem) == name
        except Refused:
            return False
