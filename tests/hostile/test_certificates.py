"""Wrong certificates, and a client that is told why: the real commands, over real TLS."""

from __future__ import annotations

import json
import shutil
import time
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from smofi.net.certs import issue, revoke
from support.certificates import make_pki, now, serving, sign, unchecked
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
    page: int
    server: Process

    def shown(self, name: str) -> tuple[str, str]:
        """What the page says of a client: its state, and the reason."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/status.json", timeout=60) as answer:
            clients = {one["name"]: one for one in json.load(answer)["clients"]}
        return clients[name]["state"], clients[name]["reason"]

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
    words += ["--status", f"127.0.0.1:{(page := free_port())}"]
    return Place(nursery, pki, allowed, port, page, nursery.smofi(*words, log="server"))


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
    sentence = "stranger is not on the server's list of clients; ask the server's operator"
    told(place.join(place.pki / "stranger"), sentence)
    assert place.shown("stranger") == ("refused", sentence)
    assert place.server.text().count("warning refused client=stranger address=127.0.0.1:") == 1


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
    until(lambda: "joined client=b" in place.server.text(), 60, place.server.text() + client.text())
    revoke(place.pki, "b")
    start = time.monotonic()
    told(client, "the certificate of b was revoked on")
    assert time.monotonic() - start < 20  # it asks every three seconds; the machine may be busy
    until(lambda: place.shown("b")[0] == "refused", 60, "the page does not show it")
    assert place.shown("b")[1].startswith("the certificate of b was revoked on")


def test_a_client_that_is_taken_off_the_list_is_dropped_too(place: Place) -> None:
    issue(place.pki, client="later")
    allow(place.allowed, "a", "later")
    client = place.join(place.pki / "later")
    until(lambda: "joined client=later" in place.server.text(), 60, place.server.text() + client.text())
    allow(place.allowed, "a")
    told(client, "later is not on the server's list of clients")


def test_a_key_of_another_certificate(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.pki / "a", tmp_path / "mixed")
    shutil.copy(place.pki / "stranger" / "key.pem", tmp_path / "mixed" / "key.pem")
    client = place.join(tmp_path / "mixed")
    assert client.wait(60) == 2
    assert "key" in client.text()
