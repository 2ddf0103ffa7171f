"""Certificates for tests, made on the spot: an authority, a server on this machine, and clients."""

from __future__ import annotations

import datetime
import ipaddress
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates.

    >>> Authority().issue("hospital-a")[1].startswith(b"-----BEGIN CERTIFICATE-----")
    True
    """

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("an authority for tests")
        self.pem = _pem(self._built(self._name, self._key.public_key(), authority=True))

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A private key and the certificate of a server or client with this name, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private, _pem(self._built(_named(name), key.public_key(), authority=False))

    def server(self) -> Any:
        """A server's credentials, which ask for a client's certificate."""
        return grpc.ssl_server_credentials([self.issue("localhost")], self.pem, require_client_auth=True)

    def client(self, name: str) -> Any:
        """A client's credentials."""
        return grpc.ssl_channel_credentials(self.pem, *self.issue(name))

    def _built(self, name: x509.Name, key: Any, *, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(places), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def name_in(pem: bytes) -> str:
    """The name that a certificate carries."""
    (found,) = x509.load_pem_x509_certificate(pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)


class Named:
    """A gate that lets in whoever has a name; `asked` has those it was asked about."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def name_of(self, pem: bytes | None) -> str:
        self.asked.append(name_in(pem or b""))
        return self.asked[-1]


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
