from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from smofi.data import cache
from smofi.data.cache import cached, data_home, fingerprint, with_moments
from smofi.data.decoded import Decoded, Split
from smofi.errors import CacheWarning
from support.pets import pets, same


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


def once(calls: list[int], seed: int = 0) -> Decoded:
    calls.append(seed)
    return pets(seed)


def test_decoded_once_then_mapped(home: Path) -> None:
    calls: list[int] = []
    first = cached("pets", "/a", "1", lambda: once(calls))
    again = cached("pets", "/a", "1", lambda: once(calls))
    assert calls == [0]
    assert same(first, pets())
    assert same(again, pets())
    assert isinstance(again.train.inputs, np.memmap)
    assert again.about == first.about
    assert len(list((home / "decoded").iterdir())) == 1


def test_another_version_replaces_the_one_before(home: Path) -> None:
    calls: list[int] = []
    for version in ("1", "2", "2", "1"):
        found = cached("pets", "/a", version, lambda: once(calls, len(calls)))
        assert same(found, pets(calls[-1]))
    assert calls == [0, 1, 2]
    cached("pets", "/b", "1", lambda: once(calls, 9))  # from another folder: both stay
    assert len(list((home / "decoded").iterdir())) == 2


@pytest.mark.parametrize("harm", ["about", "cut", "gone", "empty", "a file", "other"])
def test_a_damaged_cache_is_made_anew(home: Path, harm: str) -> None:
    calls: list[int] = []
    cached("pets", "/a", "1", lambda: once(calls))
    (place,) = (home / "decoded").iterdir()
    inputs = place / "train.inputs.npy"
    if harm == "about":
        (place / "about.json").write_text("{")
    elif harm == "cut":
        inputs.write_bytes(inputs.read_bytes()[:-7])
    elif harm == "gone":
        inputs.unlink()
    elif harm == "empty":
        shutil.rmtree(place)
        place.mkdir()
    elif harm == "a file":
        shutil.rmtree(place)
        place.write_text("not a folder")
    else:
        np.save(inputs, np.zeros(3))
    file = inputs.name if harm in ("cut", "gone", "other") else "about.json"
    with pytest.warns(CacheWarning, match=rf"{place} is damaged \({file}: .*\): /a is decoded anew"):
        assert same(cached("pets", "/a", "1", lambda: once(calls)), pets())
    assert calls == [0, 0]


def test_where_nobody_may_write_nothing_is_lost(home: Path) -> None:
    home.write_text("a file, not a folder")
    calls: list[int] = []
    assert same(cached("pets", "/a", "1", lambda: once(calls)), pets())


def test_a_reader_that_fails_leaves_nothing(home: Path) -> None:
    with pytest.raises(ValueError, match="damaged"):
        cached("pets", "/a", "1", lambda: (_ for _ in ()).throw(ValueError("damaged")))
    assert not home.exists()


def test_mean_and_deviation() -> None:
    plain = pets()
    about = with_moments(plain).about
    pixels = plain.train.inputs.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(about["mean"], pixels.mean(0), rtol=1e-12)
    np.testing.assert_allclose(about["deviation"], pixels.std(0), rtol=1e-12)
    constant = Split(np.ones((3, 2), np.float32), np.zeros(3, np.int64))
    assert with_moments(Decoded("vector", constant, constant, ("a",))).about["deviation"] == [1.0, 1.0]
    assert "mean" not in with_moments(Decoded("vector", constant, constant, ("a",), standardise=False)).about


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"1")
    os.utime(file, ns=(1, 1))
    before = fingerprint([file])
    assert fingerprint([file]) == before
    os.utime(file, ns=(1, 2))
    assert fingerprint([file]) != before
    file.write_bytes(b"12")
    os.utime(file, ns=(1, 1))
    assert fingerprint([file]) != before


def test_the_home_of_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SMOFI_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_home() == tmp_path / "smofi"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "someone"))
    assert data_home() == tmp_path / "someone/.cache/smofi"
    assert cache.find("pets", "/a", "1") is None
