"""The command that takes part in a served run: join."""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import Parameter

from smofi.cli.deployment_flags import CLIENT, OWN, ConnectionFlags, OwnFlags
from smofi.cli.streams import loading, remark
from smofi.engine.processes.endings import Interrupted, handled
from smofi.net.transport.addresses import parse

if TYPE_CHECKING:
    from smofi.serving.client import Client


def join(
    server: Annotated[str, Parameter(help="the server's address, such as train.example.org:7443")],
    /,
    *,
    connection: Annotated[ConnectionFlags, Parameter(name="*", group=CLIENT)] = ConnectionFlags(),  # noqa: B008
    own: Annotated[OwnFlags, Parameter(name="*", group=OWN)],
) -> int:
    """Take part in a run that `smofi serve` trains. Your samples stay here; activations and gradients do not.

    The connection is made from here, and made again whenever it is lost or the server restarts. The command ends with
    the run, or with Ctrl-C. Look first: `--dry-run` says what would leave this machine.
    """
    connection.check()
    own.check()
    parse(server)
    with loading():
        from smofi.cli.reading import reading
        from smofi.serving.client import Client, Joining
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
            own.code,
            own.device,
            own.threads,
            progress=progress,
        )
        client = Client(joining, remark)
        return _show(client) if connection.dry_run else _take_part(client)


def _take_part(client: Client) -> int:
    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise Interrupted(number)

    with handled(stop):
        reason = client.run()
    print(f"{reason[:1].upper()}{reason[1:]}. Rounds taken part in: {client.rounds}.")
    return 0


def _show(client: Client) -> int:
    from smofi.cli.program import console
    from smofi.serving.leaving import about

    for line in about(client.offered(), client.joining.allow_labels):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0
