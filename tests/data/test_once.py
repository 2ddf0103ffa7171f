"""What a start costs: folders listed, images resized and data hashed once, and no more than is used."""

from __future__ import annotations

import hashlib
import os
import shutil
import wave
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from smofi import experiment
from smofi.config import Config, federation
from smofi.config.federation import gather
from smofi.data import load, partitions, samples, source
from smofi.data.resizing import resize
from smofi.data.samples import TensorSamples
from smofi.errors import CacheWarning


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


# -------------------------------------------------------------------------------------------------------------- folders


def spoken(folder: Path) -> str:
    for name in ("no/a1_nohash_0", "no/c3_nohash_0", "yes/a1_nohash_0", "yes/c3_nohash_0"):
        path = folder / f"{name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(b"\1\0" * 100)
    (folder / "testing_list.txt").write_text("no/c3_nohash_0.wav\nyes/c3_nohash_0.wav\n")
    return "speech-commands"


def photographs(folder: Path) -> str:
    for name in ("train/n00000001/images/a", "train/n00000002/images/a", "val/images/a"):
        picture(folder / f"{name}.JPEG", 64)
    (folder / "wnids.txt").write_text("n00000001\nn00000002\n")
    (folder / "val" / "val_annotations.txt").write_text("a.JPEG\tn00000001\n")
    return "tiny-imagenet"


def plays(folder: Path) -> str:
    folder.mkdir()
    for name in ("HAMLET_OPHELIA", "HAMLET_GHOST"):
        (folder / f"{name}.txt").write_text("To be, or not to be. " * 40)
    return "shakespeare"


def classes(folder: Path) -> str:
    for name in ("cat/1", "cat/2", "dog/1", "dog/2"):
        picture(folder / f"{name}.png", 8)
    return f"folder:{folder}"


def train_and_test(folder: Path) -> str:
    for name in ("train/cat/1", "train/dog/1", "test/cat/1"):
        picture(folder / f"{name}.png", 8)
    (folder / "notes.txt").write_text("mine")
    return f"folder:{folder}"


def picture(path: Path, side: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side, side)).save(path)


@pytest.mark.parametrize("make", [spoken, photographs, plays, classes, train_and_test])
def test_no_folder_is_listed_twice(
    make: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, listed, scandir = tmp_path / "data", Counter[str](), os.scandir
    name = make(folder)

    def counted(path: Any) -> Iterator[os.DirEntry[str]]:
        if Path(path).is_relative_to(folder):
            listed[str(path)] += 1
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    given = {} if ":" in name else {"folder": folder}
    for _ in range(2):  # decoded, then from the cache
        listed.clear()
        load(name, **given)  # type: ignore[arg-type]
        assert listed
        assert set(listed.values()) == {1}


# ------------------------------------------------------------------------------------------------------------- resizing


def owned_images(**more: Any) -> None:
    """Images of 8 x 8 from four sites; each test image is one shade, its number."""
    rng = np.random.default_rng(0)
    test = np.broadcast_to(np.arange(40, dtype=np.uint8)[:, None, None], (40, 8, 8))
    arrays = {
        "x": rng.integers(0, 256, (120, 8, 8), dtype=np.uint8),
        "y": np.arange(120) % 2,
        "site": np.arange(120) % 4,
    }
    np.savez("mine.npz", **arrays, x_test=test, y_test=np.arange(40) % 2, site_test=np.arange(40) % 4, **more)


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
    assert resized == [120, 3]
    assert inputs.shape == (3, 1, 4, 4)
    # one shade is the same shade when it is small
    assert torch.equal(inputs, plain.test.tensors()[0][:, :, :4, :4])
    assert torch.equal(targets, plain.test.tensors()[1])
    again = gather(config(max_test=3, image_size=4, **settings))
    assert torch.equal(again.test.tensors()[0], inputs)
    assert torch.equal(again.source.train.tensors()[0], small.source.train.tensors()[0])
    assert resized == [120, 3]


def test_the_hash_of_resized_data_is_that_of_all_of_it_whatever_is_cut_off(resized: list[int]) -> None:
    owned_images()
    whole = load("npz:mine.npz", image_size=4)
    eager = replace(whole, test=TensorSamples(whole.test.store, whole.test.rows))
    cut = gather(config(max_test=3, image_size=4))
    assert len(cut.test) == 3
    assert resized == [120, 40]
    assert cut.source.fingerprint() == eager.fingerprint()
    assert resized == [120, 40]  # what was resized to be tested on is hashed
    assert cut.test.shape == (1, 4, 4)


def test_what_is_resized_for_the_hash_is_kept_beside_what_is_tested_on(home: Path, resized: list[int]) -> None:
    owned_images()
    hashes = set()
    for _ in range(3):
        cut = gather(config(max_test=3, image_size=4))
        hashes.add(cut.source.fingerprint())
        cut.test.tensors()
        assert resized == [120, 40, 3]
    shutil.rmtree(home)
    assert hashes == {gather(config(image_size=4)).source.fingerprint()}


def test_of_many_images_a_thousand_are_resized_for_the_hash(resized: list[int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (1200, 8, 8), dtype=np.uint8)
    np.savez("many.npz", x=images[:10], y=np.arange(10) % 2, x_test=images, y_test=np.arange(1200) % 2)
    first = load("npz:many.npz", image_size=4)
    before = first.fingerprint()
    assert resized == [10, 1000]
    first.test.tensors()
    again = load("npz:many.npz", image_size=4)
    assert again.fingerprint() == before
    assert resized == [10, 1000, 1200]


def test_each_size_and_each_choice_of_rows_is_kept_apart(home: Path, resized: list[int]) -> None:
    owned_images()
    for settings in ({"image_size": 4}, {"image_size": 2}, {"image_size": 4}, {"image_size": 4, "max_train": 50}):
        found = load("npz:mine.npz", **settings).train  # type: ignore[arg-type]
        fresh = load("npz:mine.npz", max_train=settings.get("max_train")).train
        expected = resize(fresh.store.inputs, fresh.rows, settings["image_size"])
        assert torch.equal(found.stored(torch.arange(len(found))), expected)
    assert resized == [120, 120, 50]
    # of one size the newest choice is kept
    assert sorted(path.name.split("-")[0] for path in home.rglob("*.inputs.*-*")) == [
        "train.inputs.2",
        "train.inputs.4",
    ]


def test_other_data_in_the_same_file_is_resized_anew(home: Path, resized: list[int]) -> None:
    owned_images()
    load("npz:mine.npz", image_size=4)
    owned_images(note=np.zeros(1))
    load("npz:mine.npz", image_size=4)
    assert resized == [120, 120]
    assert len(list(home.rglob("train.inputs.4-*"))) == 1


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"nothing of the kind"])
def test_damaged_images_are_resized_again(damage: bytes, home: Path, resized: list[int]) -> None:
    owned_images()
    first = load("npz:mine.npz", image_size=4).train.tensors()[0]
    (kept,) = home.rglob("train.inputs.4-*/images.npy")
    kept.write_bytes(damage)
    with pytest.warns(CacheWarning, match=rf"{kept.parent} is damaged \(images.npy: .*\): its images are resized anew"):
        assert torch.equal(load("npz:mine.npz", image_size=4).train.tensors()[0], first)
    assert resized == [120, 120]


def test_without_room_images_are_resized_in_memory(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    owned_images()
    load("npz:mine.npz")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert load("npz:mine.npz", image_size=4).train.tensors()[0].shape == (120, 1, 4, 4)
    assert not list(home.rglob("*.inputs.*-*"))
    assert not list(home.rglob(".unfinished*"))


# ----------------------------------------------------------------------------------------------------- hash, and owners


def test_data_is_hashed_once_for_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    owned_images()
    hashed: list[bytes] = []

    def counted(content: bytes) -> Any:
        hashed.append(content)
        return hashlib.sha256(content)

    monkeypatch.setattr(source, "hashlib", type("Counted", (), {"sha256": staticmethod(counted)}))
    both = config(method=("smofi", "fedavg"))
    for one in experiment.start(both, Path("run")):
        one.train()
    assert len(hashed) == 1
    for one in experiment.resume(Path("run"), {"rounds": 2}):
        one.train()
    assert len(hashed) == 2


@pytest.mark.parametrize("how", ["iid", "dirichlet(1)", "shards(2)", "natural"])
def test_the_clients_of_samples_become_the_samples_of_clients_once(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owned_images()
    calls: list[int] = []
    convert = partitions.samples_by_client

    def counted(owner: Any, clients: int) -> Any:
        calls.append(clients)
        return convert(owner, clients)

    for module in (federation, partitions):
        monkeypatch.setattr(module, "samples_by_client", counted)
    gather(config(partition=how))
    assert calls == [4]
