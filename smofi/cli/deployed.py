"""Commands that train across machines: serve, join, and the certificates by which they know each other."""

from __future__ import annotations

import shlex
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from cyclopts import App, Group, Parameter
from rich.table import Table
from rich.text import Text

from smofi.cli.entry import loading, remark
from smofi.cli.program import (
    COMMAND_LINE,
    NONE_SERVED,
    ONE_OR_MORE,
    OPTIONAL,
    SEVERAL,
    Display,
    NewRun,
    Scale,
    ServedFlags,
    Source,
    app,
    command,
    console,
    doc,
    print_line,
    reading,
    resolve_or_resume,
    settings_given,
)
from smofi.cli.train import finishing_the_round, new_folder, print_results
from smofi.config.settings import check_served
from smofi.errors import InputError, check_count, check_number
from smofi.net.transport.addresses import parse
from smofi.net.transport.times import Times
from smofi.plural import plural
from smofi.serving import saving_every_round

if TYPE_CHECKING:
    from smofi.engine.events import Event
    from smofi.experiment import FolderRun
    from smofi.serving.checks import Serving
    from smofi.serving.server import Server
    from smofi.training import Result

ANYWHERE, HERE = "0.0.0.0:7443", "127.0.0.1:7443"
Log: TypeAlias = Annotated[Literal["text", "json"] | None, doc("also write events to standard error, one a line")]


@dataclass(frozen=True)
class ServerFlags:
    """Say where a server listens, whom it lets in, and where the run is kept."""

    listen: Annotated[str, doc("the address and port to listen at; port 0 is any free one")] = ANYWHERE
    certs: Annotated[
        Path | None, doc("the server's folder of certificates: ca.pem, cert.pem and key.pem (smofi certs)")
    ] = None
    insecure: Annotated[bool, doc("without certificates, in plain text, for trials on this machine")] = False
    allow: Annotated[Path | None, doc("a file that names the clients that may join, one a line; may be changed")] = None
    min_clients: Annotated[int | None, doc("how many clients a round needs; by default as many as --clients says")] = (
        None
    )
    evaluate: Annotated[
        Literal["server", "clients", "none"] | None,
        doc(
            "where the model is tested: on the server's test data (the default), on what clients hold out, or not at "
            "all; a resumed run keeps its choice"
        ),
    ] = None
    output: NewRun = None
    resume: Annotated[Path | None, doc("go on with the served run in this folder, from its last round saved")] = None


@dataclass(frozen=True)
class WatchingFlags:
    status: Annotated[str | None, doc("where to show a live page and /metrics, such as 127.0.0.1:8080")] = None
    log_format: Log = None
    display: Display = "auto"


@dataclass(frozen=True)
class TimeFlags:
    away: Annotated[float, doc("seconds that a client may be out of reach before it counts as gone")] = 15
    deadline: Annotated[float, doc("seconds that a client has for a step before the round goes on without it")] = 900
    keepalive: Annotated[
        float, doc("seconds of silence after which each side asks the other for a sign of life, 0.1 to 3600")
    ] = 4
    connect: Annotated[float, doc("seconds that a client has to connect and to say who it is, 0.1 to 3600")] = 10


SERVER, WATCHING, TIMES = ServerFlags(), WatchingFlags(), TimeFlags()


@command(
    "smofi serve run.yaml --certs pki/server --status 127.0.0.1:8080",
    "smofi serve run.yaml --certs pki/server --allow clients.txt --min-clients 5 --output runs/served",
    "smofi serve --resume runs/served --certs pki/server",
    options=SEVERAL + OPTIONAL,  # it refuses the settings that are on or off
)
def serve(
    source: Source = None,
    /,
    *,
    flags: ServedFlags = NONE_SERVED,
    scale: Scale = None,
    server: Annotated[ServerFlags, Parameter(name="*", group=Group.create_ordered("Server"))] = SERVER,
    watching: Annotated[WatchingFlags, Parameter(name="*", group=Group.create_ordered("Watching"))] = WATCHING,
    times: Annotated[TimeFlags, Parameter(name="*", group=Group.create_ordered("Patience"))] = TIMES,
) -> int:
    """Train with clients on other machines, each of which runs `smofi join`. Their samples stay with them.

    Settings are those of `smofi run` that make sense with real clients. The server's `data` says what samples look
    like, and has the test data. It waits until enough clients are there, trains, saves every round, and stops. Ctrl-C
    and SIGTERM let it finish the round. After a crash, `smofi serve --resume DIR` goes on from the last round saved,
    and clients come back by themselves.
    """
    given = settings_given(flags)
    check_served(given)  # first: that a setting needs another one would be no help where that one is refused too
    if server.certs is None and not server.insecure:
        raise InputError(
            "smofi serve needs --certs FOLDER (smofi certs makes it), or --insecure for trials on this machine"
        )
    if server.insecure and (server.certs or server.allow):
        other = "certs" if server.certs else "allow"
        raise InputError(f"--insecure is not accepted with --{other}: without certificates, clients name themselves")
    check_number("away", times.away, above=0, high=1e6)
    waits = Times(patience=times.away, keepalive=times.keepalive, connect=times.connect)
    waits.check_told()
    config = resolve_or_resume(source, given, scale, server.output, server.resume, served=True)
    config = saving_every_round(config, given, remark, resumed=server.resume is not None)
    with loading():
        from smofi.serving.checks import Serving

    named = server.resume or server.output
    with nullcontext(named) if named else new_folder(config.data) as folder:
        serving = Serving(
            config,
            folder,
            HERE if server.insecure and server.listen == ANYWHERE else server.listen,
            server.certs,
            server.allow,
            server.min_clients,
            server.evaluate,
            times.deadline,
            server.resume is not None,
            shlex.join(["smofi", *COMMAND_LINE]),
            waits,
        )
        return _serve(serving, watching)


def _serve(serving: Serving, watching: WatchingFlags) -> int:
    """Serve until all runs are done, with a display, a status page, logs and signals around them. Exit code 1 for a run
    that diverged, 128 + n after signal n."""
    from smofi.net.status import Board, StatusServer
    from smofi.report.live import Live
    from smofi.report.results import History
    from smofi.serving.server import served

    config, board, started = serving.config, Board(), time.perf_counter()
    live = Live(console, list(config.method), config.rounds, watching.display, seeds=config.each_seed)
    results: dict[tuple[int, str], Result] = {}
    begun: list[FolderRun] = []

    def show(event: Event) -> None:
        live(event)
        board.callback(event)

    def interrupt() -> None:
        server.hub.stopping = True
        for one in begun[-1:]:
            one.session.run.interrupt()

    with ExitStack() as stack:
        if watching.log_format:
            from smofi.net.logs import configure_logs

            configure_logs(watching.log_format)
        if watching.status:
            live.say(f"Status: {stack.enter_context(StatusServer(board, watching.status))}")
        with reading(config.data) as progress:
            server = stack.enter_context(served(serving, board, show, progress))
        judged = server.runs[0].judged
        for number, one in enumerate(server.runs):
            live.recall(number, History.of(one.name, one.session.run.history, one.seed, **judged))
        secured = "with certificates" if serving.certs else "in plain text"
        live.say(
            f"Listening at {serving.listen.rpartition(':')[0]}:{server.port} {secured}; waiting for "
            f"{plural(serving.least, 'client')}. {config.model} cut at {config.cut}, {plural(config.rounds, 'round')}, "
            f"in {server.path}"
        )
        server.hub.say = live.say
        with finishing_the_round(interrupt) as caught:
            with live:
                for one, result in server.train(begun.append):
                    results[one.seed, one.name] = result
                    if caught:
                        break
            stack.close()
    if live.mode != "jsonl":
        print_results(config, server.path, results, judged, time.perf_counter() - started, live.mode)
    if caught and not server.finished:
        remark(f"Interrupted; go on with: {_resumption(serving, server)}, and other options as before")
        return 128 + caught[0]
    return 1 if any(result.diverged for result in results.values()) else 0


def _resumption(serving: Serving, server: Server) -> str:
    """Return the command that goes on with a run, with the options that it needs and that no folder keeps."""
    words = ["smofi", "serve", "--resume", str(server.path)]
    words += ["--certs", str(serving.certs)] if serving.certs else ["--insecure"]
    words += ["--listen", f"{serving.listen.rpartition(':')[0]}:{server.port}"]
    words += ["--allow", str(serving.allow)] if serving.allow else []
    words += ["--min-clients", str(serving.min_clients)] if serving.min_clients is not None else []
    return shlex.join(words)


# --------------------------------------------------------------------------------------------------------------------
# A client of a served run.


@dataclass(frozen=True)
class ConnectionFlags:
    """Say how a client connects, and what may leave its machine."""

    certs: Annotated[
        Path | None,
        doc("your folder of certificates: ca.pem, cert.pem and key.pem, from whoever runs the server"),
    ] = None
    dry_run: Annotated[bool, doc("say what the server asks for and what would leave this machine")] = False
    allow_labels: Annotated[bool, doc("let labels leave this machine; without it, join U-shaped runs only")] = False
    insecure: Annotated[bool, doc("without certificates, to a server on this machine, for trials")] = False
    name: Annotated[str | None, doc("with --insecure: what this client is called")] = None
    log_format: Log = None


@dataclass(frozen=True)
class OwnFlags:
    data: Annotated[str, doc("your samples: folder:PATH, csv:PATH, npz:PATH, or a data set by name")]
    data_folder: Annotated[Path | None, doc("where the official files of a data set are")] = None
    label_column: Annotated[str | None, doc("for csv:PATH, the column to predict")] = None
    part: Annotated[
        int | None,
        doc("for trials: take only the part that the simulation gives the client of this number"),
    ] = None
    model: Annotated[str | None, doc("python:module:function, if the server's model is that; loads your copy")] = None
    method: Annotated[str | None, doc("python:module:function, if the server's method is that; loads your copy")] = None
    device: Annotated[str, doc("a torch device, such as cpu or cuda")] = "cpu"
    threads: Annotated[int, doc("threads inside each operation")] = 1


CONNECTION = ConnectionFlags()


@command(
    "smofi join train.example.org:7443 --certs pki/hospital-a --data folder:scans --dry-run",
    "smofi join train.example.org:7443 --certs pki/hospital-a --data folder:scans --allow-labels",
)
def join(
    server: Annotated[str, doc("the server's address, such as train.example.org:7443")],
    /,
    *,
    connection: Annotated[ConnectionFlags, Parameter(name="*", group=Group.create_ordered("Connection"))] = CONNECTION,
    own: Annotated[OwnFlags, Parameter(name="*", group=Group.create_ordered("Data, model and device"))],
) -> int:
    """Take part in a run that `smofi serve` trains. Your samples stay here; activations and gradients do not.

    The connection is made from here, and made again whenever it is lost or the server restarts. The command ends with
    the run, or with Ctrl-C. Look first: `--dry-run` says what would leave this machine.
    """
    if connection.certs is None and not connection.insecure:
        raise InputError("smofi join needs --certs FOLDER, or --insecure for a server on this machine")
    if connection.certs and connection.insecure:
        raise InputError("--insecure is not accepted with --certs: with certificates, the connection is secured")
    if connection.certs and connection.name:
        raise InputError("--name is not accepted with --certs: the certificate has the name")
    if connection.insecure and not connection.name:
        raise InputError("smofi join --insecure needs --name: without certificates, a client names itself")
    check_count("threads", own.threads)
    if own.part is not None:
        check_count("part", own.part, low=0)
    parse(server)
    with loading():
        from smofi.serving.client import Client, Joining
        from smofi.serving.leaving import about
        from smofi.serving.own_data import OwnData
    if connection.log_format:
        from smofi.net.logs import configure_logs

        configure_logs(connection.log_format)
    with reading(own.data) as progress:
        joining = Joining(
            server,
            OwnData(own.data, own.data_folder, own.part, own.label_column),
            connection.certs,
            connection.name,
            connection.allow_labels,
            {name: value for name, value in (("model", own.model), ("method", own.method)) if value},
            own.device,
            own.threads,
            progress=progress,
        )
        client = Client(joining, remark)
        if connection.dry_run:
            for line in about(client.offered(), connection.allow_labels):
                print_line(line)
            return 0
        reason = client.run()
    print(f"{reason[:1].upper()}{reason[1:]}. Rounds taken part in: {client.rounds}.")
    return 0


# --------------------------------------------------------------------------------------------------------------------
# Certificates: init, issue, revoke, list.

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
