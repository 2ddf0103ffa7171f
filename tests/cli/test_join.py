"""smofi join: what is wrong is refused in a sentence, before anything is sent."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.config import Config
from smofi.net.certs import init, issue, revoke
from smofi.serving.checks import Serving
from smofi.serving.server import served
from support.ports import free_port


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority") / "pki"
    init(folder)
    issue(folder, server=["localhost"])
    for name in ("hospital-a", "gone"):
        issue(folder, client=name)
    revoke(folder, "gone")
    return folder


@pytest.fixture(scope="module")
def port(pki: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that waits for two clients."""
    config = Config(clients=2, rounds=1, cut="1", model="cnn", width=2, method=["smofi"], max_test=20)
    serving = Serving(config, tmp_path_factory.mktemp("served") / "run", "127.0.0.1:0", certs=pki / "server")
    with served(serving) as server:
        waiting = threading.Thread(target=lambda: list(server.train()))
        waiting.start()
        try:
            yield server.port
        finally:
            server.hub.stopping = True
            waiting.join()


def join(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(["join", *shlex.split(line)])
    return code, *capsys.readouterr()


BEFORE = {
    "": "smofi join needs SERVER, the server's address",
    "localhost:7443": "smofi join needs --data, your samples",
    "localhost:7443 --data digits": "smofi join needs --certs FOLDER",
    "localhost:7443 --data digits --certs pki/hospital-a --insecure": "--insecure is not accepted with --certs",
    "localhost:7443 --data digits --certs pki/hospital-a --name me": "--name is not accepted with --certs",
    "localhost:7443 --data digits --insecure": "smofi join --insecure needs --name",
    "localhost --data digits --certs pki/hospital-a": "localhost is not accepted: expected host:port",
    "https://localhost:7443 --data digits --certs pki/hospital-a": "is not accepted: expected host:port",
    "localhost:7443 --data digits --certs nowhere": "nowhere does not exist: expected a folder with ca.pem",
    "localhost:7443 --data digits --certs pki/server": "cert.pem is for a server, not for a client",
    "localhost:7443 --data digits --certs pki/hospital-a --threads 0": "--threads 0 is not accepted",
    "localhost:7443 --data digits --certs pki/hospital-a --part -1": "--part -1 is not accepted",
    "localhost:7443 --data digits --certs pki/hospital-a --device gpu": "--device gpu is not accepted",
    "localhost:7443 --data digits --certs pki/hospital-a --log-format xml": "--log-format xml is not accepted",
    "example.org:7443 --data digits --insecure --name me": "without certificates, a client connects to 127.0.0.1 only",
    "localhost:7443 more --data digits --certs pki/hospital-a": "more is one argument too many",
    "localhost:7443 --data folder:nope --certs pki/hospital-a": "expected a path that exists, but there is no",
    "localhost:7443 --data csv:pki --certs pki/hospital-a": "train.csv",
    "localhost:7443 --data nothing --certs pki/hospital-a": "--data nothing is not accepted: expected one of digits",
    "localhost:7443 --data digits --data-folder pki --certs pki/hospital-a": "digits already says where it is",
    "localhost:7443 --data digits --nope": "smofi join has no option --nope",
}


@pytest.mark.parametrize("line", BEFORE)
def test_refused_before_it_connects(
    line: str, pki: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(pki.parent)
    code, out, err = join(line, capsys)
    assert (code, out) == (2, "")
    assert BEFORE[line] in err
    assert err.startswith("error: ")


WITH_SERVER = {
    "--data digits": "they leave this machine only with --allow-labels",
    "--data digits --allow-labels --part 7": "--part 7 is not accepted: expected a client's number from 0 to 1",
    "--data csv:table.csv --allow-labels": "and your data has",
}


@pytest.mark.parametrize("line", WITH_SERVER)
def test_refused_when_the_offer_is_known(
    line: str, pki: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{number % 3},{'xy'[number % 2]}" for number in range(20)]
    Path("table.csv").write_text("\n".join(["a,b,label", *rows]))
    code, _, err = join(f"localhost:{port} --certs {pki}/hospital-a {line}", capsys)
    assert code == 2
    assert WITH_SERVER[line] in err


def test_a_dry_run_says_what_would_leave(pki: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = join(f"localhost:{port} --certs {pki}/hospital-a --data digits --part 1 --dry-run", capsys)
    assert (code, err) == (0, "")
    assert "The server trains cnn with smofi" in out
    assert "Cut 1: labels would leave this machine, which needs --allow-labels." in out
    assert "models, one after the other" not in out
    line = f"localhost:{port} --certs {pki}/hospital-a --data digits --part 1 --dry-run --allow-labels"
    assert "Cut 1: labels leave this machine, as you allow." in join(line, capsys)[1]


def test_a_dry_run_does_not_wait_for_what_will_not_come(
    pki: Path, port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says why at once, and nothing of trying again."""
    nobody = free_port()
    for address, name, why in (
        (f"localhost:{port}", "gone", "the certificate of gone was revoked"),
        (f"localhost:{nobody}", "hospital-a", f"nothing listens at localhost:{nobody}"),
        ("no-such-host.invalid:7443", "hospital-a", "there is no machine called no-such-host.invalid"),
    ):
        code, _, err = join(f"{address} --certs {pki}/{name} --data digits --dry-run", capsys)
        assert code == 2
        assert why in err
        assert "trying again" not in err
