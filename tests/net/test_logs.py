"""Logs of a server and its clients: one line an event, for people or for programs, and never data."""

from __future__ import annotations

import io
import json
import logging
import math
import re
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest
import torch

from smofi.errors import InputError
from smofi.net.logs import configure_logs, log, remove_logs

NET, SERVING = logging.getLogger("smofi.net.status"), logging.getLogger("smofi.serving")


HOSTILE = 'ward\n{"level":"error"}\r\x1b[31m\u202e\udc80'


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    remove_logs()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_of_json() -> None:
    stream = io.StringIO()
    configure_logs("json", "info", stream)
    log(SERVING, "joined", client="hospital-a", samples=120, allowed=True)
    (found,) = lines(stream)
    time = datetime.fromisoformat(str(found.pop("time")).replace("Z", "+00:00"))
    assert abs((datetime.now(timezone.utc) - time).total_seconds()) < 60
    assert found == {
        "level": "info",
        "logger": "smofi.serving",
        "event": "joined",
        "client": "hospital-a",
        "samples": 120,
        "allowed": True,
    }


def test_a_line_of_text() -> None:
    stream = io.StringIO()
    configure_logs(stream=stream)
    log(NET, "left", level="warning", client="hospital-a", reason="no step for 30 s", code=7)
    assert re.fullmatch(
        r'\d\d:\d\d:\d\d warning left client=hospital-a reason="no step for 30 s" code=7\n', stream.getvalue()
    )


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_hostile_name_stays_on_its_line(format: str) -> None:
    stream = io.StringIO()
    configure_logs(format, stream=stream)
    log(NET, HOSTILE, client=HOSTILE, reason=HOSTILE)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.rstrip("\n").isprintable()
    if format == "json":
        (found,) = lines(stream)
        assert (found["level"], found["client"]) == ("info", 'ward\\n{"level":"error"}\\r\\x1b[31m\\u202e\\udc80')


def test_data_is_never_logged() -> None:
    stream = io.StringIO()
    configure_logs("json", stream=stream)
    log(NET, "step", inputs=torch.full((3,), 0.123), raw=b"0.123", listed=[0.123], by={"a": 0.123}, loss=math.nan)
    (found,) = lines(stream)
    assert {key: found[key] for key in ("inputs", "raw", "listed", "by", "loss")} == {
        "inputs": "<Tensor>",
        "raw": "<bytes>",
        "listed": "<list>",
        "by": "<dict>",
        "loss": "nan",
    }
    assert "0.123" not in stream.getvalue()


def test_ordinary_records_and_errors_are_lines_too() -> None:
    stream = io.StringIO()
    configure_logs("json", "debug", stream)
    NET.debug("%d clients", 3)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        SERVING.exception("failed", extra={"client": "a"})
    first, second = lines(stream)
    assert (first["event"], first["level"]) == ("3 clients", "debug")
    assert (second["error"], second["client"]) == ("ValueError: two\\nlines", "a")
    assert "test_logs.py" in str(second["traceback"])


@pytest.mark.parametrize(
    ("format", "level", "named"), [("xml", "info", "log_format='xml'"), ("text", "loud", "log_level='loud'")]
)
def test_what_is_not_known_is_refused(format: str, level: str, named: str) -> None:
    with pytest.raises(InputError, match=f"{named} is not accepted: expected one of"):
        configure_logs(format, level)
