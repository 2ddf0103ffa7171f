"""What failed in a connection, in words: what is wrong, and who can put it right."""

from __future__ import annotations

import socket
import ssl

from cryptography import x509

from smofi.net.certs.chain import day, signed_by, time_is_wrong
from smofi.net.certs.files import CA_CERT
from smofi.net.certs.identity import Identity
from smofi.net.certs.reading import hosts_of, is_for

EXPIRED, NOT_YET, REVOKED, OTHER_HOST, OTHER_ADDRESS = 10, 9, 23, 62, 64
"""OpenSSL's codes for what is wrong with a certificate."""

ALERTS = {
    "CERTIFICATE_EXPIRED": "it is expired",
    "CERTIFICATE_REVOKED": "it is revoked",
    "UNKNOWN_CA": "the server trusts another certificate authority",
    "BAD_CERTIFICATE": "it is damaged or not meant for a client",
    "UNSUPPORTED_CERTIFICATE": "it is not meant for a client",
    "CERTIFICATE_UNKNOWN": "the server does not say why",
    "CERTIFICATE_REQUIRED": "none has arrived",
    "ACCESS_DENIED": "it may not come in",
    "DECRYPT_ERROR": "its signature is wrong",
}
"""What a server says about a client's certificate, by the end of the alert's name."""

NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST", "UNKNOWN_PROTOCOL")


def about_socket(error: Exception, host: str, where: str) -> str:
    """There is no connection at all."""
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return f"there is no machine called {host}, or its name cannot be looked up here"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {where} (is the server running, and is the port right?)"
    if isinstance(error, TimeoutError):
        return f"{where} does not answer (is the machine on, and does a firewall let this port through?)"
    reason = error.strerror if isinstance(error, OSError) else None
    return f"{where} cannot be reached: {reason or error}"


def about_server_certificate(
    error: ssl.SSLCertVerificationError, cert: x509.Certificate | None, where: str, host: str, identity: Identity
) -> str:
    """The client does not accept the server's certificate. It is shown with no claim that it is genuine."""
    code = error.verify_code
    if code in (OTHER_HOST, OTHER_ADDRESS):
        hosts = ", ".join(hosts_of(cert)) if cert else ""
        names = f"; it is for {hosts}" if hosts else ""
        return f"the certificate of {where} is not for {host}{names}: connect by a name that it is for"
    if code in (EXPIRED, NOT_YET):
        wrong = (time_is_wrong(cert) if cert else None) or ("expired" if code == EXPIRED else "is not valid yet")
        return f"the certificate of {where} {wrong}: its operator has to renew it, if this machine's clock is right"
    if code == REVOKED:
        return f"the certificate of {where} is revoked: ask its operator"
    if cert is None or signed_by([cert], x509.load_pem_x509_certificates(identity.ca)):
        return f"the certificate of {where} is not accepted: {error.verify_message}"
    issuer = cert.issuer.rfc4514_string()
    return (
        f"the certificate of {where} is signed by another certificate authority, {issuer}, than the one in "
        f"{identity.folder / CA_CERT} (is this the right server, and does this folder belong to it?)"
    )


def about_alert(error: ssl.SSLError, where: str, identity: Identity) -> str:
    """The server says what is wrong, or does not speak TLS."""
    reason = error.reason or ""
    if reason in NOT_TLS:
        return f"{where} does not use TLS: it is no smofi server, or one that was started without certificates"
    for ending, meaning in ALERTS.items():
        if reason.endswith(f"ALERT_{ending}"):
            return f"{where} does not accept this client's certificate, {_own(identity)}: {meaning}"
    return f"the TLS handshake with {where} fails: {reason.lower().replace('_', ' ') or error}"


def about_own_certificate(where: str, identity: Identity) -> str:
    """The server ends the connection at the sight of the client's certificate. gRPC does so without an alert."""
    chain = x509.load_pem_x509_certificates(identity.cert)
    why = time_is_wrong(chain[0])
    if why is None and not is_for(chain[0], "client"):
        why = "is not meant for a client"
    if why is None and not signed_by(chain, x509.load_pem_x509_certificates(identity.ca)):
        why = f"is signed by another certificate authority, {chain[0].issuer.rfc4514_string()}"
    if why is not None:
        return f"{where} does not accept this client's certificate, {_own(identity)}: it {why}"
    return (
        f"{where} does not accept this client's certificate, {_own(identity)}, and does not say why: "
        "the server may trust another certificate authority, or its clock may be wrong"
    )


def _own(identity: Identity) -> str:
    return f"{identity.name} until {day(identity.until)}"
