"""A served run to watch: what its board keeps and tells, its pages and streams over real sockets, who may read them,
and docs/status.md."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.datastructures import URL, Headers
from starlette.types import Scope

import smofi
from smofi import Record, RoundDone, RoundStarted, RunEnded, RunStarted, TickDone, Warned
from smofi.errors import InputError
from smofi.net.status import STATES, Board, StatusServer
from support.ends import open_files

MANY = 1_200
"""More than there may be of anything, but of clients."""


@contextmanager
def requested(port: int, path: str, method: str = "GET", **headers: str) -> Iterator[HTTPResponse]:
    """The answer to a request; `last_event_id` is the header Last-Event-ID."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as answer:
            yield answer
    finally:
        connection.close()


def fetched(port: int, path: str, **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    with requested(port, path, **headers) as answer:
        return answer.status, answer.read().decode()


def next_event(answer: HTTPResponse) -> tuple[str, Any]:
    """The id and the data of the next event in a stream."""
    fields: dict[str, str] = {}
    while line := answer.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        elif "data" in fields:
            return fields["id"], json.loads(fields["data"])
    raise AssertionError("the stream has ended")


# ------------------------------------------------------------------------------------------------------------ the board


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def record(number: int, accuracy: float | None = 0.5, seconds: float = 2.0) -> Record:
    loss = None if accuracy is None else 1 - accuracy
    return Record(number, accuracy, loss, 1.5, seconds, [0, 1], [3, 2], 0.1, "1")


def started(rounds: int = 40, done: int = 0, method: str = "smofi") -> RunStarted:
    return RunStarted(method, rounds, clients=8, eligible=8, per_round=2, parameters=10, done=done)


def texts(board: Board) -> list[str]:
    return [one["text"] for one in board.snapshot()["events"]]


def test_a_run_from_its_first_round_to_its_end() -> None:
    clock = Clock()
    board = Board(clock=clock, timer=clock)
    assert board.snapshot()["headline"] == "Waiting to start: 0 clients are connected."
    board.callback(started(rounds=3))
    board.callback(RoundStarted(1, [0, 1], [3, 2]))
    board.callback(TickDone(0, 1))
    run = board.snapshot()["run"]
    assert (run["round"], run["done"], run["step"], run["steps"], run["state"]) == (1, 0, 2, 3, "running")
    assert run["per_round"] == 2
    board.callback(RoundStarted(1, [0, 1, 4], [3, 2, 3]))
    assert board.snapshot()["run"]["per_round"] == 3  # one more has come
    for number, accuracy in ((1, 0.5), (2, 0.8), (3, 0.7)):
        clock.now += 10
        board.callback(RoundDone(record(number, accuracy, seconds=float(number))))
    found = board.snapshot()
    assert found["headline"] == "smofi is in round 3 of 3. Accuracy 70.0% after round 3."
    assert [point["values"]["top1"] for point in found["history"]] == [0.5, 0.8, 0.7]
    assert (found["run"]["best"]["round"], found["run"]["latest"]["loss"]) == (2, pytest.approx(0.3))
    assert (found["run"]["seconds_per_round"], found["run"]["last_round_end"]) == (2.0, 1030.0)
    board.callback(Warned("it diverges"))
    board.callback(RunEnded(3, None))
    assert board.snapshot()["headline"] == "smofi has finished 3 rounds. Accuracy 70.0% after round 3."
    assert texts(board)[0] == "smofi starts: 3 rounds."
    assert (texts(board)[1], board.snapshot()["run"]["warnings"]) == ("it diverges", 1)


def test_a_client_that_is_away_does_what_it_did_when_it_is_back() -> None:
    """What the transport knows and what the run says of it come from two threads, in any order."""
    clock = Clock()
    board = Board(clock=clock)

    def state() -> str:
        return str(board.snapshot()["clients"][0]["state"])

    board.joined("a", 0, 10, "")
    board.state("a", "training")
    board.away("a")
    board.away("a")
    board.step("a", 1, 5)  # sent before
    board.state("a", "evaluating")
    assert state() == "away"
    clock.now += 2.5
    board.back("a")
    board.back("a")
    assert state() == "evaluating"
    board.away("a")
    board.left("a", "it was away for 15 s")
    board.back("a")
    board.away("a")
    assert state() == "left"
    board.joined("a", 0, 10, "")
    assert state() == "waiting"
    assert texts(board)[1:4] == [
        "a is away: its connection is lost.",
        "a is back after 2.5 s.",
        "a is away: its connection is lost.",
    ]
    assert len(texts(board)) == 6


def test_a_resumed_run_keeps_its_curve_and_another_run_begins_a_new_one() -> None:
    board = Board()
    board.callback(started(done=2))
    board.recall([record(1, 0.9), record(2, 0.4)])
    board.callback(RoundDone(record(3, 0.5)))
    found = board.snapshot()
    assert [point["round"] for point in found["history"]] == [1, 2, 3]
    assert (found["run"]["best"]["round"], found["run"]["rounds_timed"]) == (1, 1)
    board.callback(started(method="fedavg"))
    found = board.snapshot()
    assert (found["history"], found["run"]["best"], found["run"]["method"]) == ([], None, "fedavg")


def test_whoever_follows_the_changes_has_the_whole_picture() -> None:
    """Whatever is removed meanwhile."""
    board, kept, since = Board(), dict[int, float](), 0
    board.callback(started(rounds=9000))
    for number in range(1, 2 * MANY + 50):
        board.callback(RoundDone(record(number, number / 9000)))
        if number % 37 == 0:
            changes = board.changes(since)
            since = changes["version"]
            if "history" in changes["whole"]:
                kept.clear()
            kept |= {point["round"]: point["values"]["top1"] for point in changes["history"]}
    board_now = board.changes(since)
    kept |= {point["round"]: point["values"]["top1"] for point in board_now["history"]}
    whole = board.snapshot()["history"]
    assert kept == {point["round"]: point["values"]["top1"] for point in whole}
    assert len(whole) < 1.5 * MANY
    assert len({one["round"] - other["round"] for one, other in zip(whole[1:], whole, strict=False)}) == 1


def test_it_stays_small() -> None:
    board = Board()
    for number in range(MANY):
        board.event(f"event {number}")
    assert len(texts(board)) < MANY / 2
    assert texts(board)[-1] == f"event {MANY - 1}"
    board.joined("here", 0, 1, "")
    for number in range(10 * MANY):
        board.left(f"stranger {number}", "it is not wanted", refused=True)
    names = {one["name"] for one in board.snapshot()["clients"]}
    assert len(names) < 5 * MANY
    assert {"here", f"stranger {10 * MANY - 1}"} <= names
    board.left("x" * 5000, "y" * 5000)
    last = board.snapshot()["clients"][-1]
    assert max(len(last["name"]), len(last["reason"])) < 320


def test_several_threads_may_feed_and_read_it() -> None:
    board, failed = Board(), list[BaseException]()

    def feed(name: str) -> None:
        for step in range(1, 301):
            board.step(name, step, 300)
            board.bytes(name, step, 2 * step)

    def read() -> None:
        since = 0
        try:
            while since < 2400:
                changes = board.changes(since)
                since = changes["version"]
                for one in changes["clients"]:
                    assert one["bytes_up"] <= one["total_steps"] <= one["bytes_up"] + 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=feed, args=(f"client {number}",)) for number in range(4)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not failed
    assert [one["total_steps"] for one in board.snapshot()["clients"]] == [300] * 4


# ------------------------------------------------------------------------------------------------------------ the pages


@pytest.fixture
def board() -> Board:
    return Board()


@pytest.fixture
def port(board: Board) -> Iterator[int]:
    with StatusServer(board, "127.0.0.1:0") as url:
        found = urlsplit(url).port
        assert found
        yield found


def begin(board: Board) -> None:
    """A run with one round done and another one going."""
    board.callback(RunStarted("smofi", 40, 2, 2, 2, 10))
    board.callback(RoundStarted(1, [0, 1], [3, 3]))
    board.callback(RoundDone(Record(1, 0.75, 0.5, 0.625, 2.5, [0, 1], [3, 3], 0.1, "1")))
    board.callback(RoundStarted(2, [0, 1], [3, 3]))
    board.callback(TickDone(1, 0))


def test_every_page_answers_with_its_headers(board: Board, port: int) -> None:
    begin(board)
    kinds = {
        "/": "text/html; charset=utf-8",
        "/status.json": "application/json",
        "/metrics": "text/plain; version=",
        "/healthz": "text/plain; charset=utf-8",
        "/events": "text/event-stream; charset=utf-8",
        "/nothing": "text/plain; charset=utf-8",
    }
    for path, kind in kinds.items():
        with requested(port, path) as answer:
            assert answer.status == (404 if path == "/nothing" else 200)
            headers = answer.headers
            assert headers["Content-Type"].startswith(kind)
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert "Server" not in headers
    with requested(port, "/", "POST") as answer:
        assert answer.status == 405
    with requested(port, "/events", "HEAD") as answer:
        assert (answer.status, answer.read()) == (200, b"")
    assert json.loads(fetched(port, "/status.json")[1])["run"]["round"] == 2


def test_a_stream_begins_with_everything_and_goes_on_with_changes(board: Board, port: int) -> None:
    begin(board)
    board.joined("a", 0, 10, "")
    board.joined("b", 1, 20, "")
    with requested(port, "/events") as answer:
        _, first = next_event(answer)
        assert [one["name"] for one in first["clients"]] == ["a", "b"]
        for step in range(1, 4):
            board.step("b", step, 3)
        identity, second = next_event(answer)
        assert (second["whole"], [one["name"] for one in second["clients"]]) == ([], ["b"])
        while second["clients"][0]["step"] < 3:  # if the changes came in two messages
            identity, second = next_event(answer)
    board.event("while it was away")
    with requested(port, "/events", last_event_id=identity) as answer:
        _, third = next_event(answer)
        assert (third["whole"], [one["text"] for one in third["events"]]) == ([], ["while it was away"])
    for unknown in ("0123abcd-7", "-1", f"{board.id}-²", f"{board.id}-{'9' * 30}", "nonsense"):
        with requested(port, "/events", last_event_id=unknown.encode("utf-8").decode("latin-1")) as answer:
            assert next_event(answer)[1]["whole"] == ["history", "clients", "events"]


def test_many_changes_are_sent_as_one(board: Board, port: int) -> None:
    with requested(port, "/events") as answer:
        next_event(answer)
        begun = time.monotonic()
        for step in range(1, 61):
            board.step("a", step, 60)
            time.sleep(0.01)  # a step takes its time
        taken, messages, last = time.monotonic() - begun, 0, 0
        while last < 60:
            last = next_event(answer)[1]["clients"][0]["step"]
            messages += 1
        assert messages <= 2 + taken / 0.25


@pytest.mark.slow
def test_a_reader_that_takes_nothing_holds_up_neither_the_run_nor_others(board: Board) -> None:
    server = StatusServer(board, "127.0.0.1:0")
    server.start()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", server.port))
    slow.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    with requested(server.port, "/events") as quick:
        next_event(quick)
        slowest, kept = 0.0, 0
        for round in range(6):
            begun = time.monotonic()
            for number in range(1500):
                board.bytes(f"client {number} {'x' * 60}", round, round)
            slowest = max(slowest, time.monotonic() - begun)
            while not (changes := next_event(quick)[1])["clients"] or changes["clients"][-1]["bytes_up"] < round:
                pass
            assert server._running
            buffers = [one.transport.get_write_buffer_size() for one in server._running.server.server_state.connections]
            kept = max(kept, *buffers)
        # it does wait: for one message of all clients at most, not for every change
        assert 0 < kept < 2 * len(json.dumps(board.snapshot()))
        assert slowest < 5
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 10
    slow.close()
    assert "smofi-status" not in [thread.name for thread in threading.enumerate()]


def test_there_are_only_so_many_streams(board: Board, port: int) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            answer = stack.enter_context(requested(port, "/events"))
            if answer.status == 503:
                break
            next_event(answer)
        assert answer.read() == b"Too many readers.\n"
        assert fetched(port, "/healthz") == (200, "ok\n")
    deadline = time.monotonic() + 20
    while True:  # a stream notices that its reader is gone when it waits for the next change
        with requested(port, "/events") as answer:
            if answer.status == 200:
                break
        assert time.monotonic() < deadline


@pytest.mark.parametrize("first", [b"GET / HT", pytest.param(b"", marks=pytest.mark.slow)])
def test_who_asks_for_nothing_is_cut_off(board: Board, monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    """And there are only so many: each takes a file descriptor of the process that trains."""
    monkeypatch.setattr("smofi.net.status.connection.SILENCE", 0.5)
    with ExitStack() as stack:
        port = urlsplit(stack.enter_context(StatusServer(board, "127.0.0.1:0"))).port
        assert port
        before = open_files()
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(150)]
        for one in silent:
            with suppress(ConnectionError):
                one.sendall(first)
        time.sleep(0.2)
        assert open_files() - before - len(silent) <= 100
        time.sleep(1.5)
        assert open_files() - before - len(silent) <= 0
        stream = stack.enter_context(requested(port, "/events"))
        assert next_event(stream)
        time.sleep(1.2)  # whoever is sent events may be silent
        board.event("still here")
        assert next_event(stream)[1]["events"]


def test_those_who_ask_for_nothing_do_not_keep_a_health_check_out(board: Board, port: int) -> None:
    """Nor do they cut off a reader who is here."""
    with ExitStack() as stack:
        stream = stack.enter_context(requested(port, "/events"))
        next_event(stream)
        for _ in range(2):
            for _ in range(120):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert fetched(port, "/healthz") == (200, "ok\n")
        board.event("something happened")
        assert stream.readline()


def test_broken_requests_are_answered_and_forgotten(board: Board, port: int, capfd: pytest.CaptureFixture[str]) -> None:
    for sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
            raw.sendall(sent + b"\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 4")
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall(b"GET /" + b"a" * 200_000)
        assert raw.recv(100).startswith(b"HTTP/1.1 4")
    assert fetched(port, "/healthz") == (200, "ok\n")
    assert capfd.readouterr() == ("", "")


def test_nothing_stays_behind_after_stop(board: Board) -> None:
    def once() -> None:
        server = StatusServer(board, "127.0.0.1:0")
        server.start()
        with requested(server.port, "/events") as answer:
            next_event(answer)
            server.stop()
            while answer.readline():  # the stream ends in order
                pass
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            fetched(server.port, "/healthz")

    once()
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        once()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (files, threads)


def test_an_address_that_cannot_be_had_is_refused_in_a_sentence(board: Board, port: int) -> None:
    with pytest.raises(
        InputError, match=f"port {port} of 127.0.0.1 is taken by another program; name another one, or 0"
    ):
        StatusServer(board, f"127.0.0.1:{port}").start()
    with pytest.raises(
        InputError, match=r"status='192.0.2.1:0' is not accepted: 192.0.2.1 is no address of this machine"
    ):
        StatusServer(board, "192.0.2.1:0", token="t" * 16).start()
    with pytest.raises(InputError, match=r"no.such.host.invalid is no address here"):
        StatusServer(board, "no.such.host.invalid:80", token="t" * 16).start()
    for address in ("8080", "127.0.0.1", "127.0.0.1:99999", "[::1", "[1:2]:80", "a b:80", "http://127.0.0.1:80", ""):
        with pytest.raises(
            InputError, match=r"is not accepted: expected an address and a port, such as 127.0.0.1:8080"
        ):
            StatusServer(board, address)


def test_metrics_are_what_prometheus_reads(board: Board, port: int) -> None:
    begin(board)
    hostile = 'a"b\\c\n{x="y"} 7'
    board.joined(hostile, 0, 10, "")
    board.state(hostile, "training")
    board.step(hostile, 2, 3)
    board.bytes(hostile, 1000, 2000)
    board.joined("b", 1, 10, "")
    board.away("b")
    board.paused("1 of 2 clients is connected")
    text = fetched(port, "/metrics")[1]
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    values = {key[0]: value for key, value in found.items() if len(key) == 1}
    assert values["smofi_round"] == 2
    assert (values["smofi_rounds_done"], values["smofi_rounds_planned"]) == (1, 40)
    assert (values["smofi_step"], values["smofi_round_steps"]) == (1, 3)
    assert (values["smofi_accuracy_ratio"], values["smofi_loss"], values["smofi_train_loss"]) == (0.75, 0.5, 0.625)
    assert (values["smofi_round_duration_seconds_count"], values["smofi_round_duration_seconds_sum"]) == (1, 2.5)
    assert (values["smofi_steps_total"], values["smofi_paused"]) == (2, 1)
    name = 'a"b\\c\\n{x="y"} 7'  # as the board shows it, on one line
    assert found["smofi_client_up_bytes_total", ("client", name)] == 1000
    assert found["smofi_client_down_bytes_total", ("client", name)] == 2000
    states = {key[1][1]: value for key, value in found.items() if key[0] == "smofi_clients"}
    assert states == {"waiting": 0, "training": 1, "evaluating": 0, "away": 1, "left": 0, "refused": 0}
    assert found["smofi_metric", ("metric", "top1")] == 0.75
    assert found["smofi_run_state", ("state", "paused")] == 1
    assert found["smofi_run_info", ("method", "smofi")] == 1
    with requested(port, "/metrics", accept="application/openmetrics-text; version=1.0.0") as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert answer.read().endswith(b"# EOF\n")


# ---------------------------------------------------------------------------------------------------- who may read them


PATHS = ("/", "/events", "/status.json", "/metrics", "/nothing")


def token_in(url: str) -> str:
    (token,) = parse_qs(urlsplit(url).query)["token"]
    return token


def test_where_others_can_reach_it_a_token_is_made_and_needed() -> None:
    server = StatusServer(Board(), "0.0.0.0:0")
    with server as url:
        token = token_in(url)
        assert len(token) == 43
        for path in PATHS:
            assert fetched(server.port, path)[0] == 401
            assert fetched(server.port, path, authorization=f"Bearer {token[:-1]}")[0] == 401
            assert fetched(server.port, path, authorization=f"Basic {token}")[0] == 401
            assert fetched(server.port, f"{path}?token=wrong")[0] == 401
            assert fetched(server.port, path, cookie=f"smofi-status-{server.port}={token}")[0] == 401
            assert fetched(server.port, path, authorization="Bearer ünknown".encode().decode("latin-1"))[0] == 401
        with requested(server.port, "/") as answer:
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="smofi status"'
        assert fetched(server.port, "/status.json", authorization=f"Bearer {token}")[0] == 200
        assert fetched(server.port, "/status.json", authorization=f"bearer  {token}", host="any.example.org")[0] == 200
        assert fetched(server.port, "/healthz") == (200, "ok\n")
    with StatusServer(Board(), "0.0.0.0:0") as other:
        assert token_in(other) != token


def test_no_host_makes_a_page_one_that_needs_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starlette 0.40, which is accepted, builds a request's address from the Host as it was sent."""

    def address(scope: Scope) -> URL:
        return URL(f"http://{Headers(scope=scope)['host']}{scope['path']}")

    monkeypatch.setattr("starlette.requests.URL", address)
    server = StatusServer(Board(), "0.0.0.0:0")
    with server:
        for host in ("x/healthz?", "x/healthz#"):
            assert fetched(server.port, "/status.json", host=host)[0] == 401


def test_a_token_in_the_address_becomes_a_cookie() -> None:
    server = StatusServer(Board(), "0.0.0.0:0")
    with server as url:
        with requested(server.port, f"/?token={token_in(url)}") as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            kept = answer.headers["Set-Cookie"]
        cookie, _, attributes = kept.partition("; ")
        assert {one.strip().lower() for one in attributes.split(";")} == {"httponly", "path=/", "samesite=strict"}
        assert token_in(url) not in kept
        assert fetched(server.port, "/", cookie=cookie)[0] == 200
    again = StatusServer(Board(), f"0.0.0.0:{server.port}", token=token_in(url))
    with again:  # a server that is restarted with its token knows the browser
        assert fetched(again.port, "/", cookie=cookie)[0] == 200
    with StatusServer(Board(), f"0.0.0.0:{server.port}"):
        assert fetched(server.port, "/", cookie=cookie)[0] == 401


def test_the_redirect_stays_on_this_server() -> None:
    server = StatusServer(Board(), "127.0.0.1:0", token="sixteen-letters-")
    with server, requested(server.port, "//evil.example/?token=sixteen-letters-") as answer:
        assert not answer.headers.get("Location", "/").startswith("//")


def test_a_token_that_is_given_is_needed_on_loopback_too(monkeypatch: pytest.MonkeyPatch) -> None:
    given = secrets.token_hex(8)
    monkeypatch.setenv("SMOFI_STATUS_TOKEN", given)
    server = StatusServer(Board(), "127.0.0.1:0")
    with server as url:
        assert "token" not in url, "whoever gave it knows it"
        assert fetched(server.port, "/")[0] == 401
        assert fetched(server.port, "/", authorization=f"Bearer {given}")[0] == 200


@pytest.mark.parametrize("token", ["short", "x" * 15, "with a \n in its middle", "not-ascii-ü-not-ascii"])
def test_a_bad_token_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(InputError, match="expected at least 16 letters, digits and signs") as refusal:
        StatusServer(Board(), "127.0.0.1:0", token=token)
    assert token not in str(refusal.value)


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("127.0.0.1:{port}", True),
        ("localhost:{port}", True),
        ("LOCALHOST", True),
        ("localhost:9999", True),  # through a tunnel
        ("[::1]:{port}", True),
        ("evil.example:{port}", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("192.0.2.7:{port}", False),
        ("0.0.0.0:{port}", False),
        ("", False),
    ],
)
def test_on_loopback_only_names_of_this_machine_are_answered(host: str, accepted: bool) -> None:
    server = StatusServer(Board(), "127.0.0.1:0")
    with server:
        for path in ("/", "/status.json", "/healthz"):
            status = fetched(server.port, path, host=host.format(port=server.port))[0]
            assert status == (200 if accepted else 421)


# ------------------------------------------------------------------------------------------------------- docs/status.md


PAGE = (Path(__file__).parents[2] / "docs/status.md").read_text("utf-8")


def test_the_page_names_every_metric_and_no_other() -> None:
    board = Board(timer=count().__next__)
    board.callback(RunStarted("smofi", 2, 1, 1, 1, 10))
    board.callback(RoundDone(Record(1, 0.5, 1.0, 1.0, 1.0, [0], [1], 0.1, "1")))
    board.joined("a", 0, 1, "")
    board.step("a", 1, 2)
    board.step("a", 2, 2)
    with StatusServer(board, "127.0.0.1:0") as url:
        text = fetched(urlsplit(url).port or 0, "/metrics")[1]
    served = set(re.findall(r"^(smofi_\w+)", text, re.MULTILINE))
    named = set(re.findall(r"(smofi_[a-z_]+)", PAGE))
    assert named <= served
    untold = {"smofi_round_duration_seconds_count", "smofi_run_info", "smofi_run_start_timestamp_seconds"}
    assert served - named == untold


def test_states_and_loggers_are_those_of_the_code() -> None:
    for state in STATES:
        assert f"`{state}`" in PAGE
    assert "smofi.serving" in PAGE


def test_every_event_of_the_logs_is_listed() -> None:
    """But for what is logged for developers only."""
    package = Path(smofi.__file__).parent
    code = "".join(path.read_text("utf-8") for part in ("net", "serving") for path in (package / part).rglob("*.py"))
    calls = re.findall(
        r"\blog\(\s*logger,(.*?)(?:level|client|reason|clients|method|address|round|at_a_time)=", code, re.DOTALL
    )
    logged = {name for call in calls for name in re.findall(r'"(\w+)"', call)} | {"ended", "interrupted", "diverged"}
    assert {"listening", "joined", "left", "refused", "back", "connected", "round_done", "trying_again"} <= logged
    rows = PAGE.split("## Logs")[1]
    assert {name for name in logged if f"`{name}`" not in rows} == {"stream_broke"}


def test_the_scrape_configuration_can_be_read() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["train.example.org:8080"]
