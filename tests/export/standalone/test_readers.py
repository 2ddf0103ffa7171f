"""What is copied into an export prepares raw input as smofi does, to the bit, without importing it."""

import ast
import importlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from smofi.data.samples import resize
from smofi.data.sound import SOUND_INPUT
from smofi.export import standalone
from smofi.export.standalone import predict, read_array, read_picture, read_sound, read_table, read_text
from support.kinds import KINDS, picture
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


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32])
def test_images_are_averaged_alike(kind: torch.dtype) -> None:
    images = torch.randint(0, 256, (20, 5, 7, 3), generator=torch.Generator().manual_seed(1)).to(kind)
    ours = resize(images, torch.arange(20), 9).numpy()
    theirs = np.stack([predict.by_area(image, 9) for image in images.numpy()])
    assert theirs.dtype == ours.dtype
    np.testing.assert_allclose(theirs, ours, atol=0 if kind == torch.uint8 else 1e-4)


def test_short_texts_are_filled_up_in_front() -> None:
    facts = {"length": 5, "alphabet": " ab", "normalise": "NFC", "nearest": {}, "decompose": "NFKD", "unknown": " "}
    assert [numbers.tolist() for _, numbers in read_text.from_words(["ab", "bbbäaab"], facts)] == [
        [0, 0, 0, 1, 2],
        [2, 1, 1, 1, 2],
    ]


def test_nothing_is_imported_that_an_export_does_not_name() -> None:
    for path in Path(standalone.__file__).parent.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
        names |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
        assert {name.partition(".")[0] for name in names} <= {*sys.stdlib_module_names, "numpy", "PIL"}


def refused(read: Any, path: Path, facts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(path.name)) as caught:
        list(read([str(path)], facts))
    assert sentence in str(caught.value)


TABLE = {"columns": ["weight, g", "b", "same"]}
BYTES, FLOATS = {"shape": [2, 2, 1], "type": "uint8"}, {"shape": [2], "type": "float32"}


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def recording(*values: Any, rate: int = 16_000, bits: int = 16, floating: bool = False) -> bytes:
    return wav(np.array(values), rate, bits, floating=floating)


@pytest.mark.parametrize(
    ("name", "content", "facts", "sentence"),
    [
        ("a.csv", b"b,y\n1,2\n", TABLE, "expected a column 'weight, g', 'same' in the first line, but it has 'b', 'y'"),
        ("a.csv", b'"weight, g",b,same\n1,2\n', TABLE, ":2: expected 3 fields, as in line 1, but it has 2"),
        ("a.csv", b'"weight, g",b,same\n1,,2\n', TABLE, ":2, column 'b': expected a finite number, but it is ''"),
        ("a.csv", b'"weight, g",b,same\n1,1e99,2\n', TABLE, "expected a finite number, but it is '1e99'"),
        ("a.csv", b"a,b\n\xff,1\n", TABLE, "expected a table in UTF-8 that can be read to its end"),
        ("a.csv.gz", b"nothing", TABLE, "expected a table in UTF-8 that can be read to its end"),
        ("b.csv", b"a,b\n\xff,1\n", FLOATS, "expected rows of numbers, as text"),
        ("a.npy", saved(np.zeros((2, 5))), BYTES, "expected samples of shape [2, 2, 1], but they have [5]"),
        ("a.npy", saved(np.full((2, 4), 256)), BYTES, "expected numbers from 0 to 255"),
        ("a.npy", saved(np.full((2, 2, 2), 0.5)), BYTES, "expected whole numbers from 0 to 255"),
        ("a.npy", saved(np.array(["a"])), BYTES, "expected an array of numbers"),
        ("a.npy", saved(np.array([{}])), BYTES, "expected a numpy file"),
        ("a.npy", saved(np.full((1, 2), 1e300)), FLOATS, "expected numbers that fit into float32"),
        ("a.npz", b"PK\x03\x04 nothing", FLOATS, "expected a numpy file"),
        ("a.wav", b"nothing", SOUND_INPUT, "expected a WAVE file"),
        ("a.wav", recording(1, 1, rate=0), {**SOUND_INPUT, "resample": {}}, "1,000 to 768,000 Hz"),
        ("a.wav", recording(0.5, np.nan, bits=32, floating=True), SOUND_INPUT, "expected finite numbers as samples"),
        ("a.txt", b"\xff", {}, "expected text in UTF-8, but byte 0 is not"),
    ],
)
def test_files_that_do_not_fit_are_named(
    name: str, content: bytes, facts: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    readers = {".npy": read_array, ".npz": read_array, ".wav": read_sound, ".txt": read_text}
    reader = readers.get(path.suffix, read_table if "columns" in facts else read_array)
    refused(reader.read, path, facts, sentence)


def test_pictures_of_another_size_are_named(tmp_path: Path) -> None:
    facts = facts_of(picture(tmp_path / "p").source())["raw_input"] | {"middle_square": None}
    path = tmp_path / "p" / "test" / "cat" / "0.png"
    refused(read_picture.read, path, facts, "expected 8 x 8 pixels, as the model was trained on, but it has ")
    path.write_bytes(b"nothing")
    refused(read_picture.read, path, facts, "expected a picture (JPEG, PNG, BMP, GIF or WebP), but it is not one")


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
