"""What would fail when connecting is refused when the files are read, in a sentence."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from smofi.errors import InputError
from smofi.net.certs import Identity
from smofi.net.certs.files import write_new
from smofi.net.certs.making import cert_pem, key_pem, now
from smofi.net.certs.reading import read_key
from support.certificates import make_pki, own_certificate, sign


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return make_pki(tmp_path / "pki", "hospital-a", "hospital-b")


def test_the_files_of_a_server_and_a_client(pki: Path) -> None:
    server, client = Identity.load(pki / "server", "server"), Identity.load(str(pki / "hospital-a"), "client")
    assert (server.kind, server.name, server.hosts) == ("server", "server", ("localhost",))
    assert (client.kind, client.name, client.hosts) == ("client", "hospital-a", ())
    assert client.key == (pki / "hospital-a/key.pem").read_bytes()
    assert "PRIVATE KEY" not in repr(client)


def refusal(folder: Path, kind: str = "client") -> str:
    with pytest.raises(InputError) as refused:
        Identity.load(folder, kind)
    return str(refused.value)


@pytest.mark.parametrize("name", ["ca.pem", "cert.pem", "key.pem"])
def test_a_file_that_is_missing_damaged_or_no_file(pki: Path, name: str) -> None:
    path = pki / "hospital-a" / name
    content = path.read_bytes()
    for damaged in (b"", b"nonsense", content[: len(content) // 2], content.replace(b"M", b"!", 3)):
        path.write_bytes(damaged)
        assert f"{path} is damaged or is no " in refusal(path.parent)
    path.unlink()
    assert f"{path} does not exist: expected a " in refusal(path.parent)
    path.mkdir()
    assert f"{path} is a folder: expected a " in refusal(path.parent)


def test_no_folder(pki: Path) -> None:
    assert "nowhere does not exist: expected a folder with ca.pem, cert.pem and key.pem" in refusal(pki / "nowhere")
    assert "ca.pem is not a folder" in refusal(pki / "ca.pem")
    with pytest.raises(InputError, match="kind='sever' is not accepted"):
        Identity.load(pki / "server", "sever")


def test_a_key_that_belongs_to_another_certificate(pki: Path) -> None:
    (pki / "hospital-a/key.pem").write_bytes((pki / "hospital-b/key.pem").read_bytes())
    assert "hospital-a/key.pem does not belong to " in refusal(pki / "hospital-a")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read(pki: Path, mode: int) -> None:
    path = pki / "hospital-a/key.pem"
    path.chmod(mode)
    assert refusal(path.parent).endswith(f"(mode {mode:04o}): write chmod 600 {path}")


def test_a_key_of_root_may_be_given_to_a_group(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pki / "hospital-a/key.pem"
    if path.stat().st_uid != 0:
        pytest.skip("only root can give its files to a group of another user")
    path.chmod(0o640)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # it is read as by a service
    assert Identity.load(path.parent, "client").name == "hospital-a"
    path.chmod(0o644)
    assert "(mode 0644)" in refusal(path.parent)


def test_a_key_with_a_password(pki: Path) -> None:
    path = pki / "hospital-a/key.pem"
    _, key = read_key(path)
    secret = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret))
    assert "key.pem is protected by a password: expected a private key without one" in refusal(path.parent)


def test_a_certificate_out_of_its_time(pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = sign(pki, tmp_path / "old", "old", "client", now() - timedelta(minutes=5))
    assert "cert.pem expired on " in refusal(folder)
    moment = now() - timedelta(days=2)
    monkeypatch.setattr("smofi.net.certs.chain.now", lambda: moment)
    assert "cert.pem is not valid before " in refusal(pki / "hospital-a")


def test_a_certificate_of_another_authority(pki: Path, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other")
    (pki / "hospital-a/ca.pem").write_bytes((other / "ca.pem").read_bytes())
    assert "hospital-a/cert.pem is not signed by " in refusal(pki / "hospital-a")


def test_a_certificate_for_something_else(pki: Path) -> None:
    assert "hospital-a/cert.pem is for a client, not for a server" in refusal(pki / "hospital-a", "server")
    assert "server/cert.pem is for a server, not for a client" in refusal(pki / "server", "client")


def written(folder: Path, ca: bytes, cert: bytes, key: bytes) -> Path:
    folder.mkdir()
    for name, content in (("ca.pem", ca), ("cert.pem", cert), ("key.pem", key)):
        write_new(folder / name, content)
    return folder


def test_own_certificates_with_one_in_between(tmp_path: Path) -> None:
    root = own_certificate("Root", ca=True)
    between = own_certificate("Between", root, ca=True)
    cert, key = own_certificate("hospital-a", between)
    both = cert_pem(cert) + cert_pem(between[0])
    folder = written(tmp_path / "own", cert_pem(root[0]), both, key_pem(key))
    assert Identity.load(folder, "client").name == "hospital-a"
    (folder / "cert.pem").write_bytes(cert_pem(cert))
    assert "cert.pem is not signed by " in refusal(folder)
    (folder / "ca.pem").write_bytes(cert_pem(root[0]) + cert_pem(between[0]))
    assert Identity.load(folder, "client").name == "hospital-a"


@pytest.mark.parametrize(("name", "names"), [("Hospital A", 1), ("hospital-a", 2)])
def test_own_certificates_whose_name_no_server_accepts(tmp_path: Path, name: str, names: int) -> None:
    root = own_certificate("Root", ca=True)
    cert, key = own_certificate(name, root, names=names)
    folder = written(tmp_path / "own", cert_pem(root[0]), cert_pem(cert), key_pem(key))
    assert "cert.pem has the name (CN) " in refusal(folder)


def test_own_certificates_of_a_server_without_hosts(tmp_path: Path) -> None:
    root = own_certificate("Root", ca=True)
    cert, key = own_certificate("server", root, usage=None)
    folder = written(tmp_path / "own", cert_pem(root[0]), cert_pem(cert), key_pem(key))
    assert "cert.pem names no hosts (subjectAltName)" in refusal(folder, "server")
    assert isinstance(cert, x509.Certificate)
