"""Large files are read once, and again only when they may have changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from smofi.data import cache as checks
from smofi.data.cache import CHECKED, Arrays, Damaged, read_arrays, write_arrays
from smofi.files import sealed, unsealed
from support.pets import flip, keeping_its_time

OF = "me"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a large file and a small one, made an hour ago by the clock of this process."""
    monkeypatch.setattr(checks, "SMALL", 4000)
    write_arrays(tmp_path / "place", OF, {"large": np.arange(1000), "small": np.arange(10)}, {})
    let_pass(3600, monkeypatch)
    return tmp_path / "place"


def let_pass(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + int(seconds * 1e9))


def read(place: Path) -> set[str]:
    """Which of the arrays were read whole to be compared; what was found is right."""
    found = read_arrays(place, OF, lambda found: found)
    assert found is not None
    assert np.array_equal(found.arrays["large"], np.arange(1000))
    assert np.array_equal(found.arrays["small"], np.arange(10))
    return set(found.read)


def test_a_large_file_is_read_once(place: Path) -> None:
    assert [read(place) for _ in range(3)] == [{"large", "small"}, {"small"}, {"small"}]


def test_it_is_read_again_after_a_week(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(place)
    let_pass(6.9 * 24 * 3600, monkeypatch)
    assert read(place) == {"small"}
    let_pass(0.2 * 24 * 3600, monkeypatch)
    assert [read(place), read(place)] == [{"large", "small"}, {"small"}]


def test_a_clock_that_was_set_back_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(place)
    let_pass(-1000, monkeypatch)
    assert read(place) == {"large", "small"}


@pytest.mark.parametrize("name", ["large", "small"])
def test_a_change_is_noticed_though_the_time_was_set_back(name: str, place: Path) -> None:
    read(place)
    keeping_its_time(place / f"{name}.npy", flip(-1))
    with pytest.raises(Damaged, match=rf"{name}\.npy: its checksum is another"):
        read(place)


def test_a_file_in_the_place_of_another(place: Path, tmp_path: Path) -> None:
    read(place)
    write_arrays(tmp_path / "other", OF, {"large": np.arange(1000)[::-1], "small": np.arange(10)}, {})
    os.utime(tmp_path / "other" / "large.npy", ns=(0, (place / "large.npy").stat().st_mtime_ns))
    os.replace(tmp_path / "other" / "large.npy", place / "large.npy")
    with pytest.raises(Damaged, match=r"large\.npy"):
        read(place)


def test_a_file_that_was_only_touched_is_read_and_trusted_again(place: Path) -> None:
    read(place)
    os.utime(place / "large.npy")
    assert [read(place), read(place)] == [{"large", "small"}, {"small"}]


def test_one_that_changed_just_now_may_change_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "SMALL", 4000)
    write_arrays(tmp_path / "place", OF, {"large": np.arange(1000), "small": np.arange(10)}, {})
    assert [read(tmp_path / "place") for _ in range(2)] == [{"large", "small"}] * 2
    assert not (tmp_path / "place" / CHECKED).exists()


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "a folder", "another", "odd", "list", "words"])
def test_a_damaged_note_trusts_nothing(harm: str, place: Path) -> None:
    read(place)
    note = place / CHECKED
    kept = unsealed(note.read_bytes())
    match harm:
        case "flip":
            note.write_bytes(flip(600)(note.read_bytes()))
        case "cut":
            note.write_bytes(note.read_bytes()[:70])
        case "another":
            note.write_bytes(sealed({**kept, "of": "0" * 64}))
        case "odd":
            note.write_bytes(sealed({**kept, "found": {"large": [0]}}))
        case "list":
            note.write_bytes(sealed({**kept, "found": ["large"]}))
        case "words":
            note.write_bytes(sealed({**kept, "found": {"large": ["now"]}}))
        case _:
            note.unlink()
            if harm == "a folder":
                note.mkdir()
    assert read(place) == {"large", "small"}
    assert read(place) == ({"large", "small"} if harm == "a folder" else {"small"})


def test_nothing_is_noted_of_what_cannot_be_right(place: Path) -> None:
    def wrong(found: Arrays) -> None:
        raise ValueError("no reader makes this")

    for _ in range(2):
        with pytest.raises(Damaged, match="no reader makes this"):
            read_arrays(place, OF, wrong)
    assert read(place) == {"large", "small"}
