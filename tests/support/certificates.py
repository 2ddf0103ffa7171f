"""Certificates as tests need them: an authority with a server and clients, wrong ones, and a real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from smofi.net.certs import Gate, Identity, Refused, client_credentials, init, issue, server_credentials
from smofi.net.certs.files import write_new
from smofi.net.certs.making import Authority, cert_pem, key_pem, make_certificate, now
from smofi.net.certs.reading import read_certificates, read_key

HOST = "localhost"
METHOD = "/tests.Certificates/Name"


def make_pki(folder: Path, *clients: str) -> Path:
    """An authority with a server for localhost, and clients."""
    init(folder)
    issue(folder, server=[HOST])
    for client in clients:
        issue(folder, client=client)
    return folder


def authority_of(pki: Path) -> Authority:
    key = read_key(pki / "ca-key.pem")[1]
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(read_certificates(pki / "ca.pem")[1][0], key)


def sign(pki: Path, folder: Path, name: str, kind: str, until: datetime) -> Path:
    """A folder with a certificate that ends whenever it should."""
    hosts = [HOST] if kind == "server" else []
    cert, key = make_certificate(authority_of(pki), name, kind, hosts, until)
    folder.mkdir()
    write_new(folder / "ca.pem", (pki / "ca.pem").read_bytes())
    write_new(folder / "cert.pem", cert_pem(cert))
    write_new(folder / "key.pem", key_pem(key))
    return folder


def unchecked(folder: Path, kind: str) -> Identity:
    """The identity in a folder, without the checks that would refuse it."""
    files = [(folder / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem")]
    cert = x509.load_pem_x509_certificate(files[1])
    return Identity(folder, kind, "wrong", (), cert.not_valid_after_utc, *files)


def own_certificate(
    name: str,
    issuer: tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None = None,
    *,
    ca: bool = False,
    names: int = 1,
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate such as other programs make them."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] * names)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.issuer_name(issuer[0].subject if issuer else subject).serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now() - timedelta(hours=1)).not_valid_after(now() + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if usage is not None and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


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
