"""The commands that issue certificates: certs init, issue, revoke, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import App
from rich.table import Table
from rich.text import Text

from smofi.cli.entry import loading
from smofi.cli.flags import ONE_OR_MORE, doc
from smofi.cli.program import app, command, console
from smofi.errors import InputError
from smofi.plural import plural

certs = App(
    name="certs",
    help="Issue and revoke certificates, by which a server and its clients know each other.",
    group_parameters=app.group_parameters,
    sort_key=len(list(app)),
)
app.command(certs)
Pki: TypeAlias = Annotated[Path, doc("the folder of the certificate authority")]


@command("smofi certs init pki", of=certs)
def init(
    pki: Annotated[Path, doc("a new or an empty folder")],
    /,
    *,
    days: Annotated[int, doc("how long the authority and all its certificates can be valid")] = 3650,
) -> int:
    """Make a certificate authority, which issues certificates to a server and its clients."""
    with loading():
        from smofi.net.certs import init
    until = init(pki, days=days)
    print(f"Certificate authority: {pki}, valid until {until:%Y-%m-%d}")
    print(f"{pki / 'ca-key.pem'} stays on this machine: whoever has it can issue certificates. Keep a backup.")
    print(f"Next: smofi certs issue {pki} --server HOST, and --client NAME for each client")
    return 0


@command(
    "smofi certs issue pki --server train.example.org 10.0.0.5",
    "smofi certs issue pki --client hospital-a",
    "smofi certs issue pki --client hospital-a --days 90 --renew",
    of=certs,
)
def issue(
    pki: Pki,
    /,
    *,
    server: Annotated[
        list[str] | None,
        doc("for a server: all host names and IP addresses that clients connect to"),
        ONE_OR_MORE,
    ] = None,
    client: Annotated[str | None, doc("for a client: the name that the server will know it by")] = None,
    name: Annotated[str | None, doc("the name of a server and its folder, for several; by default server")] = None,
    days: Annotated[
        int | None, doc("how long the certificate is valid; by default 365, or as long as the authority is")
    ] = None,
    renew: Annotated[bool, doc("replace the key and the certificate of this name")] = False,
) -> int:
    """Issue a certificate to a server or to a client, with a folder to copy to its machine.

    Certificates that are renewed stay valid until their end, unless they are revoked before.
    """
    if (server is None) == (client is None):
        raise InputError("smofi certs issue needs --server HOST or --client NAME, one of the two")
    with loading():
        from smofi.net.certs import issue
    issued = issue(pki, server=server, client=client, name=name, days=days, renew=renew)
    folder = pki / issued.name
    print(f"Certificate: {folder}, for {', '.join(issued.hosts) or issued.name}, valid until {issued.until:%Y-%m-%d}")
    print(f"Copy this folder to the {issued.kind}'s machine, by a way that keeps key.pem secret, such as scp.")
    print(f"{pki / 'ca-key.pem'} stays here.")
    if renew and issued.kind == "server":
        print("A server that is running has to be restarted.")
    return 0


@command("smofi certs revoke pki hospital-a", of=certs)
def revoke(
    pki: Pki, name: Annotated[str, doc("the name of a client or a server, as smofi certs list shows it")], /
) -> int:
    """Revoke all certificates of a name, as when a key is lost or a client leaves.

    A running server notices when its crl.pem changes.
    """
    with loading():
        from smofi.net.certs import revoke
    revoked, written = revoke(pki, name)
    print(f"Revoked: {plural(len(revoked), 'certificate')} of {name}")
    print(f"Written: {', '.join(map(str, written))}")
    print(f"If a server's folder is on another machine, copy {pki / 'crl.pem'} there. It needs no restart.")
    return 0


@command("smofi certs list pki", name="list", of=certs)
def list_(pki: Pki, /) -> int:
    """List the certificates that were issued: to whom, until when, and whether they are revoked."""
    with loading():
        from smofi.net.certs import issued_in
    found = issued_in(pki)
    if not found:
        print(f"{pki} has issued no certificates yet: smofi certs issue {pki} --client NAME")
        return 0
    table = Table("name", "for", "until", "state")
    for one in found:
        state = Text(one.state, style="" if one.state == "valid" else "bold")
        table.add_row(Text(one.name), Text("\n".join(one.hosts) or one.kind), f"{one.until:%Y-%m-%d}", state)
    console.print(table)
    return 0
