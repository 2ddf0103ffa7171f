"""Every data set says how raw input became what a model sees: in JSON, through the cache, also after resizing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from smofi.data import cache, load
from smofi.data.cache import cached, find, store
from smofi.data.decoded import Decoded
from smofi.data.readers.hub import HUB, completed
from smofi.data.source import as_source
from support.pets import pets


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))


def test_a_table_names_its_columns_and_says_how_each_is_scaled(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("b, y,a\n" + "".join(f"{k},{'no' if k % 2 else 'yes'},7\n" for k in range(20)))
    for _ in ("decoded", "from the cache"):
        source = load(f"csv:{tmp_path / 't.csv'}")
        stated = json.loads(json.dumps(source.preparation))
        assert stated["raw_input"]["kind"] == "table"
        assert (stated["raw_input"]["columns"], stated["raw_input"]["label"]) == (["b", "a"], "y")
        moments = stated["standardise"]
        assert moments["mean"][1] == 7
        assert moments["deviation"][1] == 1  # a constant becomes 0
        assert source.task()["preparation"] == stated


def test_digits_as_the_file_has_them_become_the_inputs_to_the_bit() -> None:
    source = load("digits")
    assert source.preparation is not None
    moments = source.preparation["standardise"]
    inputs = source.train.tensors()[0]
    raw = (inputs * moments["deviation"][0] + moments["mean"][0]).round()  # whole numbers from 0 to 16
    assert (int(raw.min()), int(raw.max())) == (0, 16)
    assert torch.equal((raw - moments["mean"][0]) / moments["deviation"][0], inputs)


def test_pictures_say_how_they_were_cropped_and_averaged(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "own" / name).mkdir(parents=True)
        for k in range(5):
            Image.new("RGB", (12, 10), (50 * k, 100 * number, 0)).save(tmp_path / "own" / name / f"{k}.png")
    whole, square = (load(f"folder:{tmp_path / 'own'}", image_size=size) for size in (None, 4))
    assert whole.preparation is not None
    assert square.preparation is not None
    facts = whole.preparation["raw_input"]
    assert (facts["height"], facts["width"], facts["channels"], facts["middle_square"]) == (10, 12, "RGB", None)
    assert square.preparation["raw_input"]["middle_square"] == 4
    assert square.preparation["resize_by_area"] == []
    averaged = whole.resized(5).preparation
    assert averaged is not None
    assert averaged["resize_by_area"] == [5]


@pytest.mark.parametrize(("kind", "shape"), [(np.uint8, (8, 8, 3)), (np.float64, (5,))])
def test_arrays_say_their_shape_and_type(kind: type, shape: tuple[int, ...], tmp_path: Path) -> None:
    x = np.zeros((10, *shape), kind)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(10) % 2)
    stated = load(f"npz:{tmp_path / 'a.npz'}").preparation
    assert stated is not None
    assert stated["raw_input"]["shape"] == list(shape)
    assert stated["raw_input"]["type"] == ("uint8" if kind is np.uint8 else "float32")
    assert (stated["standardise"] is None) == (kind is np.float64)


def test_a_cache_from_before_is_decoded_anew(recwarn: pytest.WarningsRecorder) -> None:
    store("pets", "somewhere", "1", replace(cache.with_moments(pets()), raw_input=None))
    found = cached("pets", "somewhere", "1", pets)
    assert found.raw_input == pets().raw_input
    again = find("pets", "somewhere", "1")
    assert again is not None
    assert again.raw_input == pets().raw_input
    assert not recwarn.list


def test_a_reader_that_does_not_say_it_is_cached_all_the_same() -> None:
    def decode() -> Decoded:
        calls.append(1)
        return replace(pets(), raw_input=None)

    calls: list[int] = []
    for _ in range(2):
        assert as_source("pets", cached("pets", "somewhere", "1", decode)).preparation is None
    assert len(calls) == 1


@pytest.mark.parametrize("name", HUB)
def test_what_was_fetched_before_is_completed(name: str) -> None:
    raw_input = completed(name, replace(pets(), raw_input=None)).raw_input
    assert raw_input is not None
    assert raw_input["kind"] == {"speech-commands": "sound", "shakespeare": "text"}.get(name, "picture")
    json.dumps(raw_input)
