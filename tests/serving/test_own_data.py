"""A client's samples, as the server's model takes them; and data that does not fit."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smofi import data
from smofi.config import Config
from smofi.errors import InputError
from smofi.net.frames import read
from smofi.serving.offer import Offer
from smofi.serving.own_data import OwnData
from support.deployed import small


def table(path: Path, classes: str, columns: int = 3, scale: float = 1.0, seed: int = 0) -> str:
    """A csv file with ten samples of each class, which are letters."""
    draw = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"column{number}" for number in range(columns)), "label"])
        for name in classes * 10:
            writer.writerow([*(scale * draw.normal(size=columns)).tolist(), name])
    return f"csv:{path}"


def offer_of(name: str) -> tuple[Offer, Config]:
    config = small(data=name, model="mlp", width=4)
    sent = Offer.of(config, data.load(name), "hash", "server", 8).pack()
    return Offer.read(read(sent)), config


def test_classes_are_known_by_their_names(tmp_path: Path) -> None:
    """This client has two of three classes; its own numbers for them are 0 and 1."""
    offer, config = offer_of(table(tmp_path / "server.csv", "abc"))
    mine = data.load(name := table(tmp_path / "mine.csv", "cb", seed=1))
    assert mine.class_names == ("b", "c")
    train, test = OwnData(name).load(offer, config)
    assert set(train.labels.tolist()) | set(test.labels.tolist()) == {1, 2}
    assert torch.equal(train.labels, mine.train.labels + 1)


def pictures(folder: Path, *classes: str) -> str:
    """A folder with ten small pictures of each class."""
    draw = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(10):
            shades = draw.integers(256, size=(4, 4), dtype=np.uint8)
            Image.fromarray(shades).save(folder / name / f"{number}.png")
    return f"folder:{folder}"


@pytest.mark.parametrize("kind", ["folder", "csv"])
def test_one_class_of_the_servers_is_enough(kind: str, tmp_path: Path) -> None:
    """A simulation refuses such a folder; here others have the other classes."""
    if kind == "csv":
        theirs, mine = table(tmp_path / "server.csv", "ab"), table(tmp_path / "mine.csv", "b")
    else:
        theirs, mine = pictures(tmp_path / "server", "a", "b"), pictures(tmp_path / "mine", "b")
        with pytest.raises(InputError, match="expected two classes or more"):
            data.load(mine)
    own = OwnData(mine)
    own.check()
    train, test = own.load(*offer_of(theirs))
    assert set(train.labels.tolist()) == set(test.labels.tolist()) == {1}


def test_all_use_the_servers_mean_and_deviation(tmp_path: Path) -> None:
    server = data.load(theirs := table(tmp_path / "server.csv", "ab"))
    name = table(tmp_path / "mine.csv", "ab", scale=100.0, seed=1)
    train, _ = OwnData(name).load(*offer_of(theirs))
    everything = torch.arange(len(train))
    mine = data.load(name).train
    raw = mine.batch(everything)[0] * mine.store.deviation + mine.store.mean
    expected = (raw - server.train.store.mean) / server.train.store.deviation
    assert torch.allclose(train.batch(everything)[0], expected, rtol=1e-4)
    assert train.batch(everything)[0].std() > 50


@pytest.mark.parametrize(
    ("classes", "columns", "sentence"),
    [
        ("abd", 3, "your data has the class 'd', which it does not know; its classes are a, b, c"),
        ("abc", 4, r"its samples have the shape \[3\], yours \[4\]"),
    ],
)
def test_data_that_does_not_fit(tmp_path: Path, classes: str, columns: int, sentence: str) -> None:
    offer, config = offer_of(table(tmp_path / "server.csv", "abc"))
    with pytest.raises(InputError, match=sentence):
        OwnData(table(tmp_path / "mine.csv", classes, columns)).load(offer, config)


def test_another_kind_of_data(tmp_path: Path) -> None:
    offer, config = offer_of(table(tmp_path / "server.csv", "abc"))
    with pytest.raises(InputError, match="and your data has images"):
        OwnData("digits").load(offer, config)


def test_arrays_without_a_mean(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(30, 3)).astype(np.float32), np.arange(30) % 3
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    name = f"npz:{tmp_path / 'mine.npz'}"
    train, _ = OwnData(name).load(*offer_of(name))
    assert torch.equal(train.batch(torch.arange(len(train)))[0], data.load(name).train.batch(torch.arange(24))[0])
    server, config = offer_of(table(tmp_path / "server.csv", "012"))
    with pytest.raises(InputError, match="brought to mean 0 and deviation 1, and yours cannot be"):
        OwnData(name).load(server, config)


@pytest.mark.parametrize("part", [-1, 8])
def test_a_part_that_is_none(part: int) -> None:
    offer, config = offer_of("digits")
    with pytest.raises(InputError, match=f"part={part} is not accepted: expected a client's number from 0 to 7"):
        OwnData("digits", part=part).load(offer, config)
