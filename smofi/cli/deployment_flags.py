"""The flags of serve and join, in groups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Group, Parameter

from smofi.cli.arguments import Display
from smofi.errors import InputError, check_count, check_number
from smofi.net.transport.times import Times

SERVER = Group.create_ordered("Server")
WATCHING = Group.create_ordered("Watching")
TIMES = Group.create_ordered("Patience")
CLIENT = Group.create_ordered("Connection")
OWN = Group.create_ordered("Data, model and device")

ANYWHERE, HERE = "0.0.0.0:7443", "127.0.0.1:7443"

Log: TypeAlias = Annotated[
    Literal["text", "json"] | None, Parameter(help="also write events to standard error, one a line")
]


@dataclass(frozen=True)
class ServerFlags:
    """Where a server listens, whom it lets in, and where the run is kept."""

    listen: Annotated[str, Parameter(help="the address and port to listen at; port 0 is any free one")] = ANYWHERE
    certs: Annotated[
        Path | None, Parameter(help="the server's folder of certificates: ca.pem, cert.pem and key.pem (smofi certs)")
    ] = None
    insecure: Annotated[
        bool, Parameter(help="without certificates, in plain text, for trials on this machine", negative=())
    ] = False
    allow: Annotated[
        Path | None, Parameter(help="a file that names the clients that may join, one a line; may be changed")
    ] = None
    min_clients: Annotated[
        int | None, Parameter(help="how many clients a round needs; by default as many as --clients says")
    ] = None
    evaluate: Annotated[
        Literal["server", "clients", "none"] | None,
        Parameter(
            help="where the model is tested: on the server's test data (the default), on what clients hold out, or not "
            "at all; a resumed run keeps its choice"
        ),
    ] = None
    output: Annotated[Path | None, Parameter(help="the folder of the new run; by default one below runs/")] = None
    resume: Annotated[
        Path | None, Parameter(help="go on with the served run in this folder, from its last round saved")
    ] = None

    def check(self) -> None:
        """Refuse flags that do not go together."""
        if self.certs is None and not self.insecure:
            raise InputError(
                "smofi serve needs --certs FOLDER (smofi certs makes it), or --insecure for trials on this machine"
            )
        if self.insecure and (self.certs or self.allow):
            other = "certs" if self.certs else "allow"
            raise InputError(
                f"--insecure is not accepted with --{other}: without certificates, clients name themselves"
            )

    @property
    def address(self) -> str:
        """Where it listens: without certificates on this machine only, unless another address is given."""
        return HERE if self.insecure and self.listen == ANYWHERE else self.listen


@dataclass(frozen=True)
class WatchingFlags:
    """How a server is watched."""

    status: Annotated[str | None, Parameter(help="where to show a live page and /metrics, such as 127.0.0.1:8080")] = (
        None
    )
    log_format: Log = None
    display: Annotated[Display, Parameter(help="how progress is shown; auto: live on a terminal, plain elsewhere")] = (
        "auto"
    )


@dataclass(frozen=True)
class TimeFlags:
    """The settings of time of a deployment: all that there are."""

    away: Annotated[float, Parameter(help="seconds that a client may be out of reach before it counts as gone")] = 15
    deadline: Annotated[
        float, Parameter(help="seconds that a client has for a step before the round goes on without it")
    ] = 900
    keepalive: Annotated[
        float, Parameter(help="seconds of silence after which each side asks the other for a sign of life, 0.1 to 3600")
    ] = 4
    connect: Annotated[
        float, Parameter(help="seconds that a client has to connect and to say who it is, 0.1 to 3600")
    ] = 10

    def check(self) -> None:
        """Refuse what is no time."""
        check_number("away", self.away, above=0, high=1e6)
        Times(keepalive=self.keepalive, connect=self.connect).check_told()


@dataclass(frozen=True)
class ConnectionFlags:
    """How a client connects, and what may leave its machine."""

    certs: Annotated[
        Path | None,
        Parameter(help="your folder of certificates: ca.pem, cert.pem and key.pem, from whoever runs the server"),
    ] = None
    dry_run: Annotated[
        bool, Parameter(help="say what the server asks for and what would leave this machine", negative=())
    ] = False
    allow_labels: Annotated[
        bool, Parameter(help="let labels leave this machine; without it, join U-shaped runs only", negative=())
    ] = False
    insecure: Annotated[
        bool, Parameter(help="without certificates, to a server on this machine, for trials", negative=())
    ] = False
    name: Annotated[str | None, Parameter(help="with --insecure: what this client is called")] = None
    log_format: Log = None

    def check(self) -> None:
        """Refuse flags that do not go together."""
        if self.certs is None and not self.insecure:
            raise InputError("smofi join needs --certs FOLDER, or --insecure for a server on this machine")
        if self.certs is not None and (self.insecure or self.name):
            if self.insecure:
                raise InputError(
                    "--insecure is not accepted with --certs: with certificates, the connection is secured"
                )
            raise InputError("--name is not accepted with --certs: the certificate has the name")
        if self.insecure and not self.name:
            raise InputError("smofi join --insecure needs --name: without certificates, a client names itself")


@dataclass(frozen=True)
class OwnFlags:
    """What a client brings."""

    data: Annotated[str, Parameter(help="your samples: folder:PATH, csv:PATH, npz:PATH, or a data set by name")]
    data_folder: Annotated[Path | None, Parameter(help="where the official files of a data set are")] = None
    label_column: Annotated[str | None, Parameter(help="for csv:PATH, the column to predict")] = None
    part: Annotated[
        int | None,
        Parameter(help="for trials: take only the part that the simulation gives the client of this number"),
    ] = None
    model: Annotated[
        str | None, Parameter(help="python:module:function, if the server's model is that; loads your copy")
    ] = None
    method: Annotated[
        str | None, Parameter(help="python:module:function, if the server's method is that; loads your copy")
    ] = None
    device: Annotated[str, Parameter(help="a torch device, such as cpu or cuda")] = "cpu"
    threads: Annotated[int, Parameter(help="threads inside each operation")] = 1

    def check(self) -> None:
        """Refuse what is no number of threads or of a client."""
        check_count("threads", self.threads)
        if self.part is not None:
            check_count("part", self.part, low=0)

    @property
    def code(self) -> dict[str, str]:
        """The names of the user's own code, by setting."""
        return {name: value for name in ("model", "method") if (value := getattr(self, name))}
