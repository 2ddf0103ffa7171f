"""A run served to clients on other machines, and a client of such a run: `smofi.serve` and `smofi.join`.

server          a listener, and the runs of a configuration with their folders
run             a run whose clients may be missing             hub       the connections, by client
roster          who takes part: names, numbers, sizes          offer     what a server asks, what a client accepts
admission       the gate, as the listener asks it              limits    how large a message can be
checks          a server as described, before it starts        assembly  a run, put together
memory          what a round takes on a server
calls           what stands behind the two functions

client          the conversation with a server                 participation   what a client answers
own_data        its samples, as the server's model takes them  leaving         what would leave its machine
waiting         what its user is told without a connection     told            and what the server tells it
setups          what both sides have in common

Learning is in `smofi.engine`, connections are in `smofi.net`. What it needs comes with: pip install "smofi[net]".
Internal: may change without notice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smofi.config import Config
    from smofi.engine.events import Callback
    from smofi.training import Result

__all__ = ["join", "serve"]


def serve(
    config: Mapping[str, Any] | str,
    output: str,
    *,
    listen: str = "127.0.0.1:7443",
    certs: str | None = None,
    insecure: bool = False,
    allow: str | None = None,
    min_clients: int | None = None,
    evaluate: str | None = None,
    away: float = 15.0,
    deadline: float | None = 900.0,
    keepalive: float = 4.0,
    connect: float = 10.0,
    resume: bool = False,
    status: str | None = None,
    callback: Callback | None = None,
    started: Callable[[int], object] | None = None,
    say: Callable[[str], object] = lambda sentence: None,
) -> list[Result]:
    """Train with clients on other machines, as `smofi serve` does; returns a result for each method and seed.

    config        settings by name, a YAML file, or the name of a preset; with `resume`, those that change. Every round
                  is saved, unless settings by name have a `checkpoint_every`
    output        the folder of the run
    certs         the server's folder of certificates
    insecure      True instead of `certs`: plain text, for trials on this machine
    allow         a file with the names of the clients that may join
    min_clients   how many must be there for a round; by default as many as the setting `clients` says
    evaluate      "server", on its test data; "clients", on what they hold out; or "none"; by default on the server, or
                  where the run that goes on was evaluated
    deadline      seconds that a client has for a step before the round goes on without it
    away, keepalive, connect   the other times of `smofi serve`, in seconds
    resume        go on with the run in this folder
    status        where to show a live page and metrics, such as "127.0.0.1:8080"
    started       called with the port once the server listens
    say           called with sentences about what happens
    """
    from smofi.net.transport.times import Times
    from smofi.serving.calls import check_secured, settled, train
    from smofi.serving.checks import Serving

    check_secured("server", certs, insecure, allow=allow)
    times = Times(away, keepalive, connect)
    times.check_told()
    folder, secrets = Path(output), None if certs is None else Path(certs)
    allowed, own = None if allow is None else Path(allow), settled(config, Path(output), resume, say)
    quorum = min_clients, evaluate, deadline
    serving = Serving(own, folder, listen, secrets, allowed, *quorum, resume, times=times)
    return train(serving, status, callback, started, say)


def saving_every_round(
    config: Config,
    given: Container[str],
    say: Callable[[str], object],
    resumed: bool = False,
    how: str = "--checkpoint-every {}",
) -> Config:
    """A server saves every round, unless its user says otherwise to the server itself: by one of the settings `given`,
    or when the run that is `resumed` was begun. What clients have computed is worth keeping, and a file may come from
    `smofi config`, which names every setting. `how` it is said is part of what `say` is told where it may surprise."""
    every = config.checkpoint_every
    if "checkpoint_every" in given or every == 1:
        return config
    if resumed:
        say(f"This run is saved every {every} rounds, as its folder says; to save every round, give {how.format(1)}")
        return config
    if "checkpoint_every" in config.model_fields_set:
        say(f"Every round is saved, although the file says {every}; to save less often, give {how.format(every)}")
    return config.model_copy(update={"checkpoint_every": 1})


def join(
    server: str,
    data: str,
    *,
    certs: str | None = None,
    insecure: bool = False,
    name: str | None = None,
    allow_labels: bool = False,
    data_folder: str | None = None,
    label_column: str | None = None,
    part: int | None = None,
    model: str | None = None,
    method: str | None = None,
    device: str = "cpu",
    threads: int = 1,
    dry_run: bool = False,
    say: Callable[[str], object] = lambda sentence: None,
) -> str:
    """Take part in a served run until it is over, as `smofi join` does; returns why it is over.

    server         its address, such as "train.example.org:7443"
    data           this client's samples: "folder:PATH", "csv:PATH", "npz:PATH", or a data set by name
    certs          this client's folder of certificates
    insecure       True instead of `certs`: plain text, to a server on this machine, with a `name`
    allow_labels   whether labels may leave this machine; without it, only U-shaped runs are joined
    part           for trials: the number of the client whose part of the data this one has
    model, method  your own "python:module:function", where the server's is one
    dry_run        True: do not take part; returns what the server asks for and what would leave this machine
    say            called with sentences about what happens
    """
    from smofi.serving.calls import check_secured
    from smofi.serving.client import Client, Joining
    from smofi.serving.leaving import about
    from smofi.serving.own_data import OwnData

    check_secured("client", certs, insecure, name=name)
    own = {key: value for key, value in (("model", model), ("method", method)) if value}
    joining = Joining(
        server,
        OwnData(data, data_folder, part, label_column),
        None if certs is None else Path(certs),
        name,
        allow_labels,
        own,
        device,
        threads,
    )
    client = Client(joining, say)
    return "\n".join(about(client.offered(), allow_labels)) if dry_run else client.run()
