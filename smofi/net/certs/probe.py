"""Why a server cannot be reached, where gRPC only says that it is unavailable: the same handshake, step by step."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from cryptography import x509

from smofi.net.certs.files import CA_CERT, CERT, KEY
from smofi.net.certs.identity import Identity
from smofi.net.certs.reading import UNREADABLE
from smofi.net.certs.sentences import about_alert, about_own_certificate, about_server_certificate, about_socket

PATIENCE = 5.0
"""Seconds for a connection, for a handshake, and for an answer."""


def why_refused(host: str, port: int, identity: Identity, timeout: float = PATIENCE) -> str | None:
    """Connect as gRPC does and say in a sentence what fails; None if nothing does, or if the server has to say more.

    Blocks for some seconds if the server does not answer: call it in a thread.
    """
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        context = _context(identity)
    except OSError as error:  # ssl.SSLError, too
        files = f"{CA_CERT}, {CERT} and {KEY} in {identity.folder}"
        return f"{files} cannot be used any more: {error.strerror or error} (were they changed or removed?)"
    try:
        connection = socket.create_connection((host, port), timeout)
    except (OSError, UnicodeError) as error:  # a host name that cannot be one
        return about_socket(error, host, where)
    try:
        with context.wrap_socket(connection, server_hostname=host) as secure:
            return _after_handshake(secure, where, identity)
    except ssl.SSLCertVerificationError as error:
        return about_server_certificate(error, _shown_by(host, port, timeout), where, host, identity)
    except (ssl.SSLEOFError, ConnectionError):
        return (
            f"{where} ends the connection during the TLS handshake (is it a smofi server, and one with certificates?)"
        )
    except ssl.SSLError as error:
        return about_alert(error, where, identity)
    except OSError:  # a time-out
        return f"{where} takes connections but does not answer (is it a smofi server, and one with certificates?)"


def _after_handshake(secure: ssl.SSLSocket, where: str, identity: Identity) -> str | None:
    """With TLS 1.3 a server looks at the client's certificate when the client is done. An alert, or the end of the
    connection, only comes with the first read. Nothing is sent before, or an alert of a server that has closed would be
    lost. One that accepts the client speaks first, as HTTP/2 has it, or waits."""
    if secure.selected_alpn_protocol() != "h2":
        return f"{where} is no gRPC server, although its certificate is good (is the port right?)"
    try:
        if secure.recv(1):
            return None
    except (ssl.SSLEOFError, ConnectionError):  # closed, as when nothing is left to read
        pass
    except TimeoutError:
        return None
    return about_own_certificate(where, identity)


def _context(identity: Identity) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=identity.ca.decode("ascii", "ignore"))
    context.load_cert_chain(identity.folder / CERT, identity.folder / KEY)
    context.set_alpn_protocols(["h2"])
    return context


def _shown_by(host: str, port: int, timeout: float) -> x509.Certificate | None:
    """The certificate that a server shows, whatever it is worth: only to say what is wrong with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError, *UNREADABLE),
        socket.create_connection((host, port), timeout) as connection,
        context.wrap_socket(connection, server_hostname=host) as secure,
    ):
        return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    return None
