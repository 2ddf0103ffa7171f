"""Certificates: a certificate authority in a folder, who may connect, and why a connection was refused.

making.py        keys, certificates and revocation lists, as cryptography makes them
authority.py     a folder that issues and revokes certificates     listing.py      what it has issued
names.py         names of clients and of servers, checked          files.py        the files, and writing them safely
identity.py      who a server or a client is: its own files        reading.py      certificates, keys and lists from PEM
chain.py         whether an authority has signed a certificate     credentials.py  the same files, for gRPC
gate.py          who may come in: a name, or a refusal             watched.py      a file that may change
lists.py         the allow-list and the revocation list            probe.py        why a server cannot be reached
sentences.py     what failed in a connection, in words

    init(folder), issue(folder, client="hospital-a"), revoke(folder, "hospital-a"), issued_in(folder)
    Identity.load(folder, "server")     checked files; server_credentials(identity), client_credentials(identity)
    Gate.of(identity, allowed=file)     admit(pem) gives the client's name, or raises Refused
    why_refused(host, port, identity)   a sentence, where gRPC only says that the server is unavailable

Internal: may change without notice.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from smofi.errors import InputError
from smofi.later import load_later

for _package in ("cryptography", "grpc"):
    if find_spec(_package) is None:
        raise InputError(f'{_package} is not installed; it comes with: pip install "smofi[net]"')

if TYPE_CHECKING:
    from smofi.net.certs.authority import init, issue, revoke
    from smofi.net.certs.credentials import client_credentials, server_credentials
    from smofi.net.certs.gate import Gate, Refused
    from smofi.net.certs.identity import Identity
    from smofi.net.certs.listing import Issued, issued_in
    from smofi.net.certs.probe import why_refused
else:
    load_later(
        __name__,
        authority="init issue revoke",
        credentials="client_credentials server_credentials",
        gate="Gate Refused",
        identity="Identity",
        listing="Issued issued_in",
        probe="why_refused",
    )

__all__ = [
    "Gate",
    "Identity",
    "Issued",
    "Refused",
    "client_credentials",
    "init",
    "issue",
    "issued_in",
    "revoke",
    "server_credentials",
    "why_refused",
]
