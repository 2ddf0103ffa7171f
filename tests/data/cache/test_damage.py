"""What is damaged is never used: it is made anew, or refused where there is nothing to make it from."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smofi.cli import main
from smofi.data import cache, load
from smofi.data.cache import ABOUT, Arrays, Damaged, cached, place_of, read_arrays, with_moments, write_arrays
from smofi.data.loading import FROM_HUB
from smofi.engine.cohort.measurements import StepTimes, measured_before
from smofi.errors import CacheWarning, InputError
from smofi.files import sealed, unsealed
from support.pets import flip, keeping_its_time, pets, same


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture(scope="module")
def cache_of_pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SMOFI_DATA", str(tmp_path_factory.mktemp("pets")))
        for origin, seed in (("/a", 0), ("/b", 1)):
            cached("pets", origin, "1", lambda seed=seed: pets(seed))
        return cache.data_home()


@pytest.fixture
def place(home: Path, cache_of_pets: Path) -> Path:
    """The cached data set "pets" from "/a"; beside it is another one, from "/b"."""
    shutil.copytree(cache_of_pets, home)
    return place_of("pets", "/a", "1")


def damage_found() -> str:
    """What is found to be wrong with the data."""
    with pytest.raises(Damaged) as found:
        cache.find("pets", "/a", "1")
    return str(found.value)


ARRAYS = ("train.inputs", "train.targets", "train.owner", "test.inputs", "test.targets")
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "last bit": flip(-1),
    "bit of the header": flip(80),
    "zeros": lambda content: content[:128] + bytes(len(content) - 128),
    "one more byte": lambda content: content + b"\0",
    "one byte less": lambda content: content[:-1],
    "label of 10^12": lambda content: content[:-8] + (10**12).to_bytes(8, "little"),
}


def test_what_is_damaged_is_decoded_anew_and_a_sentence_says_so(place: Path) -> None:
    keeping_its_time(place / "train.targets.npy", HARMS["label of 10^12"])
    sentence = rf"{place} is damaged \(train.targets.npy: its checksum is another\): /a is decoded anew"
    with pytest.warns(CacheWarning, match=sentence):
        assert same(cached("pets", "/a", "1", pets), pets())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached("pets", "/a", "1", lambda: pytest.fail("it was whole again"))


def test_no_byte_that_changed_is_used(place: Path) -> None:
    for name in (*(f"{name}.npy" for name in ARRAYS), ABOUT):
        content = (place / name).read_bytes()
        for harm in HARMS.values():
            keeping_its_time(place / name, harm)
            assert damage_found().startswith(f"{name}: ")
            (place / name).write_bytes(content)
    assert cache.find("pets", "/a", "1") is not None


@pytest.mark.parametrize("names", [("train.targets", "test.targets"), ("train.inputs", "test.inputs")])
def test_files_that_changed_places(names: tuple[str, str], place: Path) -> None:
    one, other = (place / f"{name}.npy" for name in names)
    one.rename(place / "away")
    other.rename(one)
    (place / "away").rename(other)
    assert damage_found().startswith(names[0])


def test_whole_data_of_another_name(place: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(place_of("pets", "/b", "1"), place)
    assert damage_found() == "about.json: it belongs to something else"


@pytest.mark.parametrize("name", ["train.inputs.npy", ABOUT])
def test_a_pipe_is_not_waited_for(name: str, place: Path) -> None:
    (place / name).unlink()
    os.mkfifo(place / name)
    assert damage_found() == f"{name}: it is not a file"


# ------------------------------------------------------------------------------------- whole, but nothing that is read


def test_what_no_reader_makes_is_not_taken_from_a_cache_that_is_whole() -> None:
    made = with_moments(pets())
    impossible = replace(made, train=replace(made.train, targets=np.full(20, 10**12)))
    with pytest.raises(Damaged, match=r"train\.targets has 1000000000000, but there are 2 classes"):
        cache.store("pets", "/a", "1", impossible)
    with pytest.warns(CacheWarning, match=r"train\.targets has 1000000000000"):
        assert same(cached("pets", "/a", "1", pets), pets())


@pytest.mark.parametrize(
    "facts",
    [{"dtype": "|O"}, {"dtype": 3}, {"shape": [-2]}, {"shape": [1 << 70]}, {"shape": "2"}, {"size": 1}, {"more": 1}],
)
def test_facts_of_a_file_that_cannot_be(facts: dict[str, Any], tmp_path: Path) -> None:
    place, of = tmp_path / "folder", "me"
    write_arrays(place, of, {"x": np.arange(2)}, {})
    content = unsealed((place / ABOUT).read_bytes())
    content["files"]["x"] |= facts
    (place / ABOUT).write_bytes(sealed(content))
    with pytest.raises(Damaged):
        read_arrays(place, of, lambda found: found)


@pytest.mark.parametrize("content", ["[]", "null", "[" * 100_000, '{"content": 1}', "9" * 5000, "\udcff"])
def test_whatever_is_in_about_json(content: str, place: Path) -> None:
    (place / ABOUT).write_bytes(content.encode(errors="surrogateescape"))
    assert damage_found() == "about.json: its checksum is another"


@pytest.mark.parametrize("content", [[], None, {}, {"of": "me", "files": [], "about": {}}, {"of": "me", "files": {}}])
def test_whatever_is_sealed_in_about_json(content: Any, tmp_path: Path) -> None:
    (tmp_path / ABOUT).write_bytes(sealed(content))
    with pytest.raises(Damaged, match=r"about\.json"):
        read_arrays(tmp_path, "me", lambda found: found)


# ------------------------------------------------------------------------------------------- for a user, and for others


def test_the_command_says_so_in_one_sentence_and_goes_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("mine.npz", x=np.zeros((20, 8, 8), np.uint8), y=np.arange(20) % 2)
    command = ["data", "npz:mine.npz", "--clients", "2", "--batch-size", "2"]
    assert main(command) == 0
    whole = capsys.readouterr()
    (targets,) = home.rglob("train.targets.npy")
    keeping_its_time(targets, HARMS["label of 10^12"])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(command) == 0
    mended = capsys.readouterr()
    assert mended.out == whole.out
    assert mended.err == (
        f"warning: {targets.parent} is damaged (train.targets.npy: its checksum is another): "
        f"{Path('mine.npz').absolute()} is decoded anew\n"
    )


def test_what_came_from_the_hub_is_refused_until_it_is_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    made = with_moments(pets())
    cache.store("cifar10", FROM_HUB, FROM_HUB, made)
    assert load("cifar10").classes == 2
    place = place_of("cifar10", FROM_HUB, FROM_HUB)
    keeping_its_time(place / "test.inputs.npy", flip(-1))
    with pytest.raises(InputError, match=r"damaged \(test.inputs.npy: .*; fetch it again with: smofi data cifar10 --f"):
        load("cifar10")
    assert main(["data", "cifar10"]) == 2
    assert "smofi data cifar10 --fetch" in capsys.readouterr().err
    assert place.exists()
    cache.store("cifar10", FROM_HUB, FROM_HUB, made)
    assert load("cifar10").classes == 2


@pytest.mark.parametrize(("name", "harm"), [("images.npy", "zeros"), (ABOUT, "last bit")])
def test_damaged_images_are_resized_again(name: str, harm: str, home: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez("mine.npz", x=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), y=np.arange(20) % 2)
    whole = load("npz:mine.npz", image_size=4).train.tensors()[0]
    (kept,) = home.rglob(f"train.inputs.4-*/{name}")
    keeping_its_time(kept, HARMS[harm])
    with pytest.warns(CacheWarning, match=rf"{kept.parent} is damaged \({name}: .*\): its images are resized anew"):
        assert torch.equal(load("npz:mine.npz", image_size=4).train.tensors()[0], whole)
    assert torch.equal(load("npz:mine.npz", image_size=4).train.tensors()[0], whole)


def test_resized_images_of_other_data_are_not_taken(home: Path) -> None:
    rng, names = np.random.default_rng(0), ("mine.npz", "other.npz")
    for name in names:
        np.savez(name, x=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), y=np.arange(20) % 2)
    whole = [load(f"npz:{name}", image_size=4).train.tensors()[0] for name in names]
    one, other = (home / "decoded").glob("npz-*/train.inputs.4-*")
    one.rename(home / "away")
    other.rename(one)
    (home / "away").rename(other)
    with pytest.warns(CacheWarning, match=r"about.json: it belongs to something else"):
        found = [load(f"npz:{name}", image_size=4).train.tensors()[0] for name in names]
    assert all(map(torch.equal, whole, found))


@pytest.mark.parametrize("harm", ["a digit", "other circumstances", "not times", "cut", "gone"])
def test_damaged_measurements_are_made_again(harm: str, home: Path) -> None:
    first, second = StepTimes(0.25, 0.5, 0.75), StepTimes(1.0, 2.0, 3.0)
    assert measured_before("a cnn", lambda: first) == first
    assert measured_before("a cnn", lambda: pytest.fail("measured before")) == first
    (file,) = (home / "measured").iterdir()
    if harm == "a digit":
        file.write_bytes(file.read_bytes().replace(b"0.25", b"9.25"))
    elif harm == "other circumstances":
        measured_before("a resnet", lambda: second)
        (other,) = set((home / "measured").iterdir()) - {file}
        shutil.copy(other, file)
    elif harm == "not times":
        file.write_text(json.dumps({"measured": {"loop": "fast"}, "of": "a cnn"}))
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:50])
    else:
        file.unlink()
    assert measured_before("a cnn", lambda: second) == second
    assert measured_before("a cnn", lambda: first) == second


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.asfortranarray(np.eye(3, dtype=np.float32)),
        "c": np.zeros(0, int),
    }
    write_arrays(tmp_path / "x" / "y", "me", arrays, {"note": "mine"})
    found = read_arrays(tmp_path / "x" / "y", "me", lambda found: found)
    assert isinstance(found, Arrays)
    assert found.about == {"note": "mine"}
    assert found.read == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)
        np.testing.assert_array_equal(np.load(tmp_path / "x" / "y" / f"{name}.npy"), array)
