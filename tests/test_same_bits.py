"""The program that compares runs to the bit: it finds them equal twice, and notices a hash that is another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import same_bits

CASE = "cut/own/smofi"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bits") / "before.json"
    assert same_bits.main(["record", str(file), "--only", f"{CASE}*"]) == 0
    assert set(json.loads(file.read_text())) == {CASE, f"{CASE}/vmap", f"{CASE}/adam"}
    return file


def test_the_same_program_has_the_same_bits(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert same_bits.main(["compare", str(recorded), "--only", CASE]) == 0
    assert capsys.readouterr().out == "3 cases compared, 0 differ\n"


def test_a_case_that_differs_is_named(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hashes = json.loads(recorded.read_text())
    hashes[CASE]["weights"] = "0" * 64
    hashes["gone"] = hashes.pop(f"{CASE}/adam")
    (altered := tmp_path / "altered.json").write_text(json.dumps(hashes))
    assert same_bits.main(["compare", str(altered), "--only", CASE]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told == [f"{CASE}: weights differ", f"{CASE}/adam: not in the file", "3 cases compared, 2 differ"]


def test_names_are_given_once() -> None:
    names = [case for job in same_bits.jobs("") for case in job.cases]
    assert len(names) == len(set(names))


def test_every_field_of_a_record_but_the_seconds_is_hashed() -> None:
    usual = dict.fromkeys(same_bits.FIELDS, 0)
    before = same_bits.hash_of_history([usual])
    assert all(same_bits.hash_of_history([{**usual, name: 0.5}]) != before for name in same_bits.FIELDS)
    assert same_bits.hash_of_history([{**usual, "seconds": 0.5}]) == before
