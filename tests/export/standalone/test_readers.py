"""What is copied into an export prepares raw input as smofi does, to the bit, without importing it."""

import ast
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smofi.data.samples import resize
from smofi.data.sound import SOUND_INPUT, as_bytes, log_mel
from smofi.export import standalone
from smofi.export.standalone import predict, read_array, read_picture, read_sound, read_table, read_text
from support.kinds import KINDS, picture, table
from support.sounds import wav


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))


def facts_of(source: Any) -> dict[str, Any]:
    shape = ["batch", *source.input_shape]
    return {
        **source.preparation,
        "model_input": {"type": "int64" if source.kind == "text" else "float32", "shape": shape},
    }


def in_order(inputs: Any, labels: Any) -> list[tuple[bytes, str]]:
    return sorted((np.ascontiguousarray(one).tobytes(), str(label)) for one, label in zip(inputs, labels, strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_raw_samples_become_the_ones_the_model_was_tested_on(name: str, tmp_path: Path) -> None:
    kind = KINDS[name](tmp_path / name)
    source = kind.source()
    facts = facts_of(source)
    reader = importlib.import_module(f"{standalone.__name__}.read_{facts['raw_input']['kind']}")
    prepared = [predict.prepare(sample, facts) for _, sample in reader.read(kind.inputs, facts["raw_input"])]
    inputs, targets = source.test.tensors()
    expected = in_order(inputs.numpy(), [source.class_names[target] for target in targets])
    assert in_order(prepared, kind.labels) == expected


@pytest.mark.parametrize("sizes", [(11, 14, 8), (5, 7, 9), (12, 12, 2), (30, 8, 8)])
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_images_are_averaged_alike(kind: torch.dtype, sizes: tuple[int, int, int]) -> None:
    height, width, side = sizes
    images = torch.randint(0, 256, (20, height, width, 3), generator=torch.Generator().manual_seed(1)).to(kind)
    ours = resize(images, torch.arange(20), side).numpy()
    theirs = np.stack([predict.by_area(image, side) for image in images.numpy()])
    assert theirs.dtype == ours.dtype
    np.testing.assert_allclose(theirs, ours, atol=0 if kind == torch.uint8 else 1e-4)


def test_log_mel_is_ours() -> None:
    clips = np.random.default_rng(0).normal(0, 0.1, (20, 16_000))
    clips[0] = 0
    triangles = read_sound._triangles(SOUND_INPUT)
    theirs = np.stack([read_sound._log_mel(clip, SOUND_INPUT, triangles) for clip in clips])
    ours = log_mel(torch.from_numpy(clips))
    np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-9)
    scaled = (theirs - SOUND_INPUT["byte_0"]) * (255 / (SOUND_INPUT["byte_255"] - SOUND_INPUT["byte_0"]))
    assert np.array_equal(scaled.round().clip(0, 255), as_bytes(ours).numpy())


def test_short_texts_are_filled_up_in_front() -> None:
    facts = {"length": 5, "alphabet": " ab", "normalise": "NFC", "nearest": {}, "decompose": "NFKD", "unknown": " "}
    assert [numbers.tolist() for _, numbers in read_text.from_words(["ab", "bbbäaab"], facts)] == [
        [0, 0, 0, 1, 2],
        [2, 1, 1, 1, 2],
    ]


@pytest.mark.parametrize("path", sorted(Path(standalone.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_nothing_is_imported_that_an_export_does_not_name(path: Path) -> None:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    names |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy", "PIL"}


def listed(read: Any, path: Path, facts: dict[str, Any]) -> None:
    list(read([str(path)], facts))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("b,y\n1,2\n", "expected a column 'weight, g', 'same' in the first line, but it has 'b', 'y'"),
        ('"weight, g",b,same\n1,2\n', ":2: expected 3 fields, as in line 1, but it has 2"),
        ('"weight, g",b,same\n1,,2\n', ":2, column 'b': expected a finite number, but it is ''"),
        ('"weight, g",b,same\n1,1e99,2\n', ":2, column 'b': expected a finite number, but it is '1e99'"),
        ("", "expected a column 'weight, g', 'b', 'same' in the first line, but it has nothing"),
    ],
)
def test_rows_that_do_not_fit_are_named(content: str, sentence: str, tmp_path: Path) -> None:
    facts = facts_of(table(tmp_path / "t").source())["raw_input"]
    (tmp_path / "rows.csv").write_text(content)
    with pytest.raises(ValueError, match=r"rows\.csv") as caught:
        listed(read_table.read, tmp_path / "rows.csv", facts)
    assert sentence in str(caught.value)


def test_a_table_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b\n\xff,1\n")
    (tmp_path / "rows.csv.gz").write_bytes(b"nothing")
    for name in ("rows.csv", "rows.csv.gz"):
        with pytest.raises(ValueError, match=f"{name}: expected a table in UTF-8 that can be read to its end"):
            listed(read_table.read, tmp_path / name, {"columns": ["a", "b"]})
    with pytest.raises(ValueError, match=r"rows\.csv: expected rows of numbers, as text"):
        listed(read_array.read, tmp_path / "rows.csv", {"shape": [2], "type": "float32"})


def test_pictures_of_another_size_are_named(tmp_path: Path) -> None:
    facts = facts_of(picture(tmp_path / "p").source())["raw_input"] | {"middle_square": None}
    path = tmp_path / "p" / "test" / "cat" / "0.png"
    with pytest.raises(ValueError, match=r"0\.png: expected 8 x 8 pixels, .* but it has \d+ x \d+; resize it first"):
        listed(read_picture.read, path, facts)
    path.write_bytes(b"nothing")
    with pytest.raises(
        ValueError, match=r"0\.png: expected a picture \(JPEG, PNG, BMP, GIF or WebP\), but it is not one$"
    ):
        listed(read_picture.read, path, facts)


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((2, 5)), r"expected samples of shape \[2, 2, 1\], but they have \[5\]"),
        (np.full((2, 4), 256), "expected numbers from 0 to 255"),
        (np.full((2, 2, 2), 0.5), "expected whole numbers from 0 to 255"),
        (np.array(["a"]), "expected an array of numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_named(array: Any, sentence: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=f"a.npy: {sentence}"):
        listed(read_array.read, tmp_path / "a.npy", {"shape": [2, 2, 1], "type": "uint8"})


def test_files_that_are_not_what_they_say_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match=r"a\.npz: expected a numpy file"):
        listed(read_array.read, tmp_path / "a.npz", {"shape": [2], "type": "float32"})
    (tmp_path / "a.wav").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.wav: expected a WAVE file"):
        listed(read_sound.read, tmp_path / "a.wav", SOUND_INPUT)
    np.save(tmp_path / "a.npy", np.full((1, 2), 1e300))
    with pytest.raises(ValueError, match=r"a\.npy: expected numbers that fit into float32, but some are larger"):
        listed(read_array.read, tmp_path / "a.npy", {"shape": [2], "type": "float32"})
    not_finite = wav(np.array([0.5, np.nan]), 16_000, 32, floating=True)
    for content, said in ((wav(np.ones(9), 0), "1,000 to 768,000 Hz"), (not_finite, "finite numbers as samples")):
        (tmp_path / "a.wav").write_bytes(content)
        with pytest.raises(ValueError, match=rf"a\.wav: expected {said}"):
            listed(read_sound.read, tmp_path / "a.wav", {**SOUND_INPUT, "resample": {}})
    odd = wav(np.zeros(9), 16_000)
    (tmp_path / "a.wav").write_bytes(odd[:-22] + b"\x13\0\0\0" + odd[-18:] + b"\0")  # half a sample at its end
    assert len(list(read_sound.read([str(tmp_path / "a.wav")], SOUND_INPUT))) == 1
    (tmp_path / "a.txt").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"a\.txt: expected text in UTF-8, but byte 0 is not"):
        listed(read_text.read, tmp_path / "a.txt", {})


@pytest.mark.parametrize("facts", [None, {}, {"raw_input": None}, {"raw_input": {}}])
def test_damaged_facts_are_named(facts: Any, tmp_path: Path) -> None:
    (tmp_path / "preprocessing.json").write_text(json.dumps(facts))
    with pytest.raises(SystemExit) as refused:
        predict.main(["rows.csv"], tmp_path)
    assert "preprocessing.json is damaged, or does not fit the model" in str(refused.value)
    (tmp_path / "preprocessing.json").write_text("{")
    with pytest.raises(SystemExit, match=r"preprocessing\.json: expected JSON, but it is damaged"):
        predict.main(["rows.csv"], tmp_path)


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("nonsense")
    with pytest.raises(ValueError, match=r"model\.onnx cannot be loaded by onnxruntime"):
        predict.load(tmp_path, "onnx")
