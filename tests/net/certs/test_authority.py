"""An authority makes, issues, renews and revokes; it overwrites nothing, and keys are secret from the first moment."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from smofi.errors import InputError
from smofi.net.certs import Identity, init, issue, issued_in, revoke
from smofi.net.certs.making import now
from support.certificates import make_pki


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    return make_pki(tmp_path / "pki", "hospital-a")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def cert_in(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def revoked_serials(path: Path) -> set[int]:
    return {one.serial_number for one in x509.load_pem_x509_crl(path.read_bytes())}


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


def test_folders_have_all_that_a_machine_needs(pki: Path) -> None:
    assert {path.name for path in (pki / "server").iterdir()} == {"ca.pem", "cert.pem", "key.pem", "crl.pem"}
    assert {path.name for path in (pki / "hospital-a").iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
    assert (pki / "server/ca.pem").read_bytes() == (pki / "ca.pem").read_bytes()


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


@pytest.mark.parametrize(
    "name", ["../x", "/x", ".x", "-x", "", "a/b", "a b", "a\n", "x" * 65, "ü", "a\0b", "..", None, 3]
)
def test_names_that_could_do_harm_are_refused(pki: Path, name: str) -> None:
    before = contents(pki.parent)
    for refused in (lambda: issue(pki, client=name), lambda: issue(pki, server=["a.b"], name=name)):
        if name is not None:
            with pytest.raises(InputError, match="is not accepted: expected at most 64 letters"):
                refused()
    with pytest.raises(InputError, match="is not accepted: expected at most 64 letters"):
        revoke(pki, name)
    assert contents(pki.parent) == before


@pytest.mark.parametrize("name", ["ca.pem", "CRL.pem", "issued", "ca-key.pem", "server"])
def test_names_that_the_folder_needs_are_refused(pki: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"client='{name}' is not accepted: "):
        issue(pki, client=name)


@pytest.mark.parametrize(
    "host", ["a.b:7443", "https://a.b", "*.a.b", "10.0.0.500", "a..b", "-a.b", "a b", "", "[::1]", "ü.de", "a" * 64]
)
def test_hosts_that_no_client_could_call_are_refused(pki: Path, host: str) -> None:
    with pytest.raises(InputError, match="is not accepted: expected a host name such as "):
        issue(pki, server=["good.example.org", host], name="other")
    assert not (pki / "other").exists()


def test_a_server_or_a_client(pki: Path) -> None:
    with pytest.raises(InputError, match="for a server or for a client: give one of the two"):
        issue(pki)
    with pytest.raises(InputError, match="for a server or for a client: give one of the two"):
        issue(pki, server="a.b", client="a")
    with pytest.raises(InputError, match="expected a host name or an IP address, or several"):
        issue(pki, server=[])
    with pytest.raises(InputError, match="a client's folder has the client's name"):
        issue(pki, client="a", name="b")


def test_what_was_issued_is_not_overwritten(pki: Path) -> None:
    before = contents(pki)
    with pytest.raises(InputError, match=r"hospital-a has a certificate already, valid, until .*: write --renew"):
        issue(pki, client="hospital-a")
    with pytest.raises(InputError, match="hospital-a is the name of a client already"):
        issue(pki, server="a.b", name="hospital-a", renew=True)
    with pytest.raises(InputError, match="hospital-a is the name of a client already: choose another than Hospital-A"):
        issue(pki, client="Hospital-A")  # the same folder on some machines
    with pytest.raises(InputError, match="hospital-b has no certificate that could be renewed"):
        issue(pki, client="hospital-b", renew=True)
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


def test_a_folder_that_was_moved_away_can_be_renewed(pki: Path, tmp_path: Path) -> None:
    os.rename(pki / "hospital-a", tmp_path / "moved")
    with pytest.raises(InputError, match="hospital-a has a certificate already"):
        issue(pki, client="hospital-a")
    issue(pki, client="hospital-a", renew=True)
    assert Identity.load(pki / "hospital-a", "client").name == "hospital-a"


def test_revoking_counts_for_all_certificates_of_a_name_and_reaches_every_server(pki: Path) -> None:
    issue(pki, server="b.example.org", name="second")
    first = cert_in(pki / "hospital-a").serial_number
    issue(pki, client="hospital-a", renew=True)
    issue(pki, client="hospital-b")
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


def test_a_new_server_knows_what_was_revoked_before(pki: Path) -> None:
    revoke(pki, "hospital-a")
    issue(pki, server="b.example.org", name="second")
    assert revoked_serials(pki / "second/crl.pem") == {cert_in(pki / "hospital-a").serial_number}


def test_revoking_whoever_was_never_there(pki: Path) -> None:
    with pytest.raises(InputError, match=r"issued no certificate to 'hospital-b' \(did you mean 'hospital-a'\?\)"):
        revoke(pki, "hospital-b")


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


def test_a_certificate_does_not_outlive_its_authority(tmp_path: Path) -> None:
    init(tmp_path, days=10)
    with pytest.raises(InputError, match=r"days=11 is not accepted: expected at most (9|10), since the certificate a"):
        issue(tmp_path, client="a", days=11)
    issued = issue(tmp_path, client="a")
    assert issued.until - now() <= timedelta(days=10)
    for days in (0, -1, 36501, "1", 1.5):
        with pytest.raises(InputError, match=f"days={days!r} is not accepted: expected a whole number"):
            issue(tmp_path, client="b", days=days)  # type: ignore[arg-type]


def test_an_authority_that_was_killed_while_it_was_made_is_not_taken_for_one(pki: Path) -> None:
    (pki / "ca.pem").unlink()
    with pytest.raises(InputError, match="expected a new or an empty folder"):
        init(pki)
    assert (pki / "ca-key.pem").exists()


def test_what_cannot_be_written_leaves_nothing_behind(
    pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    before = contents(pki) | {".lock": b""}
    monkeypatch.setattr(os, "fsync", full)
    for refused in (
        lambda: init(tmp_path / "new"),
        lambda: issue(pki, client="hospital-b"),
        lambda: issue(pki, client="hospital-a", renew=True),
        lambda: revoke(pki, "hospital-a"),
    ):
        with pytest.raises(OSError, match="No space left"):
            refused()
    assert contents(pki) == before
    assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_without_an_authority(tmp_path: Path) -> None:
    for refused in (lambda: issue(tmp_path, client="a"), lambda: revoke(tmp_path, "a"), lambda: issued_in(tmp_path)):
        with pytest.raises(InputError, match=r"has no certificate authority; smofi certs init .* makes one"):
            refused()
    assert list(tmp_path.iterdir()) == []


def test_a_key_of_another_authority_does_not_sign(pki: Path, tmp_path: Path) -> None:
    other = make_pki(tmp_path / "other")
    (pki / "ca-key.pem").write_bytes((other / "ca-key.pem").read_bytes())
    with pytest.raises(InputError, match=r"ca-key\.pem does not belong to"):
        issue(pki, client="b")


def test_several_that_revoke_at_the_same_time_lose_nothing(pki: Path) -> None:
    names = [f"client-{number}" for number in range(8)]
    for name in names:
        issue(pki, client=name)
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: revoke(pki, name), names))
    assert revoked_serials(pki / "crl.pem") == {cert_in(pki / name).serial_number for name in names}
    assert revoked_serials(pki / "server/crl.pem") == revoked_serials(pki / "crl.pem")
