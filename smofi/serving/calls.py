"""What stands behind `smofi.serve` and `smofi.join`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from smofi.config import Config, read_config
from smofi.config.reading import stored_config
from smofi.engine.events import Callback, Event
from smofi.errors import refuse, refuse_unwanted
from smofi.net.status import Board, StatusServer
from smofi.serving import saving_every_round
from smofi.serving.checks import Serving
from smofi.serving.server import served
from smofi.training import Result


def check_secured(
    whose: str, certs: str | None, insecure: bool, *, allow: str | None = None, name: str | None = None
) -> None:
    """Refuse a connection that is neither secured nor meant not to be, and names that mean nothing then.

    >>> check_secured("client", None, insecure=True, name="a")
    """
    if certs is None and not insecure:
        folder = f"the {whose}'s folder of certificates, which smofi certs makes"
        refuse("certs", certs, f"{folder}, or insecure=True for trials on this machine, in plain text")
    if certs is not None and insecure:
        refuse_unwanted("insecure", insecure, "with certs, the connection is secured")
    if certs is not None and name is not None:
        refuse_unwanted("name", name, "with certs, the certificate has the name")
    if insecure and allow is not None:
        refuse_unwanted("allow", allow, "without certificates, clients name themselves")
    if insecure and whose == "client" and not name:
        refuse("name", name, "what this client is called: without certificates, it names itself")


def settled(
    config: Mapping[str, Any] | str, output: Path, resume: bool, say: Callable[[str], object] = lambda sentence: None
) -> Config:
    """The settings of a run: those given, or with `resume` those of its folder and what is given besides."""
    how = "a mapping of settings with checkpoint_every={}"
    if isinstance(config, Mapping):
        found = stored_config(output, config, served=True) if resume else Config(**config)
        return saving_every_round(found, config, say, resume, how)
    if resume:
        refuse("config", config, "with resume, a mapping of the settings that change: the run's folder has the others")
    return saving_every_round(read_config(config), (), say, how=how)


def train(
    serving: Serving,
    status: str | None,
    callback: Callback | None,
    started: Callable[[int], object] | None,
    say: Callable[[str], object],
) -> list[Result]:
    """Serve until all runs are done, with a page if one is wanted."""
    board = Board()

    def tell(event: Event) -> None:
        board.callback(event)
        if callback:
            callback(event)

    with ExitStack() as stack:
        if status is not None:
            say(f"Status: {stack.enter_context(StatusServer(board, status))}")
        server = stack.enter_context(served(serving, board, tell))
        server.hub.say = say
        if started:
            started(server.port)
        return [result for _, result in server.train()]
