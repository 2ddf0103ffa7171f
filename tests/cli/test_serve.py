"""smofi serve: what is wrong is refused in a sentence that names the option, and nothing is left behind."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.config.settings import SERVED_HELP, SETTINGS, UNSERVED, check_served
from smofi.errors import InputError
from smofi.net.certs import init, issue


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("authority") / "pki"
    init(folder)
    issue(folder, server=["localhost"])
    issue(folder, client="hospital-a")
    return folder


@pytest.fixture
def folder(tmp_path: Path, pki: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With certificates, a folder that has other files, and lists of clients that are none."""
    (tmp_path / "pki").symlink_to(pki)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    (tmp_path / "a-file").touch()
    (tmp_path / "list.txt").write_text("hospital-a\n")
    (tmp_path / "timed.yaml").write_text("clock: full\ndevices: phones(rtt_ms=80)\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


WRONG = {
    "--clients 2": "smofi serve needs --certs FOLDER",
    "--insecure --certs pki/server": "--insecure is not accepted with --certs",
    "--insecure --allow list.txt": "--insecure is not accepted with --allow",
    "--certs nowhere": "nowhere does not exist: expected a folder with ca.pem, cert.pem and key.pem",
    "--certs pki/hospital-a": "cert.pem is for a client, not for a server",
    "--certs pki": "pki/cert.pem does not exist",
    "--insecure --listen 7443": "--listen 7443 is not accepted: expected host:port",
    "--insecure --listen 127.0.0.1:99999": "--listen 127.0.0.1:99999 is not accepted: expected host:port",
    "--insecure --listen 0.0.0.0:7444": "--listen 0.0.0.0:7444 is not accepted: without certificates",
    "--insecure --output full": "--output full is not accepted: expected a new or an empty folder",
    "--insecure --output a-file": "--output a-file is not accepted: expected a folder, but it is a file",
    "--insecure --resume nowhere": "--resume nowhere is not accepted: expected the folder of a run, but there is none",
    "--insecure --resume full": "--resume full is not accepted",
    "--insecure --resume full --output new": "--resume is not accepted with a file, --scale or --output",
    "nowhere.yaml --insecure": "nowhere.yaml does not exist: expected a YAML file, or a preset",
    "--insecure --min-clients 0": "--min-clients 0 is not accepted: expected a whole number",
    "--insecure --clients 2 --min-clients 3": "--min-clients 3 is not accepted: expected a whole number >= 1 and <= 2",
    "--certs pki/server --clients 2 --allow list.txt": "min_clients=2 is not accepted: expected at most 1: list.txt",
    "--certs pki/server --allow nowhere.txt": "--allow nowhere.txt is not accepted: expected a file with a name",
    "--certs pki/server --allow full": "--allow full is not accepted: expected a file with a name per line",
    "--certs pki/server --allow binary": "--allow binary is not accepted: expected a text file with a name per line",
    "--insecure --evaluate nowhere": "--evaluate nowhere is not accepted: expected one of server, clients, none",
    "--insecure --log-format xml": "--log-format xml is not accepted: expected one of text, json",
    "--insecure --away 0": "--away 0.0 is not accepted: expected a number > 0",
    "--insecure --away nan": "--away nan is not accepted: expected a number > 0",
    "--insecure --keepalive -1": "--keepalive -1.0 is not accepted: expected a number > 0",
    "--insecure --connect 1e300": "--connect 1e+300 is not accepted: expected a number > 0 and <= 1e+06",
    "--insecure --connect 0.01": "--connect 0.01 is not accepted: expected a number >= 0.1 and <= 3600",
    "--insecure --keepalive 4000": "--keepalive 4000.0 is not accepted: expected a number >= 0.1 and <= 3600",
    "--insecure --deadline 0": "--deadline 0.0 is not accepted: expected a number > 0",
    "--insecure --data nothing": "--data nothing is not accepted: expected one of digits",
    "--insecure --data folder:nowhere": "expected a path that exists",
    "--insecure --clock full": "--clock full is not accepted: expected none: clients are real",
    "--insecure --diagnose": "--diagnose is not accepted: expected false",
    "--insecure --validation 0.1": "--validation 0.1 is not accepted: expected 0",
    "--insecure --compile": "--compile is not accepted: expected false",
    "--insecure --patience 3": "--patience 3 is not accepted: expected null: nothing can be held out for validation",
    "--insecure --devices mine.csv": "--devices mine.csv is not accepted: expected none of a clock's settings",
    "--insecure --step-deadline 3": "--deadline says how long a step waits for a client",
    "timed.yaml --insecure": "clock='full' is not accepted: expected none: clients are real, and so is the time they",
    "--insecure --executor vmap": "--executor vmap is not accepted: expected auto: each client computes for itself",
    "--insecure --partition file:full": "they have no file of the server's",
    "--insecure --metrics per_client": "--metrics per_client is not accepted",
    "--insecure --method 'clip(1)+fednar(0.1)'": "expected one limit on the norm of the whole model",
    "--insecure --cut 1,1 --method 'mergesfl(bandwidth=3)'": "expected a cut of one number: it selects clients",
    "--insecure --method smofi --memory-limit 100MB": "--memory-limit 100MB is not accepted: expected at least",
    "--insecure --cut 99": "--cut 99 is not accepted",
    "--insecure --clients 2 --status 8080": "--status 8080 is not accepted: expected an address and a port",
    "--insecure --status-token 0123456789abcdef": "smofi serve has no option --status-token",  # it would be kept
    "--nope": "smofi serve has no option --nope",
    "--insecure --clok full": "smofi serve has no option --clok; smofi serve --help lists",  # nor --clock
}


@pytest.mark.parametrize("line", WRONG)
def test_refused_in_a_sentence(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.iterdir())
    assert main(["serve", *shlex.split(line)]) == 2
    err = capsys.readouterr().err
    assert WRONG[line] in err
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert sorted(folder.iterdir()) == before


def test_the_help_leaves_out_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is refused by the check that its definition has for it, so that no other is left out."""
    options = {}
    for command in ("run", "serve"):
        assert main([command, "--help"]) == 0
        options[command] = set(re.findall(r"--([a-z-]+)", capsys.readouterr().out))
    flags = {name.replace("_", "-") for name in SETTINGS}
    refused = {name.replace("_", "-") for name in UNSERVED}
    assert {"clock", "devices", "step-deadline", "diagnose", "validation", "patience", "compile"} <= refused
    assert flags <= options["run"]
    assert options["serve"] & flags == flags - refused


@pytest.mark.parametrize("name", UNSERVED)
def test_the_default_of_what_is_refused_is_accepted(name: str) -> None:
    check_served({name: SETTINGS[name].default})
    with pytest.raises(InputError, match=f"^{name}='another' is not accepted: expected "):
        check_served({name: "another"})


def test_the_help_says_what_settings_mean_to_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert "for clients that join with --part alone, in trials" in words
    assert "processes that share the work" not in words
    assert re.search(r"rounds between checkpoints; [^\[]*\[default: 1\]", words)
    assert set(SERVED_HELP) <= set(SETTINGS) - set(UNSERVED)


def test_folders_of_earlier_servers_go_on() -> None:
    check_served({"executor": ("loop",)})


def test_a_taken_port(taken: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--insecure", "--listen", f"127.0.0.1:{taken}", "--clients", "2"]) == 2
    assert f"a server cannot listen at 127.0.0.1:{taken}: another program has this port" in capsys.readouterr().err
    assert not (folder / "runs").exists()
