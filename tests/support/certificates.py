"""Certificates as tests need them: an authority with a server and clients, wrong ones, and a real server."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from smofi.net.certs import Gate, Identity, Refused, client_credentials, init, issue, server_credentials

HOST = "localhost"
METHOD = "/tests.Certificates/Name"
Issuer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def now() -> datetime:
    return datetime.now(timezone.utc)


def cert_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    nothing = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, nothing)


def written(folder: Path, ca: bytes, cert: bytes, key: bytes) -> Path:
    """A folder with these files, as a server or a client has them."""
    folder.mkdir()
    for name, content in (("ca.pem", ca), ("cert.pem", cert), ("key.pem", key)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    return folder


def make_pki(folder: Path, *clients: str) -> Path:
    """An authority with a server for this machine, and clients."""
    init(folder)
    issue(folder, server=[HOST])
    for client in clients:
        issue(folder, client=client)
    return folder


def sign(pki: Path, folder: Path, name: str, kind: str, until: datetime) -> Path:
    """A folder with a certificate of this authority that ends whenever it should."""
    key = serialization.load_pem_private_key((pki / "ca-key.pem").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    authority = x509.load_pem_x509_certificate((pki / "ca.pem").read_bytes())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if kind == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
    hosts = [HOST] if kind == "server" else []
    cert, own = own_certificate(name, (authority, key), usage=usage, until=until, hosts=hosts)
    return written(folder, cert_pem(authority), cert_pem(cert), key_pem(own))


def unchecked(folder: Path, kind: str) -> Identity:
    """The identity in a folder, without the checks that would refuse it."""
    files = [(folder / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem")]
    cert = x509.load_pem_x509_certificate(files[1])
    return Identity(folder, kind, "wrong", (), cert.not_valid_after_utc, *files)


def own_certificate(
    name: str,
    issuer: Issuer | None = None,
    *,
    ca: bool = False,
    names: int = 1,
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
    until: datetime | None = None,
    hosts: list[str] | None = None,
) -> Issuer:
    """A certificate such as other programs make them."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] * names)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.issuer_name(issuer[0].subject if issuer else subject).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now() - timedelta(hours=1)).not_valid_after(until or now() + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if usage is not None and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if hosts:
        places = [x509.DNSName(one) if one[0].isalpha() else x509.IPAddress(ipaddress.ip_address(one)) for one in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


class Authority:
    """Signs certificates, for gRPC alone.

    >>> Authority().issue("hospital-a")[1].startswith(b"-----BEGIN CERTIFICATE-----")
    True
    """

    def __init__(self) -> None:
        self.own = own_certificate("an authority for tests", ca=True)
        self.pem = cert_pem(self.own[0])

    def issue(self, name: str) -> tuple[bytes, bytes]:
        """A private key and the certificate of a server or client with this name, as PEM."""
        cert, key = own_certificate(name, self.own, usage=None, hosts=[HOST, "127.0.0.1"])
        return key_pem(key), cert_pem(cert)

    def server(self) -> Any:
        """A server's credentials, which ask for a client's certificate."""
        return grpc.ssl_server_credentials([self.issue(HOST)], self.pem, require_client_auth=True)

    def client(self, name: str) -> Any:
        """A client's credentials."""
        return grpc.ssl_channel_credentials(self.pem, *self.issue(name))


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


class _Names(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Answers every call with the client's name, if the gate lets it in."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return self.gate.admit(context.auth_context()["x509_pem_cert"][0]).encode()
        except Refused as error:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            raise


@contextmanager
def serving(identity: Identity | None, gate: Gate | None = None) -> Iterator[int]:
    """A real gRPC server on loopback, without TLS if there is no identity; yields its port."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=(_Names(gate),) if gate else ())
    if identity is None:
        port = server.add_insecure_port(f"{HOST}:0")
    else:
        port = server.add_secure_port(f"{HOST}:0", server_credentials(identity))
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def call(port: int, identity: Identity, host: str = HOST) -> str:
    """What the server answers to this client; grpc.RpcError if it does not."""
    with grpc.secure_channel(f"{host}:{port}", client_credentials(identity)) as channel:
        answer: bytes = channel.unary_unary(METHOD)(b"", timeout=20)
        return answer.decode()
