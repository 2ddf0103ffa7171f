"""The hub is never arguments: its data sets are made here, with the columns and types that they have there."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from smofi.data.decoded import silent
from smofi.data.hub import HUB, convert, fetch
from smofi.data.shakespeare import LETTERS, find_shakespeare
from smofi.data.speech_commands import find_speech_commands, official_split
from smofi.errors import InputError
from support.sounds import wav

datasets = pytest.importorskip("datasets")
huggingface_hub = pytest.importorskip("huggingface_hub")

RANDOM = np.random.default_rng(0)
WORDS = ["yes", "no", "backward", "_silence_"]


def png(pixels: np.ndarray) -> dict[str, Any]:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def pictures(pixels: np.ndarray, labels: list[int | None], column: str, classes: int, label: str = "label") -> Any:
    features = {column: datasets.Image(), label: datasets.ClassLabel(names=[f"c{k}" for k in range(classes)])}
    content = {column: [png(image) for image in pixels], label: labels}
    if label == "fine_label":
        features["coarse_label"] = datasets.ClassLabel(names=[f"d{k}" for k in range(20)])
        content["coarse_label"] = [0] * len(labels)
    return datasets.Dataset.from_dict(content, features=datasets.Features(features))


@pytest.mark.parametrize(
    ("name", "column", "label", "classes"), [("cifar10", "img", "label", 10), ("cifar100", "img", "fine_label", 100)]
)
def test_cifar_keeps_its_order(name: str, column: str, label: str, classes: int) -> None:
    pixels = RANDOM.integers(256, size=(9, 32, 32, 3), dtype=np.uint8)
    labels = RANDOM.integers(classes, size=9).tolist()
    parts = {
        "train": pictures(pixels[:6], labels[:6], column, classes, label),
        "test": pictures(pixels[6:], labels[6:], column, classes, label),
    }
    told: list[tuple[int, int]] = []
    decoded = convert(name, parts, lambda done, total: told.append((done, total)))
    assert (decoded.train.inputs == pixels[:6]).all()
    assert (decoded.test.inputs == pixels[6:]).all()
    assert [*decoded.train.targets, *decoded.test.targets] == labels
    assert decoded.train.targets.dtype == np.int64
    assert decoded.classes == tuple(f"c{k}" for k in range(classes))
    assert decoded.raw_input is not None
    assert decoded.raw_input["kind"] == "picture"
    assert told == [(6, 9), (9, 9)]


def test_fashion_mnist_is_grey_and_has_its_official_classes() -> None:
    pixels = RANDOM.integers(256, size=(4, 28, 28), dtype=np.uint8)
    data = pictures(pixels, [3, 1, 9, 0], "image", 10)
    decoded = convert("fashion-mnist", {"train": data, "test": data}, silent)
    assert (decoded.train.inputs == pixels[..., None]).all()
    assert decoded.classes[0] == "T-shirt/top"
    assert decoded.train.targets.tolist() == [3, 1, 9, 0]


def test_tiny_imagenet_lies_by_class_and_is_shuffled() -> None:
    pixels = np.repeat(np.arange(60, dtype=np.uint8), 64 * 64 * 3).reshape(60, 64, 64, 3)
    labels = [k // 20 for k in range(60)]
    data = pictures(pixels, labels, "image", 3)
    # some are grey
    grey = pictures(pixels[..., 0], labels, "image", 3)
    decoded = convert("tiny-imagenet", {"train": data, "test": grey}, silent)
    for part in (decoded.train, decoded.test):
        assert part.inputs.shape == (60, 64, 64, 3)
        which = part.inputs[:, 5, 5, 2].tolist()
        assert sorted(which) == list(range(60))
        assert [k // 20 for k in which] == part.targets.tolist()
        assert set(part.targets[:20].tolist()) == {0, 1, 2}
    assert decoded.train.targets.tolist() != decoded.test.targets.tolist()


def spoken(clips: list[tuple[bytes | None, int, str | None]]) -> Any:
    """As on the hub; sound could not be written in its own type without another package, so it is cast to that."""
    content = {
        "file": [f"{k}.wav" for k in range(len(clips))],
        "audio": [{"bytes": sound, "path": "/etc/hostname"} for sound, _, _ in clips],
        "label": [label for _, label, _ in clips],
        "is_unknown": [False] * len(clips),
        "speaker_id": [speaker for _, _, speaker in clips],
        "utterance_id": [0] * len(clips),
    }
    plain = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    features = datasets.Features(
        {
            "file": datasets.Value("string"), "audio": plain, "label": datasets.ClassLabel(names=WORDS),
            "is_unknown": datasets.Value("bool"), "speaker_id": datasets.Value("string"),
            "utterance_id": datasets.Value("int8"),
        }
    )  # fmt: skip
    made = datasets.Dataset.from_dict(content, features=features)
    return made.cast_column("audio", datasets.Audio(sampling_rate=16_000))


def test_spoken_words_are_what_the_official_files_give(tmp_path: Path) -> None:
    # of these two, the rule by speaker gives the first to training and the second to testing
    by_part = {"train": ("012c8314", 7), "test": (_speaker("testing"), 5)}
    parts = {}
    for part, (speaker, count) in by_part.items():
        clips: list[tuple[bytes | None, int, str | None]] = [(wav(np.zeros(40_000), 16_000), 3, None)]
        for k in range(count):
            sound = wav(RANDOM.normal(size=16_000 - 100 * k) / 10, 16_000)
            clips.append((sound, k % 3, speaker))
            (tmp_path / WORDS[k % 3]).mkdir(exist_ok=True)
            (tmp_path / WORDS[k % 3] / f"{speaker}_nohash_{k}.wav").write_bytes(sound)
        parts[part] = spoken(clips)
    decoded, official = convert("speech-commands", parts, silent), find_speech_commands(tmp_path).read(silent)
    assert decoded.classes == official.classes == ("backward", "no", "yes")
    assert sorted(decoded.owners) == sorted(official.owners)
    for part, other in ((decoded.train, official.train), (decoded.test, official.test)):
        assert part.owner is not None
        assert other.owner is not None
        assert part.inputs.shape[1:] == (49, 40, 1)
        mine, theirs = (
            sorted((image.tobytes(), int(target), int(owner)) for image, target, owner in zip(*which, strict=True))
            for which in ((part.inputs, part.targets, part.owner), (other.inputs, other.targets, other.owner))
        )
        assert mine == theirs
    assert "4,890 clips with silence among them, not the official 11,005" in decoded.about["remark"]


def _speaker(part: str) -> str:
    return next(f"{k:08x}" for k in range(1000) if official_split(f"{k:08x}") == part)


def test_excerpts_are_what_the_benchmarks_files_give(tmp_path: Path) -> None:
    said = {
        "HAMLET": "To be, or not to be: that is the question. " * 20,
        "OPHELIA": "Good my lord, how does your? " * 30,
    }
    user_data = {
        role: {"x": [text[k : k + 80] for k in range(len(text) - 80)], "y": list(text[80:])}
        for role, text in said.items()
    }
    sizes = [len(user_data[role]["y"]) for role in said]
    document = {"users": list(said), "num_samples": sizes, "user_data": user_data}
    (tmp_path / "all_data.json").write_text(json.dumps(document))
    official = find_shakespeare(tmp_path).read(silent)
    # the roles take turns: each one's own order is kept, whatever lies between
    rows = sorted((k, role) for role in said for k in range(len(user_data[role]["y"])))
    data = datasets.Dataset.from_dict(
        {
            "character_id": [role for _, role in rows],
            "x": [user_data[role]["x"][k] for k, role in rows],
            "y": [user_data[role]["y"][k] for k, role in rows],
        }
    )
    told: list[tuple[int, int]] = []
    decoded = convert("shakespeare", {"train": data}, lambda done, total: told.append((done, total)))
    assert told[-1] == (len(rows), len(rows))
    assert decoded.kind == "text"
    assert decoded.owners == official.owners == ("HAMLET", "OPHELIA")
    for part, other in ((decoded.train, official.train), (decoded.test, official.test)):
        assert (part.inputs == other.inputs).all()
        assert (part.targets == other.targets).all()
        assert part.owner is not None
        assert (part.owner == other.owner).all()
    assert "".join(LETTERS[k] for k in decoded.train.inputs[0]) in said[decoded.owners[int(decoded.train.owner[0])]]  # type: ignore[index]


def test_excerpts_in_another_order_are_refused() -> None:
    text = "To be, or not to be: that is the question. " * 20
    rows = [(text[k : k + 80], text[k + 80]) for k in range(len(text) - 80)]
    rows[300:302] = rows[300:302][::-1]
    data = datasets.Dataset.from_dict({"character_id": ["HAMLET"] * len(rows), "x": [x for x, _ in rows],
                                       "y": [y for _, y in rows]})  # fmt: skip
    with pytest.raises(InputError, match=r"shakespeare/train .*'HAMLET' in the order of the text.* sample 300"):
        convert("shakespeare", {"train": data}, silent)


SQUARE = np.zeros((2, 8, 8, 3), np.uint8)
GOOD = pictures(SQUARE, [0, 1], "img", 10)


@pytest.mark.parametrize(
    ("name", "parts", "said"),
    [
        ("cifar10", {"test": pictures(SQUARE, [0, 1], "image", 10)}, "cifar10/test .*the columns img, label.* lacks i"),
        ("cifar10", {"train": GOOD.select([])}, "cifar10/train .*at least one sample"),
        ("cifar10", {"train": pictures(SQUARE, [0, None], "img", 10)}, "cifar10/train/1 .*a label from 0 to 9"),
        ("cifar10", {"test": pictures(SQUARE, [0, 1], "img", 9)}, "cifar10/test .*the classes of the training split"),
        ("cifar10", {"test": pictures(SQUARE[:, 1:], [0, 1], "img", 10)}, r"test/0 .*\(8, 8, 3\).*has \(7, 8, 3\)"),
        ("cifar10", {"test": GOOD.cast_column("label", datasets.Value("int64"))}, "'label' to be of type ClassLabel"),
        ("speech-commands", {"train": spoken([(None, 0, "a")])}, "the bytes of a file in every row of column 'audio'"),
        ("speech-commands", {"train": spoken([(b"RIFF", 0, "a")])}, "train/0 .*a WAVE file"),
        ("speech-commands", {"train": spoken([(wav(np.ones(9) / 2, 16_000), 0, None)])}, "train/0 .*a name in column"),
        ("speech-commands", {"train": spoken([(wav(np.ones(9) / 2, 16_000), 3, None)])}, "train .*at least one word"),
    ],
)  # fmt: skip
def test_what_is_not_as_it_is_on_the_hub_is_refused(name: str, parts: dict[str, Any], said: str) -> None:
    good = {"cifar10": GOOD, "speech-commands": spoken([(wav(np.ones(9) / 2, 16_000), 0, "a")])}[name]
    with pytest.raises(InputError, match=said):
        convert(name, {"train": good, "test": good, **parts}, silent)


@pytest.fixture
def greeted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Of which repositories it was arguments whether they are there."""
    arguments: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(
        huggingface_hub.HfApi,
        "dataset_info",
        lambda self, repository, **options: arguments.append((repository, options)),
    )
    return arguments


@pytest.mark.parametrize("name", sorted(HUB))
def test_what_the_hub_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch, greeted: list[Any]) -> None:
    arguments = []

    def load_dataset(repository: str, configuration: str | None, **options: Any) -> Any:
        arguments.append((repository, configuration, options))
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    said = rf"^data='{name}' could not be fetched: {HUB[name].repository} of .* gave ConnectionError: no route"
    with pytest.raises(InputError, match=said) as refused:
        fetch(name, silent)
    assert refused.match("official files into a folder")
    assert "trust_remote_code" not in arguments[0][2]
    assert arguments[0][2]["split"] == "train"
    assert greeted == [(HUB[name].repository, {"timeout": 10})]


def test_a_hub_that_is_not_there_is_asked_once(monkeypatch: pytest.MonkeyPatch, greeted: list[Any]) -> None:
    def refuse(api: Any, repository: str, **options: Any) -> None:
        greeted.append(repository)
        raise ConnectionError("name not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", refuse)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("arguments again"))
    with pytest.raises(InputError, match=r"cifar10 of the .* gave ConnectionError: name not known\. Alternatively"):
        fetch("cifar10", silent)
    assert greeted == ["uoft-cs/cifar10"]


def test_offline_the_hub_is_not_asked(monkeypatch: pytest.MonkeyPatch, greeted: list[Any]) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: GOOD)
    assert fetch("cifar10", silent).train.targets.tolist() == [0, 1]
    assert greeted == []


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r'pip install "smofi\[datasets\]"'):
        fetch("cifar10", silent)
