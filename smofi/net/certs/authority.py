"""A folder that issues certificates to a server and its clients, and revokes them. `files.py` draws the folder."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric import ec

from smofi.errors import InputError, check_count, check_path, refuse, refuse_unwanted
from smofi.net.certs.chain import day, time_is_wrong
from smofi.net.certs.files import (
    CA_CERT,
    CA_KEY,
    CERT,
    CRL,
    ISSUED,
    KEY,
    locked,
    removed_on_failure,
    replace_files,
    write_folder,
    write_new,
)
from smofi.net.certs.listing import Issued, described, issued_in, read_authority_certificate, revoked_by
from smofi.net.certs.making import (
    Authority,
    cert_pem,
    key_pem,
    make_authority,
    make_certificate,
    make_revocation_list,
    now,
)
from smofi.net.certs.names import check_hosts, check_name
from smofi.net.certs.reading import public_bytes, read_key

AUTHORITY_DAYS, DAYS, MOST_DAYS = 3650, 365, 36500
SERVER = "server"
"""The name of a server, and of its folder, unless it is given another."""


def init(folder: Path | str, *, days: int = AUTHORITY_DAYS) -> datetime:
    """Make a certificate authority in a new or an empty folder. Returns until when it is valid.

    >>> import tempfile
    >>> pki = Path(tempfile.mkdtemp()) / "pki"
    >>> until = init(pki)
    >>> sorted(path.name for path in pki.iterdir())
    ['ca-key.pem', 'ca.pem', 'crl.pem', 'issued']
    """
    folder, days = check_path("folder", folder), check_count("days", days, high=MOST_DAYS)
    if (folder / CA_CERT).exists():  # which is written last
        raise InputError(f"{folder} has a certificate authority already: it is left as it is")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        refuse("folder", str(folder), "a new or an empty folder")
    authority = make_authority(days)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    with removed_on_failure(folder / CA_CERT, folder / CRL, folder / CA_KEY, folder / ISSUED):
        (folder / ISSUED).mkdir(mode=0o700)
        write_new(folder / CA_KEY, key_pem(authority.key))
        write_new(folder / CRL, make_revocation_list(authority, ()))
        write_new(folder / CA_CERT, cert_pem(authority.cert))
    return authority.cert.not_valid_after_utc


def issue(
    folder: Path | str,
    *,
    server: str | Sequence[str] | None = None,
    client: str | None = None,
    name: str | None = None,
    days: int | None = None,
    renew: bool = False,
) -> Issued:
    """Issue a certificate to a server, by the hosts that it is reached at, or to a client, by its name.

    Its files are in a folder below: of the client's name, or "server", or a `name` for one server of several. What has
    been issued is not replaced unless it is to `renew`: then the folder gets a new key and a new certificate. An old
    certificate stays valid until its end; revoke first what has fallen into wrong hands.

    >>> import tempfile
    >>> pki = Path(tempfile.mkdtemp())
    >>> until = init(pki)
    >>> issue(pki, server=["train.example.org", "10.0.0.5"]).hosts
    ('train.example.org', '10.0.0.5')
    >>> issue(pki, client="hospital-a").name
    'hospital-a'
    """
    folder = check_path("folder", folder)
    if (server is None) == (client is None):
        raise InputError("a certificate is for a server or for a client: give one of the two")
    hosts = [] if server is None else check_hosts("server", server)
    if client is not None and name is not None:
        refuse_unwanted("name", name, "a client's folder has the client's name")
    if client == SERVER:
        refuse_unwanted("client", client, "the server's folder has this name")
    kind = "client" if server is None else "server"
    name = check_name("client", client) if server is None else check_name("name", SERVER if name is None else name)
    read_authority_certificate(folder)
    with locked(folder):
        authority = _authority(folder)
        _check_issued(folder, name, kind, renew)
        cert, key = make_certificate(authority, name, kind, hosts, _until(authority, days))
        # recorded before it is handed out, so that whatever there is can be revoked
        replace_files(folder / ISSUED, {f"{name}-{cert.serial_number:x}.pem": cert_pem(cert)})
        contents = {KEY: key_pem(key), CERT: cert_pem(cert), CA_CERT: cert_pem(authority.cert)}
        if kind == "server":
            contents[CRL] = (folder / CRL).read_bytes()
        if (folder / name).exists():
            replace_files(folder / name, contents)
        else:
            write_folder(folder / name, contents)
    return described(cert, {})


def revoke(folder: Path | str, name: str) -> tuple[list[Issued], list[Path]]:
    """Revoke all certificates of a name. Returns them, and the revocation lists that were written.

    The list of the authority is brought up to date, and that of each server's folder beside it. A server on another
    machine needs a copy, which it reads without a restart.

    >>> import tempfile
    >>> pki = Path(tempfile.mkdtemp())
    >>> until, one = init(pki), issue(pki, client="hospital-a")
    >>> revoked, written = revoke(pki, "hospital-a")
    >>> [one.name for one in revoked], [path.name for path in written]
    (['hospital-a'], ['crl.pem'])
    """
    folder, name = check_path("folder", folder), check_name("name", name)
    read_authority_certificate(folder)
    with locked(folder):
        authority = _authority(folder)
        everyone = issued_in(folder)
        found = [one for one in everyone if one.name == name]
        if not found:
            _refuse_unknown(folder, name, sorted({one.name for one in everyone}))
        revoked = revoked_by(folder, authority.cert)
        revoked = {**{one.serial: now() for one in found}, **revoked}  # what was revoked before keeps its date
        content = make_revocation_list(authority, revoked.items())
        written = [folder / CRL, *sorted(folder.glob(f"*/{CRL}"))]
        for path in written:
            replace_files(path.parent, {CRL: content})
    return [one for one in issued_in(folder) if one.name == name], written


def _authority(folder: Path) -> Authority:
    """The authority of a folder, fit to sign."""
    cert = read_authority_certificate(folder)
    _, key = read_key(folder / CA_KEY)
    if not isinstance(key, ec.EllipticCurvePrivateKey) or public_bytes(key.public_key()) != public_bytes(
        cert.public_key()
    ):
        raise InputError(f"{folder / CA_KEY} does not belong to {folder / CA_CERT}: expected the authority's own key")
    if wrong := time_is_wrong(cert):
        raise InputError(f"the certificate authority of {folder} {wrong}; make a new one in another folder")
    return Authority(cert, key)


def _check_issued(folder: Path, name: str, kind: str, renew: bool) -> None:
    """A name is issued once, and then renewed for what it was."""
    before = [one for one in issued_in(folder) if one.name.lower() == name.lower()]
    if not before and (folder / name).exists():
        raise InputError(f"{folder / name} exists but was not issued by this authority: it is left as it is")
    if before and (before[-1].kind != kind or before[-1].name != name):
        last = before[-1]
        raise InputError(f"{last.name} is the name of a {last.kind} already: choose another than {name}")
    if before and not renew:
        raise InputError(
            f"{name} has a certificate already, {before[-1].state}, until {day(before[-1].until)}: "
            "write --renew for a new key and a new certificate"
        )
    if renew and not before:
        raise InputError(f"{name} has no certificate that could be renewed: issue one without --renew")


def _until(authority: Authority, days: int | None) -> datetime:
    """When a certificate ends: not after its authority, since it would not be accepted any more."""
    end = authority.cert.not_valid_after_utc
    if days is None:
        return min(now() + timedelta(days=DAYS), end)
    until = now() + timedelta(days=check_count("days", days, high=MOST_DAYS))
    if until > end:
        refuse("days", days, f"at most {(end - now()).days}, since the certificate authority ends on {day(end)}")
    return until


def _refuse_unknown(folder: Path, name: str, names: Sequence[str]) -> NoReturn:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise InputError(f"{folder} has issued no certificate to {name!r}{hint}; smofi certs list {folder} shows all")
