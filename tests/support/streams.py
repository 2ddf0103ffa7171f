"""Requests to a local web server, as a program makes them: plain ones, and streams of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any


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
