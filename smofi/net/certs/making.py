"""Keys, certificates and revocation lists, as cryptography makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from smofi.net.certs.names import address

EARLIER = timedelta(hours=1)
"""Certificates are valid from an hour ago, for machines whose clocks are behind."""

PURPOSES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


@dataclass(frozen=True)
class Authority:
    """The certificate and the private key of a certificate authority."""

    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def now() -> datetime:
    """This moment, in UTC and in whole seconds, as certificates have it."""
    return datetime.now(timezone.utc).replace(microsecond=0)


def make_authority(days: int) -> Authority:
    """A new certificate authority. Its name has its serial number in it, so that one is told from another."""
    key, serial = ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    name = _named(f"smofi CA {serial:x}"[:24])
    builder = _builder(name, name, key.public_key(), key.public_key(), serial, now() + timedelta(days=days))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return Authority(builder.sign(key, hashes.SHA256()), key)


def make_certificate(
    authority: Authority, name: str, kind: str, hosts: Sequence[str], until: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """A certificate for a server or a client, and its key. Clients look for a server's `hosts`, not for its name."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issuer_key = authority.cert.subject, authority.key.public_key()
    builder = _builder(_named(name), issuer, key.public_key(), issuer_key, x509.random_serial_number(), until)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([PURPOSES[kind]]), critical=False)
    if hosts:
        addresses = ((host, address(host)) for host in hosts)
        names = [x509.DNSName(host) if ip is None else x509.IPAddress(ip) for host, ip in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority.key, hashes.SHA256()), key


def make_revocation_list(authority: Authority, revoked: Iterable[tuple[int, datetime]]) -> bytes:
    """The signed list of revoked serial numbers and since when, as PEM. It holds until it is replaced."""
    builder = x509.CertificateRevocationListBuilder().issuer_name(authority.cert.subject)
    builder = builder.last_update(now()).next_update(max(authority.cert.not_valid_after_utc, now() + timedelta(days=1)))
    for serial, since in revoked:
        one = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(since).build()
        builder = builder.add_revoked_certificate(one)
    return builder.sign(authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def cert_pem(cert: x509.Certificate) -> bytes:
    """A certificate as a PEM file has it."""
    return cert.public_bytes(serialization.Encoding.PEM)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as a PEM file has it: without a password, since a server starts without a person."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    serial: int,
    until: datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key).serial_number(serial)
    builder = builder.not_valid_before(now() - EARLIER).not_valid_after(until)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
