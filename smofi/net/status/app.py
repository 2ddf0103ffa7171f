"""The status pages: the live page, its stream, the same as JSON, metrics, and whether the server is alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smofi.net.status.access import Access
from smofi.net.status.board import Board
from smofi.net.status.document import document, policy
from smofi.net.status.metrics import exposition, registry_of

PAUSE = 0.3  # seconds between two messages of a stream: changes in between are sent as one
HEARTBEAT = 10.0  # seconds after which a silent stream says that it is alive
MOST_STREAMS = 32
STREAM = "text/event-stream; charset=utf-8"
HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Pages:
    """What is served of one board."""

    def __init__(self, board: Board, stopping: asyncio.Event) -> None:
        self.board, self.stopping = board, stopping
        self.registry = registry_of(board)
        self.streams = 0

    def app(self, access: Access) -> ASGIApp:
        """The whole application, behind its guard."""
        pages = (self.page, "/"), (self.events, "/events"), (self.status, "/status.json"), (self.metrics, "/metrics")
        routes = [Route(path, page, methods=["GET"]) for page, path in (*pages, (alive, "/healthz"))]
        return Guard(Starlette(routes=routes), access)

    async def page(self, request: Request) -> Response:
        return HTMLResponse(document())

    async def status(self, request: Request) -> Response:
        return Response(as_json(self.board.snapshot()), media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        content, kind = exposition(self.registry, request.headers.get("accept", ""))
        return Response(content, headers={"Content-Type": kind})

    async def events(self, request: Request) -> Response:
        """Server-sent events: everything first, or what a reader who was here before has missed; then changes."""
        if request.method == "HEAD":
            return Response(headers={"Content-Type": STREAM})
        if self.streams >= MOST_STREAMS:
            return PlainTextResponse("Too many readers.\n", 503, {"Retry-After": "10"})
        board, _, version = request.headers.get("last-event-id", "").partition("-")
        known = board == self.board.id and version.isascii() and version.isdigit() and len(version) < 20
        stream = self.stream(int(version) if known else 0)
        return StreamingResponse(stream, headers={"Content-Type": STREAM})

    async def stream(self, since: int) -> AsyncIterator[str]:
        """Nothing is kept for a reader: one that is slow gets, when it is ready, what changed in the meantime."""
        self.streams += 1
        try:
            yield "retry: 1000\n\n"
            silent, first = 0.0, True
            while not self.stopping.is_set():
                if first or self.board.version > since or silent >= HEARTBEAT:
                    changes = self.board.changes(since)
                    since, silent, first = changes["version"], 0.0, False
                    yield f"id: {self.board.id}-{since}\ndata: {as_json(changes)}\n\n"
                silent += PAUSE
                await wait(self.stopping, PAUSE)
        finally:
            self.streams -= 1


async def alive(request: Request) -> Response:
    """Needs no token, and says nothing of the run."""
    return PlainTextResponse("ok\n")


async def wait(event: asyncio.Event, seconds: float) -> None:
    """Until the event or the end of the time."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def as_json(value: Any) -> str:
    """On one line, in ASCII."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


class Guard:
    """Lets in whom `access` accepts, and gives every answer its headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] == "http":
            request = Request(scope)
            await (self.refusal(request) or self.app)(scope, receive, send_with_headers)

    def refusal(self, request: Request) -> Response | None:
        """What is answered to those who may not read, and to those who bring the token in the address."""
        if not self.access.name_accepted(request.headers.get("host", "")):
            return PlainTextResponse("This address is for this machine alone: use 127.0.0.1 or localhost.\n", 421)
        path: str = request.scope["path"]  # as it is routed; an older starlette makes request.url of the Host
        if self.access.token is None or path == "/healthz":
            return None
        cookie = f"smofi-status-{(request.scope.get('server') or ('', 0))[1]}"  # cookies do not know ports
        if (given := request.query_params.get("token")) is not None and self.access.token_accepted(given):
            here = "/" + path.lstrip("/\\")  # with two slashes it would be another server
            response = RedirectResponse(here, 303)
            response.set_cookie(cookie, self.access.cookie, httponly=True, samesite="strict", path="/")
            return response
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.access.token_accepted(bearer.strip()):
            return None
        if self.access.cookie_accepted(request.cookies.get(cookie, "")):
            return None
        text = (
            "A token is needed: open the address that the server gave when it started, or send Authorization: Bearer.\n"
        )
        return PlainTextResponse(text, 401, {"WWW-Authenticate": 'Bearer realm="smofi status"'})
