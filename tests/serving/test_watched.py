"""A run as its operator sees it, made of real processes: the page in a browser, its data, the metrics and the logs."""

from __future__ import annotations

import json
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser, browser_path
from support.chaos import Fleet, Nursery, Process, make_pki, until
from support.ends import eventually
from support.network import Proxy
from support.ports import free_port

SOON = 120.0
MODEL = ["--model", "python:support.sleepy:network"]
SLEEP = "0.1"
SETTINGS = ["--data", "digits", *MODEL, "--cut", "1", "--clients", "3", "--max-train", "192", "--max-test", "50"]
SETTINGS += ["--partition", "iid", "--local-epochs", "1", "--batch-size", "8", "--method", "smofi", "--rounds", "500"]
SETTINGS += ["--participation", "1", "--away", "4", "--deadline", "120"]
STATES = """Object.fromEntries([...document.querySelectorAll('tbody tr')].map(
    row => [...row.cells].slice(0, 2).map(cell => cell.querySelector('span').textContent)))"""


class Watched:
    """What can be read of a server."""

    def __init__(self, port: int, server: Process) -> None:
        self.url, self.server = f"http://127.0.0.1:{port}/", server

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=SOON) as answer:
            return str(answer.read().decode())

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("status.json"))
        return found

    def clients(self) -> dict[str, dict[str, Any]]:
        return {one["name"]: one for one in self.status()["clients"]}

    def states(self) -> list[str]:
        return [one["state"] for _, one in sorted(self.clients().items())]

    def happened(self, text: str) -> bool:
        return any(text in one["text"] for one in self.status()["events"])

    def logged(self) -> list[dict[str, Any]]:
        """The events of the log; the display writes lines of JSON, too."""
        lines = [json.loads(line) for line in self.server.text().splitlines() if line.startswith("{")]
        return [line for line in lines if "logger" in line]

    def events(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        found = [line for line in self.logged() if line["event"] == name]
        return [line for line in found if all(line.get(key) == value for key, value in fields.items())]


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(free_port()) as one:
        yield one


@pytest.fixture
def fleet(proxy: Proxy, tmp_path: Path) -> Iterator[Fleet]:
    """The way of client 2 leads through the proxy."""
    pki = make_pki(tmp_path / "pki", 3)
    port = proxy.target
    with Nursery(tmp_path) as nursery:
        address = f"127.0.0.1:{port}"
        yield Fleet(nursery, pki, tmp_path / "run", SETTINGS, 3, address, address, proxies={2: proxy})


@pytest.fixture
def watched(fleet: Fleet) -> Watched:
    """Three clients that train, each step for a tenth of a second."""
    port = free_port()
    fleet.patience = ["--status", f"127.0.0.1:{port}", "--log-format", "json", "--min-clients", "2"]
    fleet.serve()
    fleet.join_all(*MODEL, SLEEP=SLEEP)
    assert fleet.server
    found = Watched(port, fleet.server)
    until(lambda: found.states() == ["training"] * 3, SOON, f"they do not train: {fleet.server.text()}")
    return found


def grows_within_a_round(watched: Watched) -> bool:
    """Whether bytes were counted both ways in the middle of a round."""
    before, after = watched.status(), watched.status()
    if before["run"]["done"] != after["run"]["done"]:
        return False
    mine, later = ({one["name"]: one for one in status["clients"]}["client-0"] for status in (before, after))
    return bool(later["bytes_up"] > mine["bytes_up"] and later["bytes_down"] > mine["bytes_down"])


@pytest.mark.skipif(browser_path() is None, reason="no Chromium: install the package chromium")
def test_a_client_is_away_and_back_and_another_is_lost(fleet: Fleet, proxy: Proxy, watched: Watched) -> None:
    program = browser_path()
    assert program
    with Browser(program) as browser:
        browser.open(watched.url)
        browser.until(f"Object.values({STATES}).join() === 'training,training,training'")

        until(lambda: grows_within_a_round(watched), SOON, "bytes do not grow in a round")
        metrics = watched.get("metrics")
        assert 'smofi_clients{state="away"} 0.0' in metrics
        assert 'smofi_client_up_bytes_total{client="client-1"}' in metrics

        # the network blinks
        for _ in range(5):  # a server that is too busy may see the new connection before it misses the old one
            proxy.cut()
            if eventually(lambda: watched.happened("client-2 is back after"), 10):
                break
        assert watched.happened("client-2 is away: its connection is lost.")

        # a second process with the name of the first
        fleet.nursery.smofi(*fleet.joined[0].words, log="impostor")
        until(lambda: watched.happened("another process is connected as client-0"), SOON, "it is not refused")

        # a power cut: the page shows it before its time is over, and then that it has left
        browser.run(f"window.seen = new Set(); setInterval(() => seen.add({STATES}['client-1']), 10); 0")
        fleet.kill_client(1)
        until(lambda: watched.happened("client-1 is away"), SOON, "it is not missed")
        assert not watched.happened("client-1 left")
        browser.until("seen.has('left')")
        assert browser.run("[...seen].filter(state => ['away', 'left'].includes(state))") == ["away", "left"]
        left = watched.clients()["client-1"]
        assert (left["state"], left["reason"]) == ("left", "it was away for 4 s")
        assert 'smofi_clients{state="left"} 1.0' in watched.get("metrics")
        assert not browser.console
    assert watched.states()[0] in ("training", "waiting"), "an impostor changes nothing"
    until(lambda: watched.events("left_out"), SOON, "the round does not go on")
    fleet_ends(fleet, watched)


def fleet_ends(fleet: Fleet, watched: Watched) -> None:
    """The server is told to stop; its log tells the story, in events with fields."""
    watched.server.signal(signal.SIGTERM)
    assert watched.server.wait(SOON) == 128 + signal.SIGTERM
    names = [line["event"] for line in watched.logged()]
    order = ["listening", "waiting", "joined", "ready", "run_started", "away", "back", "refused", "left", "interrupted"]
    places = [names.index(name) for name in order]
    assert places == sorted(places), names
    assert {line["client"] for line in watched.events("joined")} == {"client-0", "client-1", "client-2"}
    (listening,) = watched.events("listening")
    assert (listening["address"], listening["certificates"]) == (fleet.listen, True)
    (left,) = watched.events("left", client="client-1")
    assert (left["reason"], left["logger"]) == ("it was away for 4 s", "smofi.serving")
    (out,) = watched.events("left_out", client="client-1")
    (done,) = watched.events("round_done", round=out["round"])
    assert (done["clients"], done["left_out"]) == (3, 1)
    assert {"accuracy", "loss", "train_loss", "seconds"} <= done.keys()
    (refused,) = watched.events("refused")
    assert (refused["client"], refused["reason"]) == ("client-0", "another process is connected as client-0")
    assert "Traceback" not in watched.server.text()


def test_an_operator_at_a_terminal_sees_who_joins_and_how_to_go_on(tmp_path: Path) -> None:
    port, output = free_port(), tmp_path / "a run"
    plain = ["--insecure", "--listen", f"127.0.0.1:{port}"]
    with Nursery(tmp_path) as nursery:
        server = nursery.smofi("serve", *SETTINGS, *plain, "--output", output, "--min-clients", "3", log="server")
        until(lambda: "waiting for 3 clients" in server.text() or not server.alive, SOON, "it does not wait")
        assert server.alive, server.text()
        joining = ["join", f"localhost:{port}", "--insecure", "--data", "digits", "--allow-labels", *MODEL]
        for number, here in enumerate(
            ("1 client of the 3 that a round needs is", "2 clients of the 3 that a round needs are")
        ):
            nursery.smofi(*joining, "--name", f"site-{number}", "--part", number)
            said = f"site-{number} joined: {here} here"
            until(lambda said=said: said in server.text(), SOON, said)
        server.signal(signal.SIGINT)
        assert server.wait(SOON) == 128 + signal.SIGINT
    resuming = f"smofi serve --resume '{output}' --insecure --listen 127.0.0.1:{port} --min-clients 3"
    assert f"Interrupted; go on with: {resuming}, and other options as before" in server.text()
