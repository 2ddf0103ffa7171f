"""Who may read the status pages: a token where others can reach them, names of this machine where they cannot."""

import secrets
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.datastructures import URL, Headers
from starlette.types import Scope

from smofi.errors import InputError
from smofi.net.status import Board, StatusServer
from smofi.net.status.access import Access
from support.streams import fetched, requested

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
    assert token_in(StatusServer(Board(), "0.0.0.0:0").access.url("h", 1)) != token


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


def test_ipv6_addresses_are_written_in_brackets() -> None:
    assert Access.decide("::1", None).url("::1", 80) == "http://[::1]:80/"
    assert Access.decide("::1", None).token is None
    assert Access.decide("::", None).made
