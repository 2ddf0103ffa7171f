"""A small data set of every kind of raw input, with its test samples as a user would have them."""

from __future__ import annotations

import csv
import json
import unicodedata
import wave
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from smofi import data, models
from smofi.data.loading import DIGITS, TRAIN_SIZE
from smofi.data.shakespeare import LETTERS, Alphabet, nearest
from smofi.seeds import generator
from support.run_folder import SETTINGS, write_run
from support.sounds import tone, write_wav


@dataclass(frozen=True)
class Kind:
    """Where the data is, a model for it, what predict.py is given, and the class of each of its answers in order."""

    data: str
    model: str
    inputs: list[str]
    labels: list[str]
    settings: dict[str, Any] = field(default_factory=dict)

    def source(self) -> data.Source:
        return data.load(self.data, **self.settings)


def table(folder: Path) -> Kind:
    """Columns of different scales, one constant; the test file has them in another order, and one more."""
    folder.mkdir()
    draw = np.random.default_rng(1)
    names = ["weight, g", "b", "same", "class", "site"]
    labels = []
    for split, count in (("train", 40), ("test", 12)):
        with open(folder / f"{split}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for k in range(count):
                flower = ("lily", "rose")[k % 2]
                row = [repr(draw.normal(300 + 90 * (k % 2), 30)), f"{draw.normal():.4f}", "7", flower, f"s{k % 3}"]
                writer.writerow(row)
                labels += [flower] if split == "test" else []
    with open(folder / "test.csv", newline="") as old, open(folder / "raw.csv", "w", newline="") as new:
        csv.writer(new, delimiter=";").writerows(["note", *reversed(row)] for row in csv.reader(old))
    return Kind(f"csv:{folder}", "mlp", [str(folder / "raw.csv")], labels)


def picture(folder: Path) -> Kind:
    """Pictures of many sizes: in colour, grey, with a palette, transparent, turned by the camera."""
    draw = np.random.default_rng(2)
    inputs, labels = [], []
    for split, count in (("train", 6), ("test", 5)):
        for number, name in enumerate(("cat", "dog")):
            (folder / split / name).mkdir(parents=True)
            for k in range(count):
                height, width = draw.integers(9, 30, 2)
                image = Image.fromarray(
                    draw.integers(0, 160, (height, width, 3), dtype=np.uint8) + np.uint8(90 * number)
                )
                image = image.convert(("RGB", "L", "P", "RGBA")[k % 4])
                if image.mode == "RGBA":
                    image.putalpha(100)
                path = folder / split / name / f"{k}.png"
                exif = Image.Exif()
                exif[0x0112] = 6 if k == 4 else 1
                image.save(path, exif=exif)
                if split == "test":
                    inputs.append(str(path))
                    labels.append(name)
    return Kind(f"folder:{folder}", "cnn", inputs, labels, {"image_size": 8})


def digits(folder: Path) -> Kind:
    """The digits to test on, as scikit-learn has them: 64 numbers from 0 to 16 in a line."""
    folder.mkdir()
    rows = np.loadtxt(DIGITS, delimiter=",", dtype=np.int64)
    rows = rows[generator(0, "digits split").permutation(len(rows))][TRAIN_SIZE:]
    np.savetxt(folder / "rows.csv", rows[:, :64], fmt="%d", delimiter=",")
    return Kind("digits", "cnn", [str(folder / "rows.csv")], [str(label) for label in rows[:, 64]])


def sound(folder: Path) -> Kind:
    """Clips of one word at several pitches, shorter and longer than a second."""
    draw = np.random.default_rng(3)
    inputs, labels, tested = [], [], []
    for number, word in enumerate(("high", "low")):
        (folder / word).mkdir(parents=True)
        for k in range(8):
            size = (16_000, 12_345, 20_001)[k % 3]
            tone = np.sin(np.arange(size) * (0.05, 0.4)[number] * draw.uniform(0.8, 1.2)) + draw.normal(0, 0.05, size)
            path = folder / word / f"{k:08x}_nohash_0.wav"
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes((tone * 9_000).astype("<i2").tobytes())
            if k >= 5:
                tested.append(f"{word}/{path.name}")
                inputs.append(str(path))
                labels.append(word)
    (folder / "testing_list.txt").write_text("\n".join(tested) + "\n")
    return Kind("speech-commands", "cnn", inputs, labels, {"folder": folder})


def recordings(folder: Path) -> Kind:
    """Recordings of any rate, length and number of channels, as whole numbers and floating-point ones."""
    draw = np.random.default_rng(5)
    inputs, labels = [], []
    forms = [(16_000, 16, False), (44_100, 24, False), (8_000, 8, False), (22_050, 32, True), (48_000, 32, False)]
    for split in ("train", "test"):
        for number, word in enumerate(("high", "low")):
            for k, (rate, bits, floating) in enumerate(forms):
                heard = tone((900, 200)[number], rate, draw.uniform(0.3, 1.5))[:, None] + draw.normal(
                    0, 0.02, 1 + k % 2
                )
                path = write_wav(folder / split / word / f"{k}.wav", heard, rate, bits, floating=floating)
                if split == "test":
                    inputs.append(str(path))
                    labels.append(word)
    return Kind(f"folder:{folder}", "cnn", inputs, labels)


def text(folder: Path) -> Kind:
    """Two roles with characters that the alphabet lacks; every 80 characters in the last fifth of each."""
    folder.mkdir()
    alphabet = Alphabet(LETTERS, nearest)
    inputs, labels = [], []
    for role in ("ANNA", "BERT"):
        words = f"{role}: Was it Zo\u00eb, cafe\u0301 \u2014 \u201cna\u00efve\u201d?\r\n\tNo\u2026 {{\u4e2d}} " * 16
        (folder / f"PLAY_{role}.txt").write_bytes(words.encode())
        labels += [alphabet.names[int(alphabet.numbers(letter)[0])] for letter in _pieces(words, folder, inputs)]
    return Kind("shakespeare", "transformer", inputs, labels, {"folder": folder})


def own_texts(folder: Path) -> Kind:
    """A text per client, over its own alphabet; at the end of one is a character that was not in training."""
    folder.mkdir()
    inputs: list[str] = []
    labels: list[str] = []
    for name, words in (("homer", "μῆνιν ἄειδε θεὰ,\r\n" * 30), ("proust", "couché de bonne heure.\n" * 25 + "中 bon")):
        (folder / f"{name}.txt").write_bytes(words.encode())
        following = _pieces(words, folder, inputs)
        labels += [{"\n": "\\n", "中": "\ufffd"}.get(letter, letter) for letter in following]
    return Kind(f"folder:{folder}", "transformer", inputs, labels)


def _pieces(words: str, folder: Path, inputs: list[str]) -> list[str]:
    """Write every 80 characters of the last fifth of a text into a file of its own; the character after each."""
    whole = unicodedata.normalize("NFC", words.replace("\r\n", "\n"))
    places = range(len(whole) * 4 // 5, len(whole) - 80)
    for place in places:
        path = folder / f"piece{len(inputs):03d}.piece"
        path.write_bytes(whole[place : place + 80].encode())
        inputs.append(str(path))
    return [whole[place + 80] for place in places]


def array(folder: Path) -> Kind:
    """Images as bytes with their channels first, brought to another size."""
    folder.mkdir()
    draw = np.random.default_rng(4)
    x = draw.integers(0, 256, (30, 3, 11, 14), dtype=np.uint8)
    y = np.array(["left", "right"])[np.arange(30) % 2]
    np.savez(folder / "all.npz", x=x[:20], y=y[:20], x_test=x[20:], y_test=y[20:])
    np.savez(folder / "raw.npz", x=x[20:])
    return Kind(f"npz:{folder / 'all.npz'}", "cnn", [str(folder / "raw.npz")], list(y[20:]), {"image_size": 8})


KINDS: dict[str, Callable[[Path], Kind]] = {
    "table": table,
    "picture": picture,
    "digits": digits,
    "sound": sound,
    "recordings": recordings,
    "text": text,
    "own_texts": own_texts,
    "array": array,
}


def untrained_run(kind: Kind, folder: Path, known: bool = True) -> float:
    """Make `folder` hold a finished run with the model as it began; its accuracy on the test data, as recorded.

    If its preparation is not `known`, the folder is as those of older versions were.
    """
    source = kind.source()
    settings = SETTINGS | {"data": kind.data, "model": kind.model, "norm": None}
    model = models.build(
        kind.model, seed=3, input_shape=source.input_shape, classes=source.classes, width=settings["width"]
    ).eval()
    inputs, targets = source.test.tensors()
    accuracy = float((model(inputs).argmax(1) == targets).float().mean())
    task = source.task()
    if not known:
        del task["preparation"]
    about = json.loads(json.dumps({"task": task}))
    writer = write_run(folder, yaml.safe_dump(settings), [{"round": 1, "accuracy": accuracy}], about)
    writer.write_end(model.state_dict(), {"rounds": 1, "stopped": None, "diverged": False})
    return accuracy
