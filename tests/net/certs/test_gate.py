"""Who comes in: by name and by both lists, which are read again when they change."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from smofi.errors import InputError
from smofi.net.certs import Gate, Identity, Refused, issue, revoke
from smofi.net.certs.making import Authority, cert_pem, make_revocation_list, now
from smofi.net.transport.gate import Refused as Turned
from smofi.serving.admission import Admission
from support.certificates import make_pki, own_certificate, sign


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return make_pki(tmp_path / "pki", "hospital-a", "hospital-b")


def pem(pki: Path, name: str) -> bytes:
    return (pki / name / "cert.pem").read_bytes()


def gate_of(pki: Path, allowed: Path | None = None, warnings: list[str] | None = None) -> Gate:
    said = [] if warnings is None else warnings
    return Gate.of(Identity.load(pki / "server", "server"), allowed=allowed, warn=said.append)


def refusal(gate: Gate, pem: bytes) -> str:
    with pytest.raises(Refused) as refused:
        gate.admit(pem)
    return str(refused.value)


def age(path: Path) -> None:
    """As if the file had been written an hour ago."""
    long_ago = path.stat().st_mtime - 3600
    os.utime(path, (long_ago, long_ago))


def test_without_lists_every_client_of_the_authority_comes_in(pki: Path) -> None:
    gate = Gate((pki / "ca.pem").read_bytes())
    assert gate.admit(pem(pki, "hospital-a")) == "hospital-a"
    assert gate.admit(pem(pki, "hospital-b").decode()) == "hospital-b"


def test_the_allow_list_is_read_again_when_it_changes(pki: Path, tmp_path: Path) -> None:
    allowed, warnings = tmp_path / "allowed.txt", list[str]()
    allowed.write_text("# who takes part\nhospital-a   # since May\n\n")
    gate = gate_of(pki, allowed, warnings)
    assert gate.admit(pem(pki, "hospital-a")) == "hospital-a"
    assert refusal(gate, pem(pki, "hospital-b")) == (
        "hospital-b is not on the server's list of clients; ask the server's operator"
    )
    allowed.write_text("hospital-b\n")
    assert gate.admit(pem(pki, "hospital-b")) == "hospital-b"
    assert not gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    # of the same length, at the same moment
    status = allowed.stat()
    allowed.write_text("hospital-a\n")
    os.utime(allowed, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert gate.still_allowed("hospital-a", pem(pki, "hospital-a"))
    assert warnings == []


def test_a_file_that_does_not_change_is_not_read(pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = tmp_path / "allowed.txt"
    allowed.write_text("hospital-a\n")
    age(allowed)
    age(pki / "server/crl.pem")
    gate = gate_of(pki, allowed)
    reads: list[Path] = []
    monkeypatch.setattr("smofi.net.certs.watched.read_regular", lambda path, *more: reads.append(path))
    for _ in range(3):
        gate.admit(pem(pki, "hospital-a"))
    assert reads == []


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


def test_an_allow_list_that_is_not_there(pki: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"allowed\.txt does not exist"):
        gate_of(pki, tmp_path / "allowed.txt")


def test_revoking_counts_at_once_and_for_that_certificate_only(pki: Path) -> None:
    gate, old = gate_of(pki), pem(pki, "hospital-a")
    assert gate.still_allowed("hospital-a", old)
    revoke(pki, "hospital-a")
    assert not gate.still_allowed("hospital-a", old)
    assert refusal(gate, old).startswith("the certificate of hospital-a was revoked on ")
    with pytest.raises(Turned) as turned:
        Admission(gate).name_of(old)
    assert turned.value.name == "hospital-a"
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


def test_own_authorities_have_a_revocation_list_each(tmp_path: Path) -> None:
    """And a list counts for the certificates of its own authority alone, though numbers may be the same."""
    root = own_certificate("Root", ca=True)
    between = own_certificate("Between", root, ca=True)
    clients = [own_certificate(name, between)[0] for name in ("hospital-a", "hospital-b")]
    mine, other = clients[0].serial_number, clients[1].serial_number
    path = tmp_path / "crl.pem"
    path.write_bytes(
        make_revocation_list(Authority(*root), [(other, now())])
        + make_revocation_list(Authority(*between), [(mine, now())])
    )
    gate = Gate(cert_pem(root[0]) + cert_pem(between[0]), revoked=path)
    assert refusal(gate, cert_pem(clients[0])).startswith("the certificate of hospital-a was revoked on ")
    assert gate.admit(cert_pem(clients[1])) == "hospital-b"
    with pytest.raises(InputError, match="is not signed by this certificate authority"):
        Gate(cert_pem(root[0]), revoked=path)


def test_a_client_does_not_become_another(pki: Path) -> None:
    assert not gate_of(pki).still_allowed("hospital-a", pem(pki, "hospital-b"))


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


def test_a_certificate_that_expires_while_connected(pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, soon = gate_of(pki), now() + timedelta(minutes=1)
    folder = sign(pki, tmp_path / "short", "short", "client", soon)
    assert gate.still_allowed("short", pem(tmp_path, "short"))
    monkeypatch.setattr("smofi.net.certs.chain.now", lambda: soon + timedelta(seconds=1))
    assert refusal(gate, (folder / "cert.pem").read_bytes()).startswith("the certificate of short expired on ")
