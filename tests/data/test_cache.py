"""The cache: decoded once, never half a file, nothing damaged believed, whoever makes and reads it at the same time."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smofi.cli import main
from smofi.config import Config
from smofi.config.federation import gather
from smofi.data import cache, load, samples
from smofi.data.cache import Arrays, Damaged, cached, check_promises, data_home, place_of, read_arrays, write_arrays
from smofi.data.decoded import Decoded, Split, with_moments
from smofi.data.loading import FROM_HUB
from smofi.data.samples import resize
from smofi.engine.cohort.measurements import StepTimes, measured_before
from smofi.errors import CacheWarning, InputError
from smofi.files import sealed, unsealed
from support.pets import flip, keeping_its_time, pets, same

forking = multiprocessing.get_context("fork")
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def not_again() -> Decoded:
    pytest.fail("it was decoded before")


def files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "decoded").iterdir())


# ------------------------------------------------------------------------------------------------------------ data sets


def test_decoded_once_then_mapped_until_there_is_another_version(home: Path) -> None:
    for version, seed in (("1", 0), ("2", 1), ("1", 2)):
        assert same(cached("pets", "/a", version, lambda seed=seed: pets(seed)), pets(seed))
        again = cached("pets", "/a", version, not_again)
        assert same(again, pets(seed))
        assert isinstance(again.train.inputs, np.memmap)
        assert again.about == with_moments(pets(seed)).about
    cached("pets", "/b", "1", pets)  # from another folder: both stay
    assert len(files(home)) == 2


def test_where_nobody_may_write_nothing_is_lost_and_a_reader_that_fails_leaves_nothing(home: Path) -> None:
    with pytest.raises(ValueError, match="damaged"):
        cached("pets", "/a", "1", lambda: (_ for _ in ()).throw(ValueError("damaged")))
    assert not home.exists()
    home.write_text("a file, not a folder")
    assert same(cached("pets", "/a", "1", pets), pets())


def test_the_home_of_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SMOFI_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_home() == tmp_path / "smofi"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "someone"))
    assert data_home() == tmp_path / "someone/.cache/smofi"


def test_mean_and_deviation() -> None:
    about = with_moments(pets()).about
    pixels = pets().train.inputs.reshape(-1, 3).astype(np.float64)
    np.testing.assert_allclose(about["mean"], pixels.mean(0), rtol=1e-12)
    np.testing.assert_allclose(about["deviation"], pixels.std(0), rtol=1e-12)
    constant = Split(np.ones((3, 2), np.float32), np.zeros(3, np.int64))
    assert with_moments(Decoded("vector", constant, constant, ("a",))).about["deviation"] == [1.0, 1.0]
    assert "mean" not in with_moments(Decoded("vector", constant, constant, ("a",), standardise=False)).about


# --------------------------------------------------------------------------------------------------------------- damage


def damage_found() -> str:
    """What is found to be wrong with the data."""
    with pytest.raises(Damaged) as found:
        cache.find("pets", "/a", "1")
    return str(found.value)


def cut(size: int, content: bytes) -> bytes:
    return content[:size]


def test_no_byte_that_changed_is_used_and_a_sentence_says_so(home: Path) -> None:
    cached("pets", "/a", "1", pets)
    place, draw = place_of("pets", "/a", "1"), random.Random(0)
    content = place.read_bytes()
    harms: list[Callable[[bytes], bytes]] = [flip(draw.randrange(8 * len(content))) for _ in range(100)]
    harms += [partial(cut, draw.randrange(len(content))) for _ in range(20)]
    harms += [lambda found: found + b"\0", lambda found: bytes(len(found)), lambda found: b"", flip(-1), flip(0)]
    for harm in harms:
        keeping_its_time(place, harm)
        damage_found()
        place.write_bytes(content)
    assert cache.find("pets", "/a", "1") is not None
    keeping_its_time(place, flip(0))
    with pytest.warns(CacheWarning, match=rf"{place} is damaged \(its checksum is another\): /a is decoded anew"):
        assert same(cached("pets", "/a", "1", pets), pets())
    assert same(cached("pets", "/a", "1", not_again), pets())


def test_what_belongs_to_something_else_or_is_no_file_is_not_read(home: Path) -> None:
    cached("pets", "/a", "1", pets)
    cached("pets", "/b", "1", lambda: pets(1))
    place = place_of("pets", "/a", "1")
    shutil.copy(place_of("pets", "/b", "1"), place)
    assert damage_found() == "it belongs to something else"
    place.unlink()
    os.mkfifo(place)
    assert damage_found() == "it is not a file"


@pytest.mark.parametrize("end", [[], None, {}, {"of": "me"}, {"of": "me", "sha256": "", "arrays": [], "about": {}}])
def test_whatever_is_sealed_at_the_end_of_a_file(end: Any, tmp_path: Path) -> None:
    said = sealed(end)
    (tmp_path / "file").write_bytes(said + len(said).to_bytes(8, "little"))
    with pytest.raises(Damaged):
        read_arrays(tmp_path / "file", "me", lambda found: found)


@pytest.mark.parametrize("facts", [["|O", [2], 0], [3, [2], 0], ["<i8", [-2], 0], ["<i8", [1 << 70], 0], ["<i8", 2], 1])
def test_facts_of_an_array_that_cannot_be(facts: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_arrays(path, "me", {"x": np.arange(2)}, {})
    content = path.read_bytes()
    end = len(content) - 8 - int.from_bytes(content[-8:], "little")
    said = sealed({**unsealed(content[end:-8]), "arrays": {"x": facts}})
    path.write_bytes(content[:end] + said + len(said).to_bytes(8, "little"))
    with pytest.raises(Damaged):
        read_arrays(path, "me", lambda found: found)


def changed(**arrays: Any) -> Decoded:
    made = with_moments(pets())
    return replace(made, train=replace(made.train, **arrays))


def vectors(value: float) -> Decoded:
    split = Split(np.full((3, 2), value, np.float32), np.zeros(3, np.int64))
    return Decoded("vector", split, split, ("a",), standardise=False)


def text(letter: int = 0, row: int = 2, length: int = 4) -> Decoded:
    split = Split(np.full(9, letter, np.uint8), np.zeros(2, np.int64), rows=np.array([0, row]))
    return Decoded("text", split, split, ("a", "b"), standardise=False, length=length)


@pytest.mark.parametrize(
    ("made", "clause"),
    [
        (changed(targets=np.full(20, 10**12)), "train.targets are not 20 numbers of type int64 from 0 to 1"),
        (changed(targets=np.zeros(20, np.int32)), "train.targets are not"),
        (changed(targets=np.zeros(19, np.int64)), "train.inputs has shape"),
        (changed(owner=np.full(20, 2, np.int32)), "train.owner are not 20 numbers of type int32 from 0 to 1"),
        (changed(inputs=np.zeros((20, 4, 4, 3), np.int64)), "train.inputs has shape .20, 4, 4, 3. and type int64"),
        (changed(inputs=np.zeros((20, 4, 5, 3), np.uint8)), "test.inputs is unlike train.inputs"),
        (vectors(np.nan), "train.inputs has numbers that are not finite"),
        (text(letter=2), "train.inputs has characters that do not exist"),
        (text(row=5), "train.rows are not 2 numbers of type int64 from 0 to 4"),
        (pets(), "mean and deviation are missing"),
        (replace(pets(), about={"mean": [1.0] * 3, "deviation": [np.inf] * 3}), "mean and deviation are not 3 finite"),
        (replace(pets(), about={"mean": [1.0] * 3, "deviation": [1.0, 0.0, 1.0]}), "deviation is not positive"),
    ],
)
def test_what_no_reader_makes_is_not_taken_from_a_file_that_is_whole(made: Decoded, clause: str) -> None:
    with pytest.raises(ValueError, match=f"^{clause}"):
        check_promises(made)
    with pytest.raises(Damaged, match=clause):
        cache.store("pets", "/a", "1", made)
    with pytest.warns(CacheWarning, match=clause):
        assert same(cached("pets", "/a", "1", pets), pets())


def test_what_came_from_the_hub_is_refused_until_it_is_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    made, place = with_moments(pets()), place_of("cifar10", FROM_HUB, FROM_HUB)
    cache.store("cifar10", FROM_HUB, FROM_HUB, made)
    assert load("cifar10").classes == 2
    keeping_its_time(place, flip(0))
    with pytest.raises(InputError, match=r"damaged \(its .*; fetch it again with: smofi data cifar10 --fetch"):
        load("cifar10")
    assert main(["data", "cifar10"]) == 2
    assert "smofi data cifar10 --fetch" in capsys.readouterr().err
    assert place.exists()
    cache.store("cifar10", FROM_HUB, FROM_HUB, made)
    assert load("cifar10").classes == 2


@pytest.mark.parametrize("harm", ["a digit", "other circumstances", "cut", "gone"])
def test_damaged_measurements_are_made_again(harm: str, home: Path) -> None:
    first, second = StepTimes(0.25, 0.5, 0.75), StepTimes(1.0, 2.0, 3.0)
    assert measured_before("a cnn", lambda: first) == first
    assert measured_before("a cnn", lambda: second) == first
    (file,) = (home / "measured").iterdir()
    if harm == "a digit":
        file.write_bytes(file.read_bytes().replace(b"0.25", b"9.25"))
    elif harm == "other circumstances":
        measured_before("a resnet", lambda: second)
        (other,) = set((home / "measured").iterdir()) - {file}
        shutil.copy(other, file)
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:50])
    else:
        file.unlink()
    assert measured_before("a cnn", lambda: second) == second


# ---------------------------------------------------------------------------------- large files, read whole once a week


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as large, made an hour ago by the clock of this process."""
    monkeypatch.setattr(cache, "SMALL", 4000)
    write_arrays(tmp_path / "large", "me", {"x": np.arange(1000), "y": np.arange(10)}, {})
    let_pass(3600, monkeypatch)
    return tmp_path / "large"


def let_pass(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + int(seconds * 1e9))


def read_whole(path: Path) -> bool:
    """Whether all of the file was read; what was found is right."""
    found = read_arrays(path, "me", lambda found: found)
    assert found is not None
    assert np.array_equal(found.arrays["x"], np.arange(1000))
    assert np.array_equal(found.arrays["y"], np.arange(10))
    return found.read


def test_a_large_file_is_read_once_a_week(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [read_whole(large) for _ in range(3)] == [True, False, False]
    let_pass(6.9 * 24 * 3600, monkeypatch)
    assert not read_whole(large)
    let_pass(0.2 * 24 * 3600, monkeypatch)
    assert [read_whole(large), read_whole(large)] == [True, False]
    let_pass(-8 * 24 * 3600, monkeypatch)  # a clock that was set back is not trusted
    assert read_whole(large)


def test_a_change_is_noticed_though_the_time_was_set_back(large: Path, tmp_path: Path) -> None:
    read_whole(large)
    keeping_its_time(large, flip(0))
    with pytest.raises(Damaged, match="its checksum is another"):
        read_whole(large)
    write_arrays(tmp_path / "other", "me", {"x": np.arange(1000)[::-1], "y": np.arange(10)}, {})
    keeping_its_time(tmp_path / "other", flip(0))
    os.utime(tmp_path / "other", ns=(0, large.stat().st_mtime_ns))
    os.replace(tmp_path / "other", large)
    with pytest.raises(Damaged, match="its checksum is another"):
        read_whole(large)


def test_a_file_that_changed_just_now_may_change_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SMALL", 4000)
    write_arrays(tmp_path / "large", "me", {"x": np.arange(1000), "y": np.arange(10)}, {})
    assert [read_whole(tmp_path / "large") for _ in range(2)] == [True, True]
    assert not (tmp_path / "large.checked").exists()


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "a folder", "another", "odd", "words"])
def test_a_damaged_note_trusts_nothing(harm: str, large: Path) -> None:
    read_whole(large)
    note = large.with_name("large.checked")
    of, at, *looks = unsealed(note.read_bytes())
    match harm:
        case "flip":
            note.write_bytes(flip(600)(note.read_bytes()))
        case "cut":
            note.write_bytes(note.read_bytes()[:70])
        case "another":
            note.write_bytes(sealed(["0" * 64, at, *looks]))
        case "odd":
            note.write_bytes(sealed([of]))
        case "words":
            note.write_bytes(sealed([of, "now", *looks]))
        case _:
            note.unlink()
            if harm == "a folder":
                note.mkdir()
    assert [read_whole(large), read_whole(large)] == [True, harm == "a folder"]


def test_nothing_is_noted_of_what_cannot_be_right(large: Path) -> None:
    def wrong(found: Arrays) -> None:
        raise ValueError("no reader makes this")

    for _ in range(2):
        with pytest.raises(Damaged, match="no reader makes this"):
            read_arrays(large, "me", wrong)
    assert read_whole(large)


# ------------------------------------------------------------------------------------------------------- many processes


def test_all_is_on_the_disk_before_the_file_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, move = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        calls.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name[:6])
        fsync(descriptor)

    def watched_move(one: Path, other: Path) -> None:
        calls.append(f"{one.name[:6]} -> {other.name}")
        move(one, other)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_move)
    write_arrays(tmp_path / "place", "me", {"x": np.zeros(3)}, {})
    assert calls == [".place", ".place -> place", tmp_path.name[:6]]


def test_what_a_killed_process_left_is_removed_a_day_later(home: Path) -> None:
    def write() -> None:
        class Endless(dict):  # type: ignore[type-arg]
            def items(self) -> Any:
                yield "x", np.arange(100)
                os.kill(os.getpid(), signal.SIGKILL)

        write_arrays(place_of("pets", "/a", "1"), "me", Endless(), {})

    process = forking.Process(target=write)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = files(home)
    assert left.endswith(".part")
    cached("pets", "/a", "1", pets)  # which may be written still, for all that is known
    assert left in files(home)
    os.utime(home / "decoded" / left, (0, 0))
    cached("pets", "/b", "1", pets)
    assert len(files(home)) == 2
    assert left not in files(home)


def test_processes_that_decode_the_same_data_and_read_while_others_write(home: Path) -> None:
    ready = forking.Barrier(4)

    def work() -> None:
        ready.wait()
        for version in range(8):
            found = cached("pets", "/a", str(version % 4), lambda seed=version % 4: pets(seed))
            assert same(found, pets(version % 4))

    started = [forking.Process(target=work) for _ in range(4)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * 4
    assert files(home) == [place_of("pets", "/a", "3").name]


# -------------------------------------------------------------------------------------------------------------- resized


def owned_images(**more: Any) -> None:
    """Images of 8 x 8 from four sites; each test image is one shade, its number."""
    rng = np.random.default_rng(0)
    shades = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None, None], (40, 8, 8))
    x, site = rng.integers(0, 256, (120, 8, 8), dtype=np.uint8), np.arange(120) % 4
    test = {"x_test": shades, "y_test": np.arange(40) % 2, "site_test": np.arange(40) % 4}
    np.savez("mine.npz", x=x, y=np.arange(120) % 2, site=site, **test, **more)


def config(**changes: Any) -> Config:
    given = {"data": "npz:mine.npz", "model": "cnn", "clients": 4, "method": "smofi", "rounds": 1}
    return Config(**{**given, "batch_size": 8, "participation": 1.0, "local_epochs": 1, **changes})


@pytest.fixture
def resized(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images were resized, in each go."""
    counts: list[int] = []

    def counted(stored: torch.Tensor, rows: torch.Tensor, side: int) -> torch.Tensor:
        counts.append(len(rows))
        return resize(stored, rows, side)

    monkeypatch.setattr(samples, "resize", counted)
    return counts


@pytest.mark.parametrize("settings", [{}, {"partition": "natural", "clients": 2}])
def test_only_what_is_tested_on_is_resized_and_once_in_all(settings: dict[str, Any], resized: list[int]) -> None:
    owned_images()
    plain, small = (gather(config(max_test=3, image_size=side, **settings)) for side in (None, 4))
    assert resized == [120]
    inputs, targets = small.test.tensors()
    assert (resized, tuple(inputs.shape)) == ([120, 3], (3, 1, 4, 4))
    # one shade is the same shade when it is small
    assert torch.equal(inputs, plain.test.tensors()[0][:, :, :4, :4])
    assert torch.equal(targets, plain.test.tensors()[1])
    again = gather(config(max_test=3, image_size=4, **settings))
    assert torch.equal(again.test.tensors()[0], inputs)
    assert torch.equal(again.source.train.tensors()[0], small.source.train.tensors()[0])
    assert resized == [120, 3]


def test_the_hash_of_resized_data_is_that_of_all_of_it_whatever_is_cut_off() -> None:
    owned_images()
    whole = load("npz:mine.npz", image_size=4)
    eager = replace(whole, test=whole.test.to(torch.float32, torch.device("cpu")))
    cut = gather(config(max_test=3, image_size=4))
    assert len(cut.test) == 3
    assert cut.source.fingerprint() == eager.fingerprint() == gather(config(image_size=4)).source.fingerprint()


def test_each_size_is_kept_once_and_other_data_in_the_same_file_is_resized_anew(home: Path, resized: list[int]) -> None:
    owned_images()
    for settings in ({"image_size": 4}, {"image_size": 2}, {"image_size": 4}, {"image_size": 4, "max_train": 50}):
        found = load("npz:mine.npz", **settings).train  # type: ignore[arg-type]
        fresh = load("npz:mine.npz", max_train=settings.get("max_train")).train
        expected = resize(fresh.store.inputs, fresh.rows, settings["image_size"])
        assert torch.equal(found.stored(torch.arange(len(found))), expected)
    assert resized == [120, 120, 50]
    assert sorted(name.split(".", 1)[1].split("-")[0] for name in files(home) if "." in name) == ["train.2", "train.4"]
    owned_images(note=np.zeros(1))
    load("npz:mine.npz", image_size=4)
    assert resized == [120, 120, 50, 120]
    assert len(files(home)) == 2


def test_damaged_images_and_those_of_other_data_are_resized_again(home: Path) -> None:
    owned_images()
    np.savez("other.npz", x=np.random.default_rng(1).integers(0, 256, (9, 8, 8), dtype=np.uint8), y=np.arange(9) % 2)
    whole = [load(f"npz:{name}.npz", image_size=4).train.tensors()[0] for name in ("mine", "other")]
    one, other = (home / "decoded").glob("npz-*.train.4-*")
    keeping_its_time(one, flip(-1))
    other.rename(other.with_name("away"))
    shutil.copy(one, other)
    with pytest.warns(CacheWarning, match=r"is damaged \(.*\): its images are resized anew"):
        again = [load(f"npz:{name}.npz", image_size=4).train.tensors()[0] for name in ("mine", "other")]
    assert all(map(torch.equal, whole, again))


def test_without_room_images_are_resized_in_memory(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    owned_images()
    load("npz:mine.npz")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert load("npz:mine.npz", image_size=4).train.tensors()[0].shape == (120, 1, 4, 4)
    assert len(files(home)) == 1
