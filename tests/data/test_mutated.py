"""Files damaged at random give data or a sentence: no traceback, no endless reading, no more memory than is allowed.

SMOFI_MUTATIONS=SEED,COUNT tries others, and more or fewer of each.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import resource
import signal
import struct
import wave
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from PIL import Image

from smofi.clock.devices import read_devices, read_traces
from smofi.data.cache import with_moments
from smofi.data.decoded import DataFiles, silent
from smofi.data.readers.cifar import find_cifar10
from smofi.data.readers.csv import find_csv
from smofi.data.readers.folder import find_folder
from smofi.data.readers.idx_files import find_fashion_mnist
from smofi.data.readers.npz import find_npz
from smofi.data.readers.shakespeare import find_shakespeare
from smofi.data.readers.speech_commands import find_speech_commands
from smofi.data.source import as_source
from smofi.errors import InputError
from smofi.memory import refusing
from support.mutations import Damage, inside_gzip, inside_png, inside_zip, mutated

SEED, COUNT = map(int, os.environ.get("SMOFI_MUTATIONS", "0,1000").split(","))
MEMORY, SECONDS = 2 << 30, 30
"""More than the process has when the test begins, and for one file."""


class TooSlow(BaseException):
    """Not an exception, so that nobody takes it for damage."""


@dataclass(frozen=True)
class Kind:
    """One kind of file: the good ones, the one that is damaged, how, and who reads it."""

    files: dict[str, bytes]
    damaged: str
    damage: Damage
    read: Callable[[Path], object]


def data_set(find: Callable[[Path], DataFiles], name: str = "") -> Callable[[Path], object]:
    """Reads as `smofi.data.load` does, but for the cache."""

    def read(folder: Path) -> object:
        with refusing("data"):
            return as_source("mutated", with_moments(find(folder / name).read(silent)))

    return read


def table() -> bytes:
    rows = (f"{k / 7:.3f},{k % 5},{'ab'[k % 2]},site {k % 3},{('train', 'test')[k % 4 == 0]}" for k in range(40))
    return "\n".join(("height,weight,label,client,split", *rows)).encode()


def arrays() -> bytes:
    file = io.BytesIO()
    count = np.arange(20)
    np.savez_compressed(
        file, x=np.zeros((20, 6, 5), np.float32), y=np.array(["cat", "dog"] * 10), client=count % 3, other=count
    )
    return file.getvalue()


def idx(*shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + bytes(int(np.prod(shape)))


def idx_files(ending: str, pack: Callable[[bytes], bytes]) -> dict[str, bytes]:
    sizes = {"train-images-idx3": (6, 5, 4), "train-labels-idx1": (6,), "t10k-images-idx3": (3, 5, 4)}
    shapes = {**sizes, "t10k-labels-idx1": (3,)}
    return {f"{name}-ubyte{ending}": pack(idx(*shape)) for name, shape in shapes.items()}


def sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as clip:
        clip.setparams((1, 2, 16_000, 0, "NONE", ""))
        clip.writeframes(bytes(range(200)) * 100)
    return file.getvalue()


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(256, size=(12, 10, 3), dtype=np.uint8)).save(file, kind)
    return file.getvalue()


def excerpts() -> bytes:
    text = "To be, or not to be, that is the question: " * 5
    users = {f"HAMLET_{k}": {"x": [text[i : i + 80] for i in range(9)], "y": list(text[80:89])} for k in range(2)}
    return json.dumps({"users": list(users), "num_samples": [9, 9], "user_data": users}).encode()


def texts(ending: str, pack: Callable[[bytes], bytes]) -> dict[str, bytes]:
    return {f"{split}/a{ending}": pack(excerpts()) for split in ("train", "test")}


def batch(protocol: int) -> bytes:
    pixels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    return pickle.dumps({"labels": [1, 2], "data": pixels, "filenames": ["a", "b"]}, protocol=protocol)


def batches(protocol: int) -> dict[str, bytes]:
    names = pickle.dumps({"label_names": [f"class {k}" for k in range(10)]}, protocol=protocol)
    return {**{f"data_batch_{k}": batch(protocol) for k in range(1, 6)}, "test_batch": batch(2), "batches.meta": names}


def pictures(kind: str, ending: str, damage: Damage) -> Kind:
    files = {f"{label}/{k}.{ending}": picture(kind) for label in "ab" for k in range(2)}
    return Kind(files, f"a/0.{ending}", damage, data_set(find_folder))


CLIPS = [f"{word}/{speaker}_nohash_0.wav" for word in ("yes", "no") for speaker in ("ab", "cd")]
SPOKEN = {**dict.fromkeys(CLIPS, sound()), "testing_list.txt": "\n".join(CLIPS[1::2]).encode()}
PHONES = "\n".join(["device,ms_per_sample,up_kbps,down_kbps", *(f"phone {k},{k + 1}.5,10,20" for k in range(20))])
TRACES = "\n".join(
    ["device,trace_start_s,trace_end_s,ready_start_s,ready_end_s", *(f"{k % 4},0,100,{k},{k + 1}" for k in range(20))]
)
KINDS: dict[str, Kind] = {
    "csv": Kind({"t.csv": table()}, "t.csv", mutated, data_set(find_csv, "t.csv")),
    "csv.gz": Kind({"t.csv.gz": gzip.compress(table())}, "t.csv.gz", inside_gzip, data_set(find_csv, "t.csv.gz")),
    "npz": Kind({"a.npz": arrays()}, "a.npz", inside_zip, data_set(find_npz, "a.npz")),
    "idx": Kind(idx_files("", bytes), "train-images-idx3-ubyte", mutated, data_set(find_fashion_mnist)),
    "idx.gz": Kind(
        idx_files(".gz", gzip.compress), "t10k-labels-idx1-ubyte.gz", inside_gzip, data_set(find_fashion_mnist)
    ),
    "wav": Kind(SPOKEN, "yes/ab_nohash_0.wav", mutated, data_set(find_speech_commands)),
    "png": pictures("PNG", "png", inside_png),
    "jpg": pictures("JPEG", "jpg", mutated),
    "gif": pictures("GIF", "gif", mutated),
    "webp": pictures("WEBP", "webp", mutated),
    "bmp": pictures("BMP", "bmp", mutated),
    "json": Kind(texts(".json", bytes), "train/a.json", mutated, data_set(find_shakespeare)),
    "json.gz": Kind(texts(".json.gz", gzip.compress), "train/a.json.gz", inside_gzip, data_set(find_shakespeare)),
    "pickle 2": Kind(batches(2), "data_batch_3", mutated, data_set(find_cifar10)),
    "pickle 4": Kind(batches(4), "data_batch_3", mutated, data_set(find_cifar10)),
    "pickled names": Kind(batches(2), "batches.meta", mutated, data_set(find_cifar10)),
    "devices": Kind({"d.csv": PHONES.encode()}, "d.csv", mutated, lambda folder: read_devices(str(folder / "d.csv"))),
    "traces": Kind({"d.csv": TRACES.encode()}, "d.csv", mutated, lambda folder: read_traces(str(folder / "d.csv"))),
}


@pytest.fixture
def bounded() -> Iterator[None]:
    """Little memory, and not for ever."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, hard))
    before = signal.signal(signal.SIGALRM, ring)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def outcome(kind: Kind, folder: Path) -> str:
    """read, refused, or what went wrong."""
    signal.alarm(SECONDS)
    try:
        kind.read(folder)
    except InputError as error:
        sentence = str(error)
        return "refused" if "\n" not in sentence and len(sentence) < 2000 else f"a strange sentence: {sentence!r:.500}"
    except TooSlow:
        return f"read for more than {SECONDS} seconds"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    finally:
        signal.alarm(0)
    return "read"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs to know how much memory it has")
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_give_data_or_a_sentence(name: str, tmp_path: Path, bounded: None) -> None:
    kind = KINDS[name]
    for path, content in kind.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert outcome(kind, tmp_path) == "read"
    counts = {"read": 0, "refused": 0}
    for number in range(COUNT):
        draw = random.Random(zlib.crc32(f"{SEED} {name} {number}".encode()))
        (tmp_path / kind.damaged).write_bytes(kind.damage(kind.files[kind.damaged], draw))
        result = outcome(kind, tmp_path)
        assert result in counts, f"{name}, seed {SEED}, number {number}: {result}"
        counts[result] += 1
    assert counts["refused"] > COUNT / 10
