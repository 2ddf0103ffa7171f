"""The status server over real sockets: its pages, its stream, slow readers, and that nothing stays behind."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from smofi.engine.events import Record, RoundDone, RoundStarted, RunStarted, TickDone
from smofi.errors import InputError
from smofi.net.status import Board, StatusServer
from smofi.net.status.app import MOST_STREAMS
from support.ends import open_files
from support.streams import fetched, next_event, requested


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
    streams = [requested(port, "/events") for _ in range(MOST_STREAMS)]
    for stream in streams:
        next_event(stream.__enter__())
    assert fetched(port, "/events") == (503, "Too many readers.\n")
    assert fetched(port, "/healthz") == (200, "ok\n")
    for stream in streams:
        stream.__exit__(None, None, None)
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


def test_two_boards_side_by_side() -> None:
    one, other = Board(), Board()
    one.joined("in-one", 0, 1, "")
    other.joined("in-other", 0, 1, "")
    with StatusServer(one, "127.0.0.1:0") as first, StatusServer(other, "localhost:0") as second:
        for url, name in ((first, "in-one"), (second, "in-other")):
            port = urlsplit(url).port
            assert port
            assert [client["name"] for client in json.loads(fetched(port, "/status.json")[1])["clients"]] == [name]
            metrics = fetched(port, "/metrics")[1]
            assert f'smofi_client_joins_total{{client="{name}"}} 1.0' in metrics
            assert metrics.count("smofi_client_joins_total{") == 1


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


def test_a_missing_package_is_named(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(InputError, match=r'uvicorn is not installed; it comes with: pip install "smofi\[net\]"'):
        StatusServer(board, "127.0.0.1:0").start()


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


def test_an_empty_board_has_metrics_too(port: int) -> None:
    names = {family.name for family in text_string_to_metric_families(fetched(port, "/metrics")[1])}
    assert {"smofi_round", "smofi_clients", "smofi_steps"} <= names
    assert "smofi_accuracy_ratio" not in names, "nothing was measured, and 0 would be a value"
