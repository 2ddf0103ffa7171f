"""The files of certificates, and writing them safely.

pki/                    the authority: stays on one machine, mode 0700
    ca.pem              its certificate, which everybody may have
    ca-key.pem          its private key, mode 0600: whoever has it can issue certificates
    crl.pem             the certificates that it has revoked
    issued/             a copy of every certificate, so that each can be listed and revoked
    server/             for the server: ca.pem, cert.pem, key.pem (mode 0600), crl.pem
    hospital-a/         for a client: ca.pem, cert.pem, key.pem (mode 0600)
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from smofi.errors import InputError
from smofi.files import flush, part_of

CA_CERT, CA_KEY, CRL, ISSUED = "ca.pem", "ca-key.pem", "crl.pem", "issued"
CERT, KEY = "cert.pem", "key.pem"
PRIVATE = {CA_KEY, KEY}
LOCK = ".lock"
LARGEST = 4 * 2**20
"""Bytes of a file that is read: a revocation list of a hundred thousand certificates."""


def write_new(path: Path, content: bytes, name: str | None = None) -> None:
    """Write a file that does not exist yet, later to have this name. A private key is never readable by others, not
    even for a moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if (name or path.name) in PRIVATE else 0o644)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Make a folder with these files, whole or not at all."""
    part = folder.with_name(part_of(folder.name))
    shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
    try:
        part.mkdir(mode=0o700)
        for name, content in contents.items():
            write_new(part / name, content)
        os.rename(part, folder)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(part, ignore_errors=True)
        raise
    flush(folder, folder.parent)


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files of a folder, and leave others that are in it alone.

    All are written before the first takes its place, so that hardly anything can go wrong between two of them. A crash
    there leaves a key that does not belong to its certificate, which `Identity.load` says; renewing again helps.
    """
    parts = {folder / part_of(name): folder / name for name in contents}
    try:
        for part, path in parts.items():
            part.unlink(missing_ok=True)
            write_new(part, contents[path.name], path.name)
        for part, path in parts.items():
            os.replace(part, path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    flush(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time changes an authority's folder."""
    from filelock import FileLock, Timeout  # which loads asyncio

    try:
        with FileLock(folder / LOCK, timeout=10, mode=0o600):
            yield
    except Timeout:
        raise InputError(f"{folder} is being changed by another smofi certs; try again when it has ended") from None


@contextmanager
def removed_on_failure(*paths: Path) -> Iterator[None]:
    """What this block has begun to write is removed if it fails."""
    try:
        yield
    except BaseException:
        for path in paths:
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        raise
