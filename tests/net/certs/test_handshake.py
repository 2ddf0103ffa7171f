"""Real servers and clients on loopback: who gets through, and what a client is told that does not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from smofi.net.certs import Gate, Identity, revoke, why_refused
from smofi.net.certs.making import now
from support.certificates import HOST, call, make_pki, serving, sign, unchecked


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority that no test changes."""
    return make_pki(tmp_path_factory.mktemp("certs") / "pki", "hospital-a")


def server_of(pki: Path) -> Identity:
    return Identity.load(pki / "server", "server")


def client_of(pki: Path) -> Identity:
    return Identity.load(pki / "hospital-a", "client")


def status(port: int, identity: Identity, host: str = HOST) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as failed:
        call(port, identity, host)
    return failed.value.code()


def why(port: int, identity: Identity, host: str = HOST) -> str:
    sentence = why_refused(host, port, identity)
    assert sentence is not None
    assert not sentence.endswith("?"), "a client's user is told more after it: `Waits`"
    return sentence


def test_a_client_gets_through_and_is_known_by_name_until_it_is_revoked(tmp_path: Path) -> None:
    pki = make_pki(tmp_path / "pki", "hospital-a")
    server, client = server_of(pki), client_of(pki)
    with serving(server, Gate.of(server)) as port:
        assert call(port, client) == "hospital-a"
        assert why_refused(HOST, port, client) is None
        revoke(pki, "hospital-a")
        with pytest.raises(grpc.RpcError) as refused:
            call(port, client)
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert refused.value.details().startswith("the certificate of hospital-a was revoked on ")


def test_a_client_of_another_authority(shared: Path, tmp_path: Path) -> None:
    stranger = client_of(make_pki(tmp_path / "other", "hospital-a"))
    with serving(server_of(shared), Gate.of(server_of(shared))) as port:
        assert status(port, stranger) == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, stranger)
    assert f"the certificate of localhost:{port} is signed by another certificate authority, CN=smofi CA " in sentence
    assert f"than the one in {stranger.folder / 'ca.pem'}" in sentence


def test_a_client_that_trusts_the_server_but_is_not_trusted(shared: Path, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other", "hospital-a")
    (other / "hospital-a/ca.pem").write_bytes((shared / "ca.pem").read_bytes())
    with serving(server_of(shared)) as port:
        assert "does not accept this client's certificate" in (
            sentence := why(port, unchecked(other / "hospital-a", "client"))
        )
    assert ": it is signed by another certificate authority, CN=smofi CA " in sentence


def test_a_client_that_trusts_both_authorities_cannot_know_which_one_the_server_trusts(
    shared: Path, tmp_path: Path
) -> None:
    other = make_pki(tmp_path / "other", "hospital-a")
    path = other / "hospital-a/ca.pem"
    path.write_bytes(path.read_bytes() + (shared / "ca.pem").read_bytes())
    with serving(server_of(shared)) as port:
        sentence = why(port, client_of(other))
    assert "and does not say why: the server may trust another certificate authority" in sentence


def test_a_client_whose_certificate_is_expired(shared: Path, tmp_path: Path) -> None:
    folder = sign(shared, tmp_path / "old", "old", "client", now() - timedelta(minutes=5))
    with serving(server_of(shared), Gate.of(server_of(shared))) as port:
        assert status(port, unchecked(folder, "client")) == grpc.StatusCode.UNAVAILABLE
        assert ": it expired on " in why(port, unchecked(folder, "client"))


def test_a_server_does_not_pass_for_a_client(shared: Path) -> None:
    with serving(server_of(shared), Gate.of(server_of(shared))) as port:
        assert status(port, unchecked(shared / "server", "client")) == grpc.StatusCode.UNAVAILABLE
        assert ": it is not meant for a client" in why(port, unchecked(shared / "server", "client"))


def test_a_client_without_a_certificate(shared: Path) -> None:
    with serving(server_of(shared), Gate.of(server_of(shared))) as port:
        bare = grpc.ssl_channel_credentials(root_certificates=(shared / "ca.pem").read_bytes())
        with grpc.secure_channel(f"{HOST}:{port}", bare) as channel, pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/tests.Certificates/Name")(b"", timeout=20)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_server_whose_certificate_is_expired(shared: Path, tmp_path: Path) -> None:
    folder = sign(shared, tmp_path / "old", "old", "server", now() - timedelta(minutes=5))
    with serving(unchecked(folder, "server")) as port:
        assert status(port, client_of(shared)) == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, client_of(shared))
    assert sentence.startswith(f"the certificate of localhost:{port} expired on ")
    assert "its operator has to renew it" in sentence


def test_a_server_by_a_name_that_its_certificate_does_not_have(shared: Path) -> None:
    with serving(server_of(shared)) as port:
        assert status(port, client_of(shared), "127.0.0.1") == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, client_of(shared), "127.0.0.1")
    assert sentence == (
        f"the certificate of 127.0.0.1:{port} is not for 127.0.0.1; it is for localhost: "
        "connect by a name that it is for"
    )


def test_nothing_listens(shared: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    assert why(port, client_of(shared)) == (
        f"nothing listens at localhost:{port} (is the server running, and is the port right?)"
    )


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "x" * 70])
def test_no_such_machine(shared: Path, host: str) -> None:
    assert why(1, client_of(shared), host).startswith(f"there is no machine called {host}")


def test_a_server_without_tls(shared: Path) -> None:
    with serving(None) as port:
        assert f"localhost:{port} does not use TLS: it is no smofi server" in why(port, client_of(shared))


@contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[int]:
    """A server that takes one connection after the other. Without a context, it says nothing."""

    def answer(connection: socket.socket, end: threading.Event) -> None:
        with connection:
            if context is None:
                end.wait(20)
                return
            try:
                with context.wrap_socket(connection, server_side=True) as secure:
                    secure.recv(100)
            except OSError:
                pass

    end = threading.Event()
    with socket.create_server((HOST, 0)) as listener:

        def accept() -> None:
            while not end.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                answer(connection, end)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            end.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def context_of(pki: Path, ca: Path, *alpn: str) -> ssl.SSLContext:
    """A server's TLS with OpenSSL, which sends alerts as web servers and proxies do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "server/cert.pem", pki / "server/key.pem")
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(alpn)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_says_what_is_wrong(shared: Path, tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = context_of(shared, make_pki(tmp_path / "other") / "ca.pem", "h2")
    context.maximum_version = version
    with answering(context) as port:
        assert why(port, client_of(shared)).endswith(": the server trusts another certificate authority")
    folder = sign(shared, tmp_path / "old", "old", "client", now() - timedelta(minutes=5))
    context = context_of(shared, shared / "ca.pem", "h2")
    context.maximum_version = version
    with answering(context) as port:
        assert why(port, unchecked(folder, "client")).endswith(": it is expired")


def test_another_kind_of_server_with_a_good_certificate(shared: Path) -> None:
    with answering(context_of(shared, shared / "ca.pem", "http/1.1")) as port:
        assert "is no gRPC server, although its certificate is good" in why(port, client_of(shared))


def test_a_server_that_says_nothing(shared: Path) -> None:
    with answering(None) as port:
        sentence = why_refused(HOST, port, client_of(shared), timeout=0.2)
    assert sentence == (
        f"localhost:{port} takes connections but does not answer (is it a smofi server, and one with certificates?)"
    )


def test_files_that_are_gone(tmp_path: Path) -> None:
    client = client_of(make_pki(tmp_path / "pki", "hospital-a"))
    (client.folder / "key.pem").unlink()
    assert "cannot be used any more: No such file or directory (were they changed or removed?)" in why(1, client)
