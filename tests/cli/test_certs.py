"""smofi certs: what is printed, what is written, and one sentence for every mistake."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.net.certs import Identity, issued_in
from support.processes import ENVIRONMENT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def smofi(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(shlex.split(line)) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_from_the_authority_to_a_revoked_client(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = smofi("certs init pki", capsys)
    assert "Certificate authority: pki, valid until " in made
    assert "pki/ca-key.pem stays on this machine" in made
    assert "pki has issued no certificates yet" in smofi("certs list pki", capsys)
    served = smofi("certs issue pki --server train.example.org --server 10.0.0.5", capsys)
    assert "Certificate: pki/server, for train.example.org, 10.0.0.5, valid until " in served
    assert "Copy this folder to the server's machine" in served
    assert "pki/ca-key.pem stays here." in served
    assert "Certificate: pki/hospital-a, for hospital-a" in smofi("certs issue pki --client hospital-a", capsys)
    assert Identity.load(folder / "pki/server", "server").hosts == ("train.example.org", "10.0.0.5")
    assert Identity.load(folder / "pki/hospital-a", "client").name == "hospital-a"
    revoked = smofi("certs revoke pki hospital-a", capsys)
    assert "Revoked: 1 certificate of hospital-a" in revoked
    assert "Written: pki/crl.pem, pki/server/crl.pem" in revoked
    listed = [line for line in smofi("certs list pki", capsys).splitlines() if "hospital-a" in line]
    assert len(listed) == 1
    assert "revoked" in listed[0]


def test_renewing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smofi("certs init pki --days 100", capsys)
    smofi("certs issue pki --server a.example.org b.example.org --days 10", capsys)
    before = (folder / "pki/server/key.pem").read_bytes()
    renewed = smofi("certs issue pki --server a.example.org --days 20 --renew", capsys)
    assert "A server that is running has to be restarted." in renewed
    assert (folder / "pki/server/key.pem").read_bytes() != before
    assert [one.hosts for one in issued_in("pki")] == [("a.example.org", "b.example.org"), ("a.example.org",)]
    smofi("certs issue pki --server c.example.org --name second", capsys)
    assert Identity.load(folder / "pki/second", "server").hosts == ("c.example.org",)


MISTAKES = [
    ("certs nope", "there is no command certs nope; there are init, issue, revoke, list"),
    ("certs isue pki", "did you mean issue?"),
    ("certs init", "smofi certs init needs PKI, a new or an empty folder"),
    ("certs init pki", "pki has a certificate authority already"),
    ("certs init file", "file is not accepted: expected a new or an empty folder"),
    ("certs init a b", "b is one argument too many: smofi certs init takes one PKI"),
    ("certs init a --days 0", "--days 0 is not accepted: expected a whole number >= 1"),
    ("certs init a --days long", "--days long is not accepted: expected a whole number"),
    ("certs init a --nope", "smofi certs init has no option --nope"),
    ("certs issue pki", "smofi certs issue needs --server HOST or --client NAME, one of the two"),
    ("certs issue pki --server a.b --client a", "one of the two"),
    ("certs issue pki --client", "--client needs a value"),
    ("certs issue pki --client ../x", "--client ../x is not accepted: expected at most 64 letters"),
    ("certs issue pki --client server", "--client server is not accepted: the server's folder has this name"),
    ("certs issue pki --client a", "a has a certificate already", "write --renew"),
    ("certs issue pki --client b --renew", "b has no certificate that could be renewed"),
    ("certs issue pki --client b --days 9999", "--days 9999 is not accepted: expected at most "),
    ("certs issue pki --server a.b:7443", "expected a host name such as train.example.org or an IP address"),
    ("certs issue --server a.b pki", "write it first: smofi certs issue pki --server a.b"),
    ("certs issue nowhere --client a", "nowhere has no certificate authority; smofi certs init nowhere makes one"),
    ("certs revoke pki", "smofi certs revoke needs NAME, the name of a client or a server"),
    ("certs revoke pki c", "pki has issued no certificate to 'c'"),
    ("certs revoke pki ../a", "'../a' is not accepted: expected at most 64 letters"),
    ("certs list file", "file has no certificate authority"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    mistake: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("in the way")
    smofi("certs init pki", capsys)
    smofi("certs issue pki --client a", capsys)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    line, *pieces = mistake
    assert main(shlex.split(line)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(piece in err for piece in pieces), err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_without_the_extra_a_sentence_says_how_to_get_it(tmp_path: Path) -> None:
    """In a Python that does not find the package."""
    code = "import sys; sys.modules['cryptography'] = None; from smofi.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "certs", "init", "pki"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stderr == 'error: cryptography is not installed; it comes with: pip install "smofi[net]"\n'
    assert done.returncode == 2
    assert os.listdir(tmp_path) == []
