"""Certificates: an authority that overwrites nothing, who comes in, and what a client is told that does not."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from smofi.errors import InputError
from smofi.net.certs import Gate, Identity, Refused, init, issue, issued_in, revoke, why_refused
from support.certificates import (
    HOST,
    call,
    cert_pem,
    key_pem,
    make_pki,
    now,
    own_certificate,
    serving,
    sign,
    unchecked,
    written,
)  # fmt: skip


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return make_pki(tmp_path / "pki", "hospital-a", "hospital-b")


@pytest.fixture(scope="module")
def shared_pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority that no test changes."""
    return make_pki(tmp_path_factory.mktemp("certs") / "pki", "hospital-a")


# -------------------------------------------------------------------------------------------------------- the authority


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def cert_in(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def revoked_serials(path: Path) -> set[int]:
    return {one.serial_number for one in x509.load_pem_x509_crl(path.read_bytes())}


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    **{
        f"client {name!r}": (
            lambda pki, name=name: issue(pki, client=name),
            "is not accepted: expected at most 64 letters",
        )
        for name in ("../x", "/x", ".x", "-x", "", "a/b", "a\n", "x" * 65, "ü", "a\0b", "..")
    },
    **{
        f"client {name!r}": (lambda pki, name=name: issue(pki, client=name), f"client='{name}' is not accepted: ")
        for name in ("ca.pem", "CRL.pem", "issued", "server")
    },
    **{
        f"server {host!r}": (
            lambda pki, host=host: issue(pki, server=["good.example.org", host], name="other"),
            "is not accepted: expected a host name such as ",
        )
        for host in (
            "a.b:7443",
            "https://a.b",
            "*.a.b",
            "10.0.0.500",
            "a..b",
            "-a.b",
            "a b",
            "",
            "[::1]",
            "ü.de",
            "a" * 64,
        )
    },
    "revoke a path": (lambda pki: revoke(pki, "../x"), "is not accepted: expected at most 64 letters"),
    "revoke nobody": (lambda pki: revoke(pki, "hospital-c"), r"issued no certificate to 'hospital-c' \(did you mean"),
    "neither": (lambda pki: issue(pki), "for a server or for a client: give one of the two"),
    "both": (lambda pki: issue(pki, server="a.b", client="a"), "for a server or for a client: give one of the two"),
    "no hosts": (lambda pki: issue(pki, server=[]), "expected a host name or an IP address, or several"),
    "two names": (lambda pki: issue(pki, client="a", name="b"), "a client's folder has the client's name"),
    **{
        f"{days!r} days": (
            lambda pki, days=days: issue(pki, client="b", days=days),  # type: ignore[arg-type]
            f"days={days!r} is not accepted: expected a whole number",
        )
        for days in (0, -1, 36501, "1", 1.5)
    },
    "longer than the authority": (lambda pki: issue(pki, client="b", days=36000), "since the certificate a"),
    "no authority": (
        lambda pki: issue(pki.parent, client="a"),
        r"has no certificate authority; smofi certs init .* makes",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused_changes_nothing(case: str, shared_pki: Path) -> None:
    call, sentence = WRONG[case]
    before = contents(shared_pki)
    with pytest.raises(InputError, match=sentence):
        call(shared_pki)
    assert contents(shared_pki) | {".lock": b""} == before | {".lock": b""}


def test_an_authority_that_is_not_whole_does_not_sign(pki: Path, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other")
    (pki / "ca-key.pem").write_bytes((other / "ca-key.pem").read_bytes())
    with pytest.raises(InputError, match=r"ca-key\.pem does not belong to"):
        issue(pki, client="b")
    (pki / "ca.pem").unlink()  # as one that was killed while it was made
    with pytest.raises(InputError, match="expected a new or an empty folder"):
        init(pki)
    assert (pki / "ca-key.pem").exists()


def test_keys_and_folders_are_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        pki = make_pki(tmp_path / "pki", "hospital-a")
    finally:
        os.umask(before)
    assert {mode(path) for path in (pki, pki / "server", pki / "hospital-a", pki / "issued")} == {0o700}
    keys = [pki / "ca-key.pem", pki / "server/key.pem", pki / "hospital-a/key.pem"]
    assert {mode(path) for path in keys} == {0o600}
    issue(pki, client="hospital-a", renew=True)
    assert mode(pki / "hospital-a/key.pem") == 0o600


def test_certificates_say_whose_they_are_and_what_for(tmp_path: Path) -> None:
    init(tmp_path)
    issue(tmp_path, server=["train.example.org", "127.0.0.1", "::1"], days=30)
    issue(tmp_path, client="hospital-a")
    server, client = cert_in(tmp_path / "server"), cert_in(tmp_path / "hospital-a")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["train.example.org"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    usages = [list(one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) for one in (server, client)]
    assert usages == [[ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]]
    assert [one.value for one in client.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["hospital-a"]
    for cert, days in ((server, 30), (client, 365)):
        assert abs(cert.not_valid_after_utc - now() - timedelta(days=days)) < timedelta(minutes=1)


def test_an_authority_is_made_in_an_empty_folder_and_nowhere_else(tmp_path: Path, pki: Path) -> None:
    before = contents(pki)
    with pytest.raises(InputError, match="has a certificate authority already: it is left as it is"):
        init(pki)
    assert contents(pki) == before
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("full", "file"):
        with pytest.raises(InputError, match="expected a new or an empty folder"):
            init(tmp_path / name)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]
    (tmp_path / "empty").mkdir(mode=0o755)
    init(tmp_path / "empty")
    assert mode(tmp_path / "empty") == 0o700


def test_what_was_issued_is_not_overwritten(pki: Path) -> None:
    before = contents(pki)
    with pytest.raises(InputError, match=r"hospital-a has a certificate already, valid, until .*: write --renew"):
        issue(pki, client="hospital-a")
    with pytest.raises(InputError, match="hospital-a is the name of a client already"):
        issue(pki, server="a.b", name="hospital-a", renew=True)
    with pytest.raises(InputError, match="hospital-a is the name of a client already: choose another than Hospital-A"):
        issue(pki, client="Hospital-A")  # the same folder on some machines
    with pytest.raises(InputError, match="hospital-c has no certificate that could be renewed"):
        issue(pki, client="hospital-c", renew=True)
    (pki / "mine").mkdir()
    with pytest.raises(InputError, match="exists but was not issued by this authority"):
        issue(pki, client="mine")
    assert contents(pki) == before | {".lock": b""}


def test_renewing_gives_a_new_key_and_certificate_that_belong_together(pki: Path) -> None:
    folder = pki / "hospital-a"
    (folder / "notes.txt").write_text("mine")
    old = contents(folder)
    issue(pki, client="hospital-a", days=7, renew=True)
    new = contents(folder)
    assert new.keys() == old.keys()
    assert {name for name in new if new[name] != old[name]} == {"cert.pem", "key.pem"}
    assert abs(Identity.load(folder, "client").until - now() - timedelta(days=7)) < timedelta(minutes=1)
    assert [one.state for one in issued_in(pki) if one.name == "hospital-a"] == ["valid", "valid"]


def test_revoking_counts_for_all_certificates_of_a_name_and_reaches_every_server(pki: Path) -> None:
    issue(pki, server="b.example.org", name="second")
    first = cert_in(pki / "hospital-a").serial_number
    issue(pki, client="hospital-a", renew=True)
    serials = {first, cert_in(pki / "hospital-a").serial_number}
    revoked, written = revoke(pki, "hospital-a")
    assert {one.serial for one in revoked} == serials
    assert written == [pki / "crl.pem", pki / "second/crl.pem", pki / "server/crl.pem"]
    for path in written:
        assert revoked_serials(path) == serials
    states = {(one.name, one.state.split()[0]) for one in issued_in(pki)}
    assert states == {
        ("server", "valid"), ("second", "valid"), ("hospital-a", "revoked"), ("hospital-b", "valid"),
    }  # fmt: skip
    # another one, and again: what is revoked stays so
    revoke(pki, "hospital-b")
    revoke(pki, "hospital-a")
    assert revoked_serials(pki / "server/crl.pem") == serials | {cert_in(pki / "hospital-b").serial_number}
    # a name that was revoked may be trusted again, with another certificate
    renewed = issue(pki, client="hospital-a", renew=True)
    assert renewed.serial not in revoked_serials(pki / "crl.pem")


def test_a_revocation_list_that_is_damaged_or_foreign_is_never_replaced_by_an_empty_one(
    pki: Path, tmp_path: Path
) -> None:
    foreign = make_pki(tmp_path / "foreign") / "crl.pem"
    for content, sentence in (
        (b"", "is damaged"),
        (b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n", "is damaged"),
        (foreign.read_bytes(), "is not signed by"),
    ):
        (pki / "crl.pem").write_bytes(content)
        with pytest.raises(InputError, match=sentence):
            revoke(pki, "hospital-a")
        assert (pki / "crl.pem").read_bytes() == content
    (pki / "crl.pem").unlink()
    with pytest.raises(InputError, match=r"crl\.pem does not exist"):
        revoke(pki, "hospital-a")


def test_what_cannot_be_written_leaves_nothing_behind(
    pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    before = contents(pki) | {".lock": b""}
    monkeypatch.setattr(os, "fsync", full)
    for refused in (
        lambda: init(tmp_path / "new"),
        lambda: issue(pki, client="hospital-c"),
        lambda: issue(pki, client="hospital-a", renew=True),
        lambda: revoke(pki, "hospital-a"),
    ):
        with pytest.raises(OSError, match="No space left"):
            refused()
    assert contents(pki) == before
    assert list((tmp_path / "new").iterdir()) == []


def test_several_that_revoke_at_the_same_time_lose_nothing(pki: Path) -> None:
    names = [f"client-{number}" for number in range(8)]
    for name in names:
        issue(pki, client=name)
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: revoke(pki, name), names))
    assert revoked_serials(pki / "crl.pem") == {cert_in(pki / name).serial_number for name in names}
    assert revoked_serials(pki / "server/crl.pem") == revoked_serials(pki / "crl.pem")


# --------------------------------------------------------------------------------------------------------- who comes in


def pem(pki: Path, name: str) -> bytes:
    return (pki / name / "cert.pem").read_bytes()


def gate_of(pki: Path, allowed: Path | None = None, warnings: list[str] | None = None) -> Gate:
    said = [] if warnings is None else warnings
    return Gate.of(Identity.load(pki / "server", "server"), allowed=allowed, warn=said.append)


def refusal(gate: Gate, pem: bytes) -> str:
    with pytest.raises(Refused) as refused:
        gate.admit(pem)
    return str(refused.value)


@pytest.mark.parametrize("content", [b"", b"# none yet\n", b"hospital-a\n../x\n", b"\xff\xfe", b"hospital a\n"])
def test_an_allow_list_that_is_wrong_is_refused_at_first_and_later_leaves_the_last_one_in_force(
    pki: Path, tmp_path: Path, content: bytes
) -> None:
    allowed, warnings = tmp_path / "allowed.txt", list[str]()
    allowed.write_bytes(content)
    with pytest.raises(InputError, match=r"allowed\.txt .*: expected a name per line"):
        gate_of(pki, allowed)
    allowed.write_text("hospital-a\n")
    gate = gate_of(pki, allowed, warnings)
    allowed.write_bytes(content)
    for _ in range(3):
        assert gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
        assert not gate.still_allowed("hospital-b", pem(pki, "hospital-b"))
    assert len(warnings) == 1
    assert warnings[0].endswith("; what it was before stays in force")
    allowed.unlink()
    assert gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    assert "does not exist" in warnings[1]
    allowed.write_text("hospital-b\n")
    assert not gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    assert len(warnings) == 2


def test_revoking_counts_at_once_and_for_that_certificate_only(pki: Path) -> None:
    gate, old = gate_of(pki), pem(pki, "hospital-a")
    assert gate.still_allowed("hospital-a", old)
    revoke(pki, "hospital-a")
    assert not gate.still_allowed("hospital-a", old)
    assert refusal(gate, old).startswith("the certificate of hospital-a was revoked on ")
    assert gate.still_allowed("hospital-b", pem(pki, "hospital-b"))
    issue(pki, client="hospital-a", renew=True)
    assert gate.admit(pem(pki, "hospital-a")) == "hospital-a"
    assert not gate.still_allowed("hospital-a", old)


def test_a_revocation_list_that_becomes_damaged_foreign_or_missing_revokes_what_it_did(
    pki: Path, tmp_path: Path
) -> None:
    path, warnings = pki / "server/crl.pem", list[str]()
    foreign = (make_pki(tmp_path / "foreign") / "crl.pem").read_bytes()
    revoke(pki, "hospital-a")
    good = path.read_bytes()
    gate = gate_of(pki, warnings=warnings)
    for number, content in enumerate((b"", good[:100], good.replace(b"M", b"!", 2), foreign), start=1):
        path.write_bytes(content)
        for _ in range(2):
            assert not gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
        path.write_bytes(good)
        assert gate.still_allowed("hospital-b", pem(pki, "hospital-b"))
        assert len(warnings) == number
    assert "is not signed by this certificate authority" in warnings[-1]
    path.unlink()
    assert not gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    assert len(warnings) == 5
    for content in (b"", good[:100], foreign):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"crl\.pem is .*: expected the authority's revocation list, as PEM"):
            gate_of(pki)


def test_a_revocation_list_may_come_later(pki: Path) -> None:
    path, warnings = pki / "server/crl.pem", list[str]()
    path.unlink()
    gate = gate_of(pki, warnings=warnings)
    assert gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    revoke(pki, "hospital-a")
    path.write_bytes((pki / "crl.pem").read_bytes())
    assert not gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    assert warnings == []


def test_certificates_without_a_name_that_can_be_used(pki: Path, tmp_path: Path) -> None:
    gate = gate_of(pki)
    for name in ("../x", "Hospital A", "-x"):
        assert refusal(gate, cert_pem(own_certificate(name)[0])) == (
            f"the client's certificate has the name (CN) {name!r}, which is not accepted"
        )
    assert "has no name (CN), or more than one" in refusal(gate, cert_pem(own_certificate("a", names=2)[0]))
    assert "has no name (CN), or more than one" in refusal(gate, cert_pem(own_certificate("a", names=0)[0]))
    for content in (b"", b"nonsense", pem(pki, "hospital-a")[:200]):
        assert refusal(gate, content) == "the client's certificate cannot be read"
    other = cert_pem(own_certificate("a", usage=ExtendedKeyUsageOID.CODE_SIGNING)[0])
    assert refusal(gate, other) == "the certificate of a is not meant for a client"
    assert refusal(gate, pem(pki, "server")) == "the certificate of server is not meant for a client"


# --------------------------------------------------------------------------------- real servers and clients on loopback


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


def test_a_client_of_another_authority(shared_pki: Path, tmp_path: Path) -> None:
    stranger = client_of(make_pki(tmp_path / "other", "hospital-a"))
    with serving(server_of(shared_pki), Gate.of(server_of(shared_pki))) as port:
        assert status(port, stranger) == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, stranger)
    assert f"the certificate of localhost:{port} is signed by another certificate authority, CN=smofi CA " in sentence
    assert f"than the one in {stranger.folder / 'ca.pem'}" in sentence


def test_a_client_that_trusts_the_server_but_is_not_trusted(shared_pki: Path, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other", "hospital-a")
    (other / "hospital-a/ca.pem").write_bytes((shared_pki / "ca.pem").read_bytes())
    with serving(server_of(shared_pki)) as port:
        assert "does not accept this client's certificate" in (
            sentence := why(port, unchecked(other / "hospital-a", "client"))
        )
    assert ": it is signed by another certificate authority, CN=smofi CA " in sentence


def test_a_client_whose_certificate_is_expired(shared_pki: Path, tmp_path: Path) -> None:
    folder = sign(shared_pki, tmp_path / "old", "old", "client", now() - timedelta(minutes=5))
    with serving(server_of(shared_pki), Gate.of(server_of(shared_pki))) as port:
        assert status(port, unchecked(folder, "client")) == grpc.StatusCode.UNAVAILABLE
        assert ": it expired on " in why(port, unchecked(folder, "client"))


def test_a_server_does_not_pass_for_a_client(shared_pki: Path) -> None:
    with serving(server_of(shared_pki), Gate.of(server_of(shared_pki))) as port:
        assert status(port, unchecked(shared_pki / "server", "client")) == grpc.StatusCode.UNAVAILABLE
        assert ": it is not meant for a client" in why(port, unchecked(shared_pki / "server", "client"))


def test_a_client_without_a_certificate(shared_pki: Path) -> None:
    with serving(server_of(shared_pki), Gate.of(server_of(shared_pki))) as port:
        bare = grpc.ssl_channel_credentials(root_certificates=(shared_pki / "ca.pem").read_bytes())
        with grpc.secure_channel(f"{HOST}:{port}", bare) as channel, pytest.raises(grpc.RpcError) as failed:
            channel.unary_unary("/tests.Certificates/Name")(b"", timeout=20)
    assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_server_whose_certificate_is_expired(shared_pki: Path, tmp_path: Path) -> None:
    folder = sign(shared_pki, tmp_path / "old", "old", "server", now() - timedelta(minutes=5))
    with serving(unchecked(folder, "server")) as port:
        assert status(port, client_of(shared_pki)) == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, client_of(shared_pki))
    assert sentence.startswith(f"the certificate of localhost:{port} expired on ")
    assert "its operator has to renew it" in sentence


def test_a_server_by_a_name_that_its_certificate_does_not_have(shared_pki: Path) -> None:
    with serving(server_of(shared_pki)) as port:
        assert status(port, client_of(shared_pki), "127.0.0.1") == grpc.StatusCode.UNAVAILABLE
        sentence = why(port, client_of(shared_pki), "127.0.0.1")
    assert sentence == (
        f"the certificate of 127.0.0.1:{port} is not for 127.0.0.1; it is for localhost: "
        "connect by a name that it is for"
    )


def test_nothing_listens(shared_pki: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
    assert why(port, client_of(shared_pki)) == (
        f"nothing listens at localhost:{port} (is the server running, and is the port right?)"
    )


@pytest.mark.parametrize("host", ["nowhere.invalid", "a..b", "x" * 70])
def test_no_such_machine(shared_pki: Path, host: str) -> None:
    assert why(1, client_of(shared_pki), host).startswith(f"there is no machine called {host}")


def test_a_server_without_tls(shared_pki: Path) -> None:
    with serving(None) as port:
        assert f"localhost:{port} does not use TLS: it is no smofi server" in why(port, client_of(shared_pki))


# -------------------------------------------------------------------------------------------- files that cannot be used


def unusable(folder: Path, kind: str = "client") -> str:
    with pytest.raises(InputError) as refused:
        Identity.load(folder, kind)
    return str(refused.value)


@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
def test_a_file_that_is_missing_damaged_or_no_file(pki: Path, name: str) -> None:
    path = pki / "hospital-a" / name
    content = path.read_bytes()
    for damaged in (b"", b"nonsense", content[: len(content) // 2], content.replace(b"M", b"!", 3)):
        path.write_bytes(damaged)
        assert f"{path} is damaged or is no " in unusable(path.parent)
    path.unlink()
    assert f"{path} does not exist: expected a " in unusable(path.parent)
    path.mkdir()
    assert f"{path} is a folder: expected a " in unusable(path.parent)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read(pki: Path, mode: int) -> None:
    path = pki / "hospital-a/key.pem"
    path.chmod(mode)
    assert unusable(path.parent).endswith(f"(mode {mode:04o}): write chmod 600 {path}")


def test_a_key_with_a_password(pki: Path) -> None:
    path = pki / "hospital-a/key.pem"
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    assert "key.pem is protected by a password: expected a private key without one" in unusable(path.parent)


def test_own_certificates_with_one_in_between(tmp_path: Path) -> None:
    root = own_certificate("Root", ca=True)
    between = own_certificate("Between", root, ca=True)
    cert, key = own_certificate("hospital-a", between)
    both = cert_pem(cert) + cert_pem(between[0])
    folder = written(tmp_path / "own", cert_pem(root[0]), both, key_pem(key))
    assert Identity.load(folder, "client").name == "hospital-a"
    (folder / "cert.pem").write_bytes(cert_pem(cert))
    assert "cert.pem is not signed by " in unusable(folder)
    (folder / "ca.pem").write_bytes(cert_pem(root[0]) + cert_pem(between[0]))
    assert Identity.load(folder, "client").name == "hospital-a"


def test_files_that_do_not_fit(pki: Path, tmp_path: Path) -> None:
    assert "nowhere does not exist: expected a folder with ca.pem, cert.pem and key.pem" in unusable(pki / "nowhere")
    assert "hospital-a/cert.pem is for a client, not for a server" in unusable(pki / "hospital-a", "server")
    assert "server/cert.pem is for a server, not for a client" in unusable(pki / "server", "client")
    old = sign(pki, tmp_path / "old", "old", "client", now() - timedelta(minutes=5))
    assert "cert.pem expired on " in unusable(old)
    (pki / "hospital-a/key.pem").write_bytes((pki / "hospital-b/key.pem").read_bytes())
    assert "hospital-a/key.pem does not belong to " in unusable(pki / "hospital-a")
    other = make_pki(tmp_path / "other")
    (pki / "hospital-b/ca.pem").write_bytes((other / "ca.pem").read_bytes())
    assert "hospital-b/cert.pem is not signed by " in unusable(pki / "hospital-b")
    root = own_certificate("Root", ca=True)
    for name, names in (("Hospital A", 1), ("hospital-a", 2)):
        cert, key = own_certificate(name, root, names=names)
        folder = written(tmp_path / f"own-{names}", cert_pem(root[0]), cert_pem(cert), key_pem(key))
        assert "cert.pem has the name (CN) " in unusable(folder)
    cert, key = own_certificate("server", root, usage=None)
    folder = written(tmp_path / "hosts", cert_pem(root[0]), cert_pem(cert), key_pem(key))
    assert "cert.pem names no hosts (subjectAltName)" in unusable(folder, "server")
