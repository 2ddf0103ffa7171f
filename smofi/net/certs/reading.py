"""Certificates, keys and revocation lists, read from PEM files that may be anything."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import NameOID

from smofi.errors import InputError
from smofi.files import read_regular
from smofi.net.certs.files import LARGEST
from smofi.net.certs.making import PURPOSES

UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)
"""What cryptography raises for what it cannot read."""

CRL_BLOCK = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


def read_certificates(path: Path) -> tuple[bytes, list[x509.Certificate]]:
    """The bytes of a PEM file, and the certificates in it, at least one."""
    content = read_regular(path, LARGEST, "a certificate in a PEM file")
    try:
        return content, x509.load_pem_x509_certificates(content)
    except UNREADABLE:
        raise InputError(f"{path} is damaged or is no certificate: expected a certificate in a PEM file") from None


def read_key(path: Path) -> tuple[bytes, PrivateKeyTypes]:
    """The bytes of a PEM file, and the private key in it, which other users of this machine cannot read."""
    content = read_regular(path, LARGEST, "a private key in a PEM file")
    _check_mode(path)
    try:
        return content, serialization.load_pem_private_key(content, password=None)
    except UNREADABLE as error:
        if "password" in str(error).lower():
            raise InputError(f"{path} is protected by a password: expected a private key without one") from None
        raise InputError(f"{path} is damaged or is no key: expected a private key in a PEM file") from None


def read_revocation_lists(content: bytes) -> list[x509.CertificateRevocationList]:
    """The revocation lists in a PEM file, at least one; ValueError for anything else."""
    blocks = CRL_BLOCK.findall(content)
    if not blocks or content.count(b"-----BEGIN") != len(blocks):
        raise ValueError("is damaged or is no revocation list")
    try:
        lists = [x509.load_pem_x509_crl(block) for block in blocks]
        for one in lists:
            len(one)  # reads its entries
        return lists
    except UNREADABLE:
        raise ValueError("is damaged or is no revocation list") from None


def public_bytes(key: PublicKeyTypes) -> bytes:
    """A public key in one form, to compare it with another."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def common_name(cert: x509.Certificate) -> str | None:
    """The name of a certificate's subject; None if there is none, or more than one."""
    try:
        found = cert.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except UNREADABLE:
        return None
    return str(found[0].value) if len(found) == 1 else None


def hosts_of(cert: x509.Certificate) -> list[str]:
    """The host names and the IP addresses of a server's certificate."""
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, *UNREADABLE):
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def is_for(cert: x509.Certificate, kind: str) -> bool:
    """Whether a certificate may be used by a "server" or a "client"; one that does not say so is for both."""
    try:
        usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    except UNREADABLE:
        return False
    return PURPOSES[kind] in usage or x509.oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage


def _check_mode(path: Path) -> None:
    """As ssh does: a key that others can read is no secret. One of root's may be given to a group, as services do."""
    if os.name != "posix":
        return
    status = path.stat()
    others = stat.S_IRWXG | stat.S_IRWXO
    if status.st_uid == 0 and os.geteuid() != 0:
        others &= ~stat.S_IRGRP
    if status.st_mode & others:
        mode = stat.S_IMODE(status.st_mode)
        raise InputError(f"{path} is open to other users of this machine (mode {mode:04o}): write chmod 600 {path}")
