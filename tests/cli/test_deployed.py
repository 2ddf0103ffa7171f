"""`smofi certs`, `serve` and `join`: from the first certificate to a revoked one, the help, and what is refused."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.config import Config
from smofi.config.settings import SETTINGS, UNSERVED, check_served
from smofi.errors import InputError
from smofi.net.certs import Identity, issued_in
from smofi.serving.checks import Serving
from smofi.serving.server import served
from support.ports import free_port
from support.processes import ENVIRONMENT


def smofi(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(shlex.split(line)) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert err == ""
    return out


# certs


def test_from_the_authority_to_a_revoked_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "pki/ca-key.pem stays on this machine" in smofi("certs init pki --days 100", capsys)
    assert "pki has issued no certificates yet" in smofi("certs list pki", capsys)
    issued = smofi("certs issue pki --server train.example.org --server 10.0.0.5 --days 10", capsys)
    assert "Certificate: pki/server, for train.example.org, 10.0.0.5, valid until " in issued
    assert "Copy this folder to the server's machine" in issued
    assert Identity.load(Path("pki/server"), "server").hosts == ("train.example.org", "10.0.0.5")
    smofi("certs issue pki --client hospital-a", capsys)
    assert Identity.load(Path("pki/hospital-a"), "client").name == "hospital-a"
    before = Path("pki/server/key.pem").read_bytes()
    renewed = smofi("certs issue pki --server a.example.org --days 20 --renew", capsys)
    assert "A server that is running has to be restarted." in renewed
    assert Path("pki/server/key.pem").read_bytes() != before
    smofi("certs issue pki --server c.example.org --name second", capsys)
    assert Identity.load(Path("pki/second"), "server").hosts == ("c.example.org",)
    hosts = [one.hosts for one in issued_in("pki") if one.name == "server"]
    assert hosts == [("train.example.org", "10.0.0.5"), ("a.example.org",)]
    revoked = smofi("certs revoke pki hospital-a", capsys)
    assert "Revoked: 1 certificate of hospital-a" in revoked
    assert "Written: pki/crl.pem, pki/second/crl.pem, pki/server/crl.pem" in revoked
    (listed,) = (line for line in smofi("certs list pki", capsys).splitlines() if "hospital-a" in line)
    assert "revoked" in listed


def test_without_the_extra_a_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    code = "import sys; sys.modules['cryptography'] = None; from smofi.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "certs", "init", "pki"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stderr == 'error: cryptography is not installed; it comes with: pip install "smofi[net]"\n'
    assert done.returncode == 2
    assert os.listdir(tmp_path) == []


# serve


def test_the_help_leaves_out_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is refused by the check that its definition has for it, so that no other is left out."""
    options, words = {}, ""
    for command in ("run", "serve"):
        words = " ".join(re.sub(r"[│╭╮╰╯─]{2,}|│", " ", smofi(f"{command} --help", capsys)).split())
        options[command] = set(re.findall(r"--([a-z-]+)", words))
    flags = {name.replace("_", "-") for name in SETTINGS}
    refused = {name.replace("_", "-") for name in UNSERVED}
    assert {"clock", "devices", "step-deadline", "diagnose", "validation", "patience", "compile"} <= refused
    assert flags <= options["run"]
    assert options["serve"] & flags == flags - refused
    assert "for clients that join with --part alone, in trials" in words  # in place of the simulation's words
    assert re.search(r"rounds between checkpoints; [^\[]*\[default: 1\]", words)
    for name in UNSERVED:
        check_served({name: SETTINGS[name].default})
        with pytest.raises(InputError, match=f"^{name}='another' is not accepted: expected "):
            check_served({name: "another"})


# join


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority") / "pki"
    issue = ["certs", "issue", str(folder)]
    assert main(["certs", "init", str(folder)]) == main([*issue, "--server", "localhost"]) == 0
    assert main([*issue, "--client", "hospital-a"]) == main([*issue, "--client", "gone"]) == 0
    assert main(["certs", "revoke", str(folder), "gone"]) == 0
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


def test_what_is_refused_once_the_offer_is_known(
    pki: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, with nothing of trying again."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{number},{number % 3},{'xy'[number % 2]}" for number in range(20)]
    Path("table.csv").write_text("\n".join(["a,b,label", *rows]))
    here, nobody = f"localhost:{port} --certs {pki}/hospital-a", free_port()
    refusals = {
        f"{here} --data digits": "they leave this machine only with --allow-labels",
        f"{here} --data digits --allow-labels --part 7": "expected a client's number from 0 to 1",
        f"{here} --data csv:table.csv --allow-labels": "and your data has",
        f"localhost:{port} --certs {pki}/gone --data digits --dry-run": "the certificate of gone was revoked",
        f"localhost:{nobody} --certs {pki}/hospital-a --data digits --dry-run": "nothing listens at localhost:",
        f"no-such-host.invalid:7443 --certs {pki}/hospital-a --data digits --dry-run": "no machine called no-such-host",
    }
    for line, sentence in refusals.items():
        assert main(["join", *line.split()]) == 2
        err = capsys.readouterr().err
        assert sentence in err
        assert "trying again" not in err


def test_a_dry_run_says_what_would_leave(pki: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"join localhost:{port} --certs {pki}/hospital-a --data digits --part 1 --dry-run"
    out = smofi(line, capsys)
    assert "The server trains cnn with smofi" in out
    assert "Cut 1: labels would leave this machine, which needs --allow-labels." in out
    assert "Cut 1: labels leave this machine, as you allow." in smofi(f"{line} --allow-labels", capsys)
