"""smofi.serve and smofi.join: what is wrong is refused before anything starts, as is plain text that is not meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import smofi
from smofi.cli import main
from smofi.engine.events import Event, RoundDone
from smofi.errors import InputError
from smofi.experiment import stored_config
from support.deployed import Clients, Serve, deployed, small
from support.ports import free_port

PLAIN = r"certs=None is not accepted: expected the {0}'s folder of certificates, .* or insecure=True for trials on this"
HERE = "127.0.0.1:7443"

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a server in plain text": (lambda: smofi.serve({}, "run"), PLAIN.format("server")),
    "a client in plain text": (lambda: smofi.join(HERE, "digits", name="a"), PLAIN.format("client")),
    "both": (lambda: smofi.serve({}, "run", certs="pki/server", insecure=True), "insecure=True is not accepted: with"),
    "a client without a name": (lambda: smofi.join(HERE, "digits", insecure=True), "name=None is not accepted"),
    "a name besides that of a certificate": (
        lambda: smofi.join(HERE, "digits", certs="pki/a", name="b"),
        "name='b' is not accepted: with certs, the certificate has the name",
    ),
    "a list of names without certificates": (
        lambda: smofi.serve({}, "run", insecure=True, allow="clients.txt"),
        "allow='clients.txt' is not accepted: without certificates",
    ),
    "a time that no client takes": (
        lambda: smofi.serve({}, "run", insecure=True, keepalive=0.01),
        "keepalive=0.01 is not accepted: expected a number >= 0.1 and <= 3600",
    ),
    "data that is not there": (
        lambda: smofi.join(HERE, "folder:nope", insecure=True, name="a"),
        "data='folder:nope' is not accepted: expected a path that exists",
    ),
    "a device that is none": (
        lambda: smofi.join(HERE, "digits", insecure=True, name="a", device="gpu"),
        "device='gpu' is not accepted",
    ),
    "plain text beyond this machine": (
        lambda: smofi.join("example.org:7443", "digits", insecure=True, name="a"),
        "without certificates, a client connects to 127.0.0.1 only",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_anything_is_started(case: str) -> None:
    call, expected = WRONG[case]
    with pytest.raises(InputError, match=expected):
        call()
    assert not Path("run").exists()


def test_what_would_leave_is_returned(tmp_path: Path) -> None:
    port, config = free_port(), small(clients=1, participation=1.0, cut="1,1")
    with Serve(config, tmp_path / "run", port) as server:
        server.wait_for(lambda: server.server and server.server.hub.offer)
        said = smofi.join(f"localhost:{port}", "digits", insecure=True, name="a", part=0, dry_run=True)
    assert said.startswith("The server trains cnn with smofi")
    assert "Cut 1,1: labels stay here." in said.splitlines()
    assert "Batches have 8 samples: any other batch size or learning rate" in said


def test_rounds_are_saved_each_with_a_file_that_names_every_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would be left of a server that is killed: `smofi config` writes how often a simulation saves."""
    flags = (
        "--clients 2 --model cnn --width 2 --method fedavg --max-train 60 --rounds 3 --local-epochs 1 --batch-size 8"
    )
    assert main(["config", *flags.split()]) == 0
    path, folder, port = tmp_path / "all.yaml", tmp_path / "run", free_port()
    path.write_text(capsys.readouterr().out)
    assert "checkpoint_every: 5" in path.read_text()
    said, saved = list[str](), list[int]()

    def look(event: Event) -> None:
        if isinstance(event, RoundDone):
            names = [one.stem.removeprefix("round-") for one in folder.glob("**/checkpoints/round-*")]
            saved.append(max(map(int, names), default=0))

    with Clients(port, 2):
        smofi.serve(str(path), str(folder), listen=f"127.0.0.1:{port}", insecure=True, callback=look, say=said.append)
    assert said[0].startswith("Every round is saved, although the file says 5")
    assert saved == [0, 1, 2]
    assert stored_config(folder, served=True).checkpoint_every == 1


def test_a_page_about_the_run(tmp_path: Path) -> None:
    """Of one that is over, which needs no clients: it is there until the server ends."""
    folder, said, shown = tmp_path / "run", list[str](), list[str]()
    deployed(small(clients=1, participation=1.0, rounds=1), folder)

    def look(port: int) -> None:
        with urlopen(said[0].removeprefix("Status: ")) as page:
            shown.append(page.read().decode())

    smofi.serve(
        {},
        str(folder),
        listen="127.0.0.1:0",
        insecure=True,
        resume=True,
        away=0.1,
        status="127.0.0.1:0",
        started=look,
        say=said.append,
    )
    assert said[0].startswith("Status: http://127.0.0.1:")
    assert "<html" in shown[0]
