"""Wrong certificates, and a client that is told why: the real commands, over real TLS."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from smofi.net.certs import issue, revoke
from smofi.net.certs.making import now
from support.certificates import make_pki, serving, sign, unchecked
from support.chaos import Nursery, Process, until
from support.ports import free_port

SETTINGS = ["--data", "digits", "--model", "cnn", "--width", "4", "--cut", "1", "--clients", "9", "--rounds", "1"]


@dataclass
class Place:
    """A server that waits for more clients than will come."""

    nursery: Nursery
    pki: Path
    allowed: Path
    port: int
    server: Process

    def join(self, certs: Path, port: int | None = None) -> Process:
        address = f"localhost:{port or self.port}"
        return self.nursery.smofi("join", address, "--certs", certs, "--data", "digits", "--part", 0, "--allow-labels")


@pytest.fixture(scope="module")
def place(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("certs")
    pki, allowed, port = make_pki(folder / "pki", "a", "b", "stranger"), folder / "allowed", free_port()
    allow(allowed, "a", "b", "old")
    words = ["serve", *SETTINGS, "--output", folder / "run", "--certs", pki / "server", "--allow", allowed]
    words += ["--listen", f"127.0.0.1:{port}", "--log-format", "text", "--display", "jsonl"]
    return Place(nursery, pki, allowed, port, nursery.smofi(*words, log="server"))


def allow(path: Path, *names: str) -> None:
    """A list with these clients, and with others that never come."""
    path.write_text("\n".join([*names, *(f"other-{number}" for number in range(9))]))


def told(client: Process, sentence: str) -> str:
    """Wait until a client was told this; it goes on trying, for the operator may put it right."""
    until(lambda: sentence in client.text() or not client.alive, 60, f"no {sentence!r} in {client.text()!r}")
    assert sentence in client.text()
    assert client.alive, client.text()
    client.kill()
    return client.text()


def test_a_client_of_another_authority(place: Place, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other", "a")
    told(place.join(other / "a"), "is signed by another certificate authority")


def test_a_client_whose_certificate_is_expired_is_told_before_it_connects(place: Place, tmp_path: Path) -> None:
    client = place.join(sign(place.pki, tmp_path / "old", "old", "client", now() - timedelta(minutes=5)))
    assert client.wait(60) == 2
    assert "expired on" in client.text()


def test_a_client_that_is_not_on_the_list(place: Place) -> None:
    told(
        place.join(place.pki / "stranger"), "stranger is not on the server's list of clients; ask the server's operator"
    )


def test_a_certificate_of_a_client_does_not_make_a_server(place: Place, tmp_path: Path) -> None:
    words = ["serve", *SETTINGS, "--output", tmp_path / "run", "--certs", place.pki / "b"]
    server = place.nursery.smofi(*words, "--listen", "127.0.0.1:0")
    assert server.wait(60) == 2
    assert "server" in server.text()
    with serving(unchecked(place.pki / "b", "server")) as port:  # one that does not mind
        text = told(place.join(place.pki / "a", port), "the certificate of localhost")
        assert "not" in text


def test_a_client_that_is_revoked_is_dropped_within_seconds(place: Place) -> None:
    client = place.join(place.pki / "b")
    until(lambda: "joined" in place.server.text(), 60, place.server.text() + client.text())
    revoke(place.pki, "b")
    start = time.monotonic()
    told(client, "the certificate of b was revoked on")
    assert time.monotonic() - start < 20  # it asks every three seconds; the machine may be busy


def test_a_client_that_is_taken_off_the_list_is_dropped_too(place: Place) -> None:
    issue(place.pki, client="later")
    allow(place.allowed, "a", "later")
    client = place.join(place.pki / "later")
    until(lambda: "client=later" in place.server.text(), 60, place.server.text() + client.text())
    allow(place.allowed, "a")
    told(client, "later is not on the server's list of clients")


def test_a_key_of_another_certificate(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.pki / "a", tmp_path / "mixed")
    shutil.copy(place.pki / "stranger" / "key.pem", tmp_path / "mixed" / "key.pem")
    client = place.join(tmp_path / "mixed")
    assert client.wait(60) == 2
    assert "key" in client.text()
