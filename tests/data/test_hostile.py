"""Hostile and damaged files: each is refused with a sentence, runs nothing and takes no more memory than allowed.

One table names what is refused; another damages good files of every kind at random. SMOFI_MUTATIONS=SEED,COUNT tries
other damages, and more or fewer of each kind.
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
import socket
import struct
import tracemalloc
import wave
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import scipy.io.wavfile
import scipy.signal  # noqa: F401  # loaded here, so that their memory is not that of a file
from PIL import Image

from smofi import data, memory
from smofi.cli import main
from smofi.clock.devices import read_devices, read_traces
from smofi.data import cifar, rows
from smofi.data.cifar import find_cifar10
from smofi.data.decoded import DataFiles, silent, with_moments
from smofi.data.folder import find_folder
from smofi.data.idx_files import find_fashion_mnist
from smofi.data.shakespeare import find_shakespeare
from smofi.data.source import as_source
from smofi.data.speech_commands import find_speech_commands
from smofi.data.tables import find_csv, find_npz
from smofi.errors import InputError
from smofi.memory import limited, refusing
from support.mutations import Damage, inside_gzip, inside_png, inside_zip, mutated
from support.python2 import pickled
from support.sounds import wav

# ----------------------------------------------------------------------------------------------------------- good files

X, Y = np.random.default_rng(0).integers(256, size=(30, 4, 4), dtype=np.uint8), np.arange(30) % 3


def npy(array: Any = X, **header: Any) -> bytes:
    """An array as numpy saves it, or with a header that says something else."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    if not header:
        return file.getvalue()
    file.seek(10 + struct.unpack("<H", file.getvalue()[8:10])[0])
    said = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **header}
    return with_header((repr(said) + "\n").encode()) + file.read()


def with_header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def arrays(**members: bytes) -> bytes:
    return packed({f"{name}.npy": content for name, content in {"x": npy(), "y": npy(Y), **members}.items()})


def lying(place: int, form: str, value: int) -> bytes:
    """An .npz file whose directory says something else at a place of its first entry."""
    content = arrays()
    place += int(struct.unpack("<I", content[-6:-2])[0])
    return content[:place] + struct.pack(form, value) + content[place + struct.calcsize(form) :]


def idx(*shape: int, content: bytes | None = None) -> bytes:
    header = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)
    return header + (bytes(k % 3 for k in range(int(np.prod(shape)))) if content is None else content)


CLOTHES = {"train-images-idx3": (6, 5, 4), "train-labels-idx1": (6,), "t10k-images-idx3": (3, 5, 4),
           "t10k-labels-idx1": (3,)}  # fmt: skip


def clothes(ending: str = "", pack: Callable[[bytes], bytes] = bytes, **changed: bytes) -> dict[str, bytes]:
    files = {f"{name}-ubyte{ending}": pack(idx(*shape)) for name, shape in CLOTHES.items()}
    return {**files, **{f"{name.replace('_', '-')}-ubyte{ending}": content for name, content in changed.items()}}


def picture(kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(np.random.default_rng(0).integers(256, size=(12, 10, 3), dtype=np.uint8))
    image.save(file, kind, **options)
    return file.getvalue()


def sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as clip:
        clip.setparams((1, 2, 16_000, 0, "NONE", ""))
        clip.writeframes(bytes(range(200)) * 100)
    return file.getvalue()


def excerpts() -> bytes:
    text = "To be, or not to be, that is the question: " * 5
    users = {f"HAMLET_{k}": {"x": [text[i : i + 80] for i in range(9)], "y": list(text[80:89])} for k in range(2)}
    return json.dumps({"users": list(users), "num_samples": [9, 9], "user_data": users}).encode()


def texts(ending: str = ".json", pack: Callable[[bytes], bytes] = bytes) -> dict[str, bytes]:
    return {f"{split}/a{ending}": pack(excerpts()) for split in ("train", "test")}


def batches(**changed: bytes) -> dict[str, bytes]:
    pixels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    batch = pickled({"labels": [1, 2], "data": pixels, "filenames": ["a", "b"]})
    names = pickled({"label_names": [f"class {k}" for k in range(10)]})
    return {**{f"data_batch_{k}": batch for k in range(1, 6)}, "test_batch": batch, "batches.meta": names, **changed}


CLIPS = [f"{word}/{speaker}_nohash_0.wav" for word in ("yes", "no") for speaker in ("ab", "cd")]
SPOKEN = {**dict.fromkeys(CLIPS, sound()), "testing_list.txt": "\n".join(CLIPS[1::2]).encode()}
PETS = {f"{label}/{k}.png": picture() for label in "ab" for k in range(2)}
TABLE = "\n".join(
    ("height,weight,label,client,split",
     *(f"{k / 7:.3f},{k % 5},{'ab'[k % 2]},site {k % 3},{('train', 'test')[k % 4 == 0]}" for k in range(40)))
).encode()  # fmt: skip


# ------------------------------------------------------------------------------------------------------ what is refused


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_header(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def bmp_header(width: int, height: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(4)


def gif_header(width: int, height: int) -> bytes:
    screen = struct.pack("<HHBBB", width, height, 0, 0, 0)
    return b"GIF89a" + screen + b"," + struct.pack("<HHHHBB", 0, 0, width, height, 0, 8)


def webp_header(width: int, height: int) -> bytes:
    sizes = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + sizes


def jpeg_header(width: int, height: int) -> bytes:
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\xff\xd9"
    return b"\xff\xd8\xff\xc0" + struct.pack(">H", len(frame) + 2) + frame + scan


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WAVE" + b"".join(name + struct.pack("<I", len(content)) + content for name, content in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


FORM = struct.pack("<HHIIHH", 1, 1, 16_000, 32_000, 2, 16)


@dataclass(frozen=True)
class Bad:
    """Files, the data that they are said to be, the one that is refused, and words of the sentence."""

    files: dict[str, bytes]
    name: str
    refused: str
    said: str


def bad_npz(content: bytes, said: str) -> Bad:
    return Bad({"a.npz": content}, "npz:{}/a.npz", "a.npz", said)


def bad_csv(content: bytes, said: str, name: str = "t.csv.gz") -> Bad:
    return Bad({name: gzip.compress(content) if name.endswith("gz") else content}, f"csv:{{}}/{name}", name, said)


def bad_picture(content: bytes, said: str = "a picture of 1 to 16,000,000 pixels") -> Bad:
    return Bad({**PETS, "b/0.png": content}, "folder:{}", "b/0.png", said)


def bad_idx(said: str, **changed: bytes) -> Bad:
    ((name, content),) = changed.items()
    refused = f"{name.replace('_', '-')}-ubyte.gz"
    return Bad(clothes(".gz", gzip.compress, **{name: gzip.compress(content)}), "fashion-mnist", refused, said)


def bad_clip(content: bytes, said: str = "a WAVE file of plain samples") -> Bad:
    return Bad({**SPOKEN, CLIPS[0]: content}, "speech-commands", CLIPS[0], said)


def bad_recording(content: bytes, said: str) -> Bad:
    clips = {f"{label}/{k}.wav": wav(np.zeros(800), 8_000) for label in "ab" for k in range(2)}
    return Bad({**clips, "a/0.wav": content}, "folder:{}", "a/0.wav", said)


def bad_json(content: bytes, said: str, ending: str = ".json") -> Bad:
    packed_up = gzip.compress(content) if ending.endswith("gz") else content
    return Bad({**texts(ending), f"train/a{ending}": packed_up}, "shakespeare", f"train/a{ending}", said)


def bad_list(entry: str) -> Bad:
    listed = SPOKEN["testing_list.txt"] + b"\n" + entry.encode()
    return Bad({**SPOKEN, "testing_list.txt": listed}, "speech-commands", "testing_list.txt", f"one is {entry!r}")


UNLIKELY = "a picture (JPEG, PNG, BMP, GIF, WEBP), but it is not one"
EVIL = b"cos\nsystem\n(S'touch executed'\ntR."
REFUSED: dict[str, Bad] = {
    # zip files
    "npz of text": bad_npz(b"hello", "an undamaged .npz file"),
    "npz cut": bad_npz(arrays()[:-30], "an undamaged .npz file"),
    "npz without an array": bad_npz(packed({"x.npy": npy(), "z.npy": npy(Y)}), "x and y, but there is no y, only x, z"),
    "npz of objects": bad_npz(arrays(x=npy(X.astype(object))), "numbers or words in 'x.npy', but its type is object"),
    "npz of records": bad_npz(arrays(x=npy(np.zeros(3, "i4,f4"))), "numbers or words in 'x.npy'"),
    "npz of dates": bad_npz(arrays(x=npy(descr="datetime64[s]")), "numbers or words in 'x.npy'"),
    "npz of empty words": bad_npz(arrays(x=npy(X[:0], descr="<U0", shape=(2**31,))), "numbers or words in 'x.npy'"),
    "npz of no numpy": bad_npz(arrays(x=b"\x93NUMPX\x01\x00" + npy()[8:]), "an undamaged .npz file (the magic string"),
    "npz of a strange version": bad_npz(arrays(x=b"\x93NUMPY\x09\x00" + npy()[8:]), "its format is (9, 0)"),
    "npz header cut": bad_npz(arrays(x=npy()[:60]), "an undamaged .npz file"),
    "npz array cut": bad_npz(arrays(x=npy()[:-1]), "608 bytes in 'x.npy', as it claims"),
    "npz array too long": bad_npz(arrays(x=npy() + b"1"), "but it has 609"),
    "npz of 2^62 bytes": bad_npz(arrays(x=npy(shape=(2**31, 2**31))), "bytes in 'x.npy', as it claims shape [2147483"),
    "npz of no end": bad_npz(arrays(x=npy(shape=(10**30,))), "bytes in 'x.npy', as it claims"),
    "npz of negative size": bad_npz(arrays(x=npy(shape=(-30, -16))), "bytes in 'x.npy', as it claims"),
    "npz of a huge header": bad_npz(
        arrays(x=b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{" * 500), "an undamaged .npz file"
    ),
    "npz header of brackets": bad_npz(arrays(x=with_header(b"(" * 9000)), "an undamaged .npz file"),
    "npz header with code": bad_npz(
        arrays(x=with_header(b"__import__('os').system('touch executed')")), "an undamaged .npz file"
    ),
    "npz encrypted": bad_npz(lying(8, "<H", 1), "an undamaged .npz file"),
    "npz packed otherwise": bad_npz(lying(10, "<H", 14), "stored or deflated, but 'x.npy' is packed in another way"),
    "npz bomb": bad_npz(lying(24, "<I", 2**31), "possible sizes, but 'x.npy' claims 2,147,483,648 bytes out of"),
    "npz checksum": bad_npz(lying(16, "<I", 7), "Bad CRC-32"),
    "npz of 50 MB of zeros": bad_npz(
        arrays(x=npy(np.zeros((10, 5_000_000), np.uint8))), "what fits into the 0 MB that memory_limit=60MB leaves"
    ),
    "npz directory": bad_npz(packed({f"{k:0200}.npy": b"" for k in range(5000)}), "longer than 1,048,576 bytes"),
    # tables
    "csv of one number": bad_csv(b"a,y\n" + b"1" * 30_000_000, "lines below 4,194,304 characters, but line 2"),
    "csv of quotes": bad_csv(b'a,y\n"' * 1_000_000, "a row of fields in line 2"),
    "csv of commas": bad_csv(b"," * 4_000_000 + b"\n", "a name for every column"),
    "csv cut": Bad({"t.csv.gz": gzip.compress(TABLE)[:-9]}, "csv:{}/t.csv.gz", "t.csv.gz", "be read to its end"),
    "csv of zeros": bad_csv(bytes(100), "names of columns in the first line", "t.csv"),
    # pictures
    "png": bad_picture(png_header(4001, 4000)),
    "png without end": bad_picture(png_header(2**31 - 1, 2**31 - 1)),
    "bmp": bad_picture(bmp_header(2**31 - 1, 2**31 - 1)),
    "gif": bad_picture(gif_header(65535, 65535)),
    "webp": bad_picture(webp_header(2**24, 255)),
    "jpeg": bad_picture(jpeg_header(65535, 65535)),
    "tiff": bad_picture(picture("TIFF"), UNLIKELY),
    "pdf": bad_picture(b"%PDF-1.4", UNLIKELY),
    "nothing": bad_picture(b"", UNLIKELY),
    "png cut": bad_picture(picture()[:200], "an undamaged picture"),
    # idx
    "idx of nothing": bad_idx("begins with 00 00 08 03, but it begins with nothing", train_images_idx3=b""),
    "idx of floats": bad_idx("begins with 00 00 08 01, but it begins", train_labels_idx1=b"\0\0\x0d" + idx(6)[3:]),
    "idx without pictures": bad_idx("but it announces 0 x 5 x 3", train_images_idx3=idx(0, 5, 3)),
    "idx header": bad_idx("announces", train_images_idx3=idx(2**31, 28, 28, content=bytes(100))),
    "idx cut": bad_idx("76 bytes for the 3 x 5 x 4 it announces, but it has 75", t10k_images_idx3=idx(3, 5, 4)[:-1]),
    "idx bomb": bad_idx("it unpacks to more than 2 x", train_images_idx3=idx(6, 5, 4) + bytes(50_000_000)),
    "idx of other labels": bad_idx("at most 14 bytes, but it unpacks to more", train_labels_idx1=idx(10**7)),
    "idx of labels above 9": bad_idx("labels from 0 to 9, but one is 10", t10k_labels_idx1=idx(3, content=b"\0\1\x0a")),
    # sound
    "wav of nothing": bad_clip(b""),
    "wav of another kind": bad_clip(b"OggS" + bytes(100)),
    "wav cut": bad_clip(sound()[:-1]),
    "wav header": bad_clip(b"RIFF\xff\xff\xff\xffWAVE" + riff((b"fmt ", FORM))[12:] + b"data\xff\xff\xff\xff1234"),
    "wav without samples": bad_clip(riff((b"fmt ", FORM), (b"data", b"")), "at least one sample"),
    "wav without a form": bad_clip(riff((b"data", b"1234"), (b"fmt ", FORM))),
    "wav without channels": bad_clip(riff((b"fmt ", FORM[:2] + b"\0\0" + FORM[4:]), (b"data", b"1234"))),
    "wav in stereo": bad_clip(wav(np.zeros((4, 2)), 16_000), "of one channel and 16 bits, but it has 16,000 Hz, shape"),
    "wav of 8,000 Hz": bad_clip(wav(np.zeros(4), 8_000), "samples at 16,000 Hz, of one channel"),
    "recording of 500 Hz": bad_recording(wav(np.zeros(4), 500), "a rate of 1,000 to 768,000 Hz in a simple ratio"),
    "recording of 767,999 Hz": bad_recording(wav(np.zeros(4), 767_999), "in a simple ratio to 16,000, but it has"),
    "recording without numbers": bad_recording(wav(np.array([0, np.nan]), 8_000, 64, floating=True), "finite numbers"),
    "recording of large numbers": bad_recording(wav(np.array([0, 1e300]), 8_000, 64, floating=True), "finite numbers"),
    "clip by another path": bad_list("../yes/ab_nohash_0.wav"),
    "clip by a whole path": bad_list("/etc/passwd"),
    "clip above": bad_list("yes/../../ab_nohash_0.wav"),
    # json
    "json cut": bad_json(excerpts()[:-9], "a json file"),
    "json nested": bad_json(b"[" * 100_000, "nested too deeply"),
    "json of one number": bad_json(b"9" * 5000, "a json file"),
    "json of lists": bad_json(b"[" + b"[]," * 1_500_000 + b"[]]", "it has 3,000,002 values in 4,500,004 bytes"),
    "json bomb": bad_json(b"[" + b" " * 70_000_000 + b"]", "it unpacks to more than 2 x", ".json.gz"),
    # pickles
    "pickle of another file": Bad(
        batches(**{"batches.meta": EVIL}), "cifar10", "batches.meta",
        "the official file, of MD5 5ff9c542aee3614f3951f8cda6e48888, but it has",
    ),
    # paths
    "picture of another folder": Bad(
        {"wnids.txt": b"../../etc\nn00000003\n", "val/val_annotations.txt": b"", "train/a": b""},
        "tiny-imagenet", "wnids.txt", "n and eight digits, but there is '../../etc'",
    ),
    "list of other files": Bad(
        {**PETS, "clients.csv": b"file,client\na/0.png,a\n../y.png,a\n"},
        "folder:{}", "clients.csv", "but '../y.png' of line 3 is not",
    ),
}  # fmt: skip


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("SMOFI_DATA", str(home))
    monkeypatch.chdir(home)
    return home


@pytest.mark.parametrize("name", REFUSED)
def test_each_is_refused_with_a_sentence_and_takes_little_memory(name: str, tmp_path: Path, home: Path) -> None:
    bad = REFUSED[name]
    write(tmp_path, bad.files)
    how: dict[str, Any] = {} if ":" in bad.name else {"folder": tmp_path}
    if "MB" in name or "bomb" in name:
        how["memory_limit"] = "60MB"
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        data.load(bad.name.format(tmp_path), **how)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = str(caught.value)
    assert f"{tmp_path / bad.refused} is not accepted: expected " in said
    assert bad.said in said
    assert "\n" not in said
    assert len(said) < 2000
    assert taken < 2**22 + 2 * max(map(len, bad.files.values())) + (140_000_000 if "csv" in name else 0)
    assert not (home / "executed").exists()


def test_no_pickle_calls_anything_even_if_its_checksum_were_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    official = cifar.MD5["cifar-10-batches-py"]
    good = batches()
    good = {name: good[name] for name in official}
    for content, said in (
        (EVIL, "it has the name 'os system'"),
        (pickle.dumps(zlib.compress, 2), "it has the name 'zlib compress'"),
        (b"\x80\x02cnumpy\nload\n.", "it has the name 'numpy load'"),
        (pickle.dumps({"labels": np.array([{}], object)}, 4), "it has the name 'numpy._core.multiarray _reconstruct'"),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.", "a pickled dict of lists and arrays"),
        (pickle.dumps([1], 2), "a pickled dict of lists and arrays"),
        (good["data_batch_3"][:-9], "a pickled dict of lists and arrays"),
    ):
        files = {**good, "data_batch_3": content}
        write(tmp_path, files)
        for name, one in files.items():
            monkeypatch.setitem(official, name, cifar.hashlib.md5(one).hexdigest())
        with pytest.raises(InputError, match=r"data_batch_3 is not accepted: expected a pickled dict") as caught:
            find_cifar10(tmp_path).read(silent)
        assert said in str(caught.value)
    assert not (home / "executed").exists()


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("a.png", "folder:{}", "a picture, at most 100,000,000 bytes, but it has 1,099,511,627,776"),
        ("a.wav", "folder:{}", "a WAVE file, at most 1,073,741,824 bytes, but it has"),
        ("t.csv", "csv:{}/t.csv", "a table of at most 2,147,483,648 bytes, but it has"),
        ("train-images-idx3-ubyte", "fashion-mnist", "at most 2,147,483,648 bytes, but it has"),
        ("data_batch_1.bin", "cifar10", "at most 634,400,000 bytes, but it has"),
        ("testing_list.txt", "speech-commands", "at most 33,554,432 bytes, but it has"),
        ("train/a.json", "shakespeare", "at most 1,073,741,824 bytes, but it has"),
    ],
)
def test_a_file_of_a_terabyte_is_not_read(name: str, source: str, said: str, tmp_path: Path) -> None:
    others = {"fashion-mnist": clothes(), "speech-commands": SPOKEN, "shakespeare": texts()}.get(source, {})
    if source == "cifar10":
        others = {**{f"data_batch_{k}.bin": b"" for k in range(2, 6)}, "test_batch.bin": b""}
        others["batches.meta.txt"] = "\n".join(f"class {k}" for k in range(10)).encode()
    if source == "folder:{}":
        content = picture() if name == "a.png" else sound()
        others = {f"{label}/{k}{Path(name).suffix}": content for label in "ab" for k in range(2)}
        name = f"a/0{Path(name).suffix}"
    write(tmp_path, {**others, name: others.get(name, b"")})
    os.truncate(tmp_path / name, 2**40)  # takes no room on the disk
    tracemalloc.start()
    with pytest.raises(InputError) as caught:
        data.load(source.format(tmp_path), **({} if ":" in source else {"folder": tmp_path}))
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()
    assert str(caught.value).startswith(f"{tmp_path / name} is not accepted: expected ")
    assert said in str(caught.value)


# --------------------------------------------------------------------------------------------- what memory has room for


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The sentence with which `smofi plan` refuses."""
    assert main(["plan", *map(str, arguments)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    return printed


ROOMLESS: dict[str, tuple[dict[str, bytes], list[str], str]] = {
    "npz": (
        {"a.npz": arrays(x=npy(np.zeros((500, 40, 40), np.float32)), y=npy(np.arange(500) % 2))},
        ["--data", "npz:{}/a.npz", "--model", "cnn"],
        "x takes 500 x 40 x 40 x 9 bytes (4 in the file, 5 to convert and shuffle them) = 7.2 MB, and all arrays",
    ),
    "idx": (
        clothes(".gz", gzip.compress, train_images_idx3=gzip.compress(idx(2000, 30, 40)),
                train_labels_idx1=gzip.compress(idx(2000))),
        ["--data", "fashion-mnist", "--data-folder", "{}"],
        "it unpacks to more than 2 x 1,048,576 bytes",
    ),
    "resized": ({}, ["--image-size", "1024"], "1,437 x 1024 x 1024 x 1 x 4 bytes = 6.0 GB"),
    "pictures": (
        {f"{name}.png": picture() for name in ("a/1", "a/2", "b/1", "b/2")},
        ["--data", "folder:{}", "--image-size", "600"],
        "its pictures take 4 x 600 x 600 x 3 bytes",
    ),
    "recordings": (
        {f"{name}.wav": wav(np.zeros(160_000), 16_000) for name in ("a/1", "a/2", "b/1", "b/2")},
        ["--data", "folder:{}"],
        "its recordings take 4 x 499 x 40 bytes + 32 x 64 x 160,000 while they are decoded = 328 MB",
    ),
    "rows": (
        {"t.csv.gz": gzip.compress(b"a,b,c,d,y\n" + b"0,0,0,0,cat\n1,1,1,1,dog\n" * 50_000, 1)},
        ["--data", "csv:{}/t.csv.gz", "--model", "mlp"],
        "but its first 10,481 rows take 13 x 10,481 x 4 bytes for numbers + 0.5 MB for words = 1 MB",
    ),
    "words": (
        {"t.csv": b"a,y\n" + b"".join(b"0,%d%s\n" % (k, b"x" * 9000) for k in range(2000))},
        ["--data", "csv:{}/t.csv", "--model", "mlp"],
        "its first 113 rows take 13 x 113 x 1 bytes for numbers + 1.1 MB for words = 1.1 MB",
    ),
    "json": (
        {"roles.json": b"[" + b" " * 700_000 + b"]"},
        ["--data", "shakespeare", "--data-folder", "{}", "--model", "transformer"],
        "but it takes 6 x 700,002 bytes + 64 x 1 values = 4.2 MB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROOMLESS)
def test_what_does_not_fit_is_refused_with_the_arithmetic(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, arguments, said = ROOMLESS[kind]
    write(tmp_path, files)
    found = refusal(capsys, *(one.format(tmp_path) for one in arguments), "--memory-limit", "9MB")
    assert "fit" in found
    assert "the 0 MB that memory_limit=9MB leaves" in found
    assert said in found


def test_without_a_limit_it_is_the_machine_that_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 7_000_000)
    write(tmp_path, ROOMLESS["npz"][0])
    with pytest.raises(InputError, match=r"fits into the 7 MB of memory available, but x takes .* = 7\.2 MB"):
        data.load(f"npz:{tmp_path / 'a.npz'}")
    monkeypatch.setattr(memory, "available", lambda: 0)
    (tmp_path / "devices.csv").write_text("ms_per_sample,kbps\n" + "1,1\n" * 10_000)
    with pytest.raises(InputError, match=r"devices=.* fits into the 0 MB .*, but its first 3,319 lines take 1 MB"):
        read_devices(str(tmp_path / "devices.csv"))


def test_what_is_not_needed_is_not_unpacked(tmp_path: Path) -> None:
    write(tmp_path, {"a.npz": arrays(big=npy(np.zeros(30_000_000, np.uint8)), objects=npy(np.array([{}], object)))})
    tracemalloc.start()
    decoded = find_npz(tmp_path / "a.npz").read(silent)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert decoded.about["left_out"] == "keys that are not used: big, objects"


def test_a_packed_table_may_not_grow_without_end_nor_have_nothing_but_blank_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv.gz"
    with monkeypatch.context() as patch:
        patch.setattr(rows, "SMALL", 1 << 18)
        path.write_bytes(gzip.compress(b"a,y\n" + b"0,1\n" * 150_000))
        said = f"packed to no less than a 250th, but its {path.stat().st_size:,} bytes unpack to more than 262,144; if"
        with pytest.raises(InputError, match=rf"{said} they should, unpack it first: gunzip t\.csv\.gz$"):
            find_csv(path).read(silent)
    monkeypatch.setattr(rows, "MOST_BLANK", 1000)
    path.write_bytes(gzip.compress(b"a,y\n" + b"\n" * 9000))
    with pytest.raises(InputError, match=r"rows, but of the first 2,003 lines 2,002 are blank"):
        find_csv(path).read(silent)
    path.write_bytes(gzip.compress(b"a,y\n\n" + b"0,1\n\n1,2\n\n" * 900))
    assert len(find_csv(path).read(silent).train.targets) == 1440


# ------------------------------------------------------------------------------------------- pipes, sockets and devices


def plug(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's name may be short only
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture
def at_once() -> Iterator[None]:
    """What takes ten seconds waits for ever."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: pytest.fail("it waits"))
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("make", [os.mkfifo, plug, endless])
@pytest.mark.parametrize(
    ("names", "source"),
    [
        (["t.csv.gz"], "csv:{}/t.csv.gz"),
        (["train.csv", "test.csv"], "csv:{}"),
        (["a.npz"], "npz:{}/a.npz"),
        (["a/1.png", "b/1.png", "b/2.png"], "folder:{}"),
        (["a/1.wav", "b/1.wav", "b/2.wav"], "folder:{}"),
        (["clients.csv"], "folder:{}"),
        ([f"{name}-ubyte.gz" for name in CLOTHES], "fashion-mnist"),
        (list(batches()), "cifar10"),
        (["yes/ab_nohash_0.wav", "testing_list.txt"], "speech-commands"),
        (["train/a.json", "test/a.json"], "shakespeare"),
        (["wnids.txt"], "tiny-imagenet"),
    ],
)
def test_nothing_waits_for_a_pipe(
    make: Callable[[Path], None], names: list[str], source: str, tmp_path: Path, at_once: None
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        make(tmp_path / name)
    with pytest.raises(InputError, match=str(tmp_path)):
        data.load(source.format(tmp_path), **({} if ":" in source else {"folder": tmp_path}))
    make(tmp_path / "d.csv")
    for read in (read_devices, read_traces):
        with pytest.raises(InputError, match=r"=.*d\.csv' is not accepted: expected a \.csv file that exists"):
            read(str(tmp_path / "d.csv"))


# ------------------------------------------------------------------------------------------------- words and file names


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("key", ["y", "client", "classes"])
def test_a_letter_that_does_not_exist_is_refused(key: str, order: str, tmp_path: Path) -> None:
    words = np.array(["cat", "dog"] * 10, f"{order}U3")
    given = {"x": np.zeros((20, 4), np.float32), "y": words, "client": words, "classes": np.array(["cat", "dog"])}
    np.savez(tmp_path / "good.npz", **given)
    assert find_npz(tmp_path / "good.npz").read(silent).classes == ("cat", "dog")
    bad = given[key].astype(f"{order}U3")
    bad.view(f"{order}u4")[1] = 0x110000
    np.savez(tmp_path / "bad.npz", **{**given, key: bad})
    with pytest.raises(InputError, match=rf"bad\.npz is not accepted: expected {key} .*there is no letter 0x110000"):
        find_npz(tmp_path / "bad.npz").read(silent)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--data", "csv:{}.csv"],
        ["plan", "--data", "folder:{}"],
        ["plan", "--data", "cifar10", "--data-folder", "{}"],
        ["data", "--devices", "{}.csv"],
        ["data", "digits", "--output", "{}.png"],
    ],
)
@pytest.mark.parametrize("name", ["n" * 5000, "/".join(["n" * 200] * 30)])
def test_a_name_that_is_too_long_is_refused(
    name: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(name) for argument in arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert len(printed) < 2100
    assert "Errno" not in printed


def test_links_to_nowhere_and_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    write(tmp_path, PETS)
    (tmp_path / "b" / "9.png").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"b/9\.png is not accepted: expected a "):
        data.load(f"folder:{tmp_path}")
    (tmp_path / "b" / "9.png").unlink()
    (tmp_path / "b" / "again").symlink_to(tmp_path)
    with pytest.raises(InputError, match="no folder nested as deep"):
        data.load(f"folder:{tmp_path}")
    (tmp_path / "b" / "again").unlink()
    try:
        os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(InputError, match=r"expected names of files in UTF-8, but there is '\\udcff'"):
        data.load(f"folder:{tmp_path}")


# ----------------------------------------------------------------------------------------------------- random damages

SEED, COUNT = map(int, os.environ.get("SMOFI_MUTATIONS", "0,20").split(","))
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


def pictures(kind: str, ending: str, damage: Damage) -> Kind:
    files = {f"{label}/{k}.{ending}": picture(kind) for label in "ab" for k in range(2)}
    return Kind(files, f"a/0.{ending}", damage, data_set(find_folder))


WORDS = arrays(
    x=npy(np.zeros((20, 6, 5), np.float32)), y=npy(np.array(["cat", "dog"] * 10)), client=npy(np.arange(20) % 3)
)
RECORDED = {f"{label}/{k}.wav": wav(np.zeros((900, 2)), 22_050, 24) for label in "ab" for k in range(2)}
PHONES = "\n".join(["device,ms_per_sample,up_kbps,down_kbps", *(f"phone {k},{k + 1}.5,10,20" for k in range(20))])
TRACES = "\n".join(
    ["device,trace_start_s,trace_end_s,ready_start_s,ready_end_s", *(f"{k % 4},0,100,{k},{k + 1}" for k in range(20))]
)
KINDS: dict[str, Kind] = {
    "csv": Kind({"t.csv": TABLE}, "t.csv", mutated, data_set(find_csv, "t.csv")),
    "csv.gz": Kind({"t.csv.gz": gzip.compress(TABLE)}, "t.csv.gz", inside_gzip, data_set(find_csv, "t.csv.gz")),
    "npz": Kind({"a.npz": WORDS}, "a.npz", inside_zip, data_set(find_npz, "a.npz")),
    "idx": Kind(clothes(), "train-images-idx3-ubyte", mutated, data_set(find_fashion_mnist)),
    "idx.gz": Kind(
        clothes(".gz", gzip.compress), "t10k-labels-idx1-ubyte.gz", inside_gzip, data_set(find_fashion_mnist)
    ),
    "wav": Kind(SPOKEN, "yes/ab_nohash_0.wav", mutated, data_set(find_speech_commands)),
    "list of clips": Kind(SPOKEN, "testing_list.txt", mutated, data_set(find_speech_commands)),
    "recording": Kind(RECORDED, "a/0.wav", mutated, data_set(find_folder)),
    "png": pictures("PNG", "png", inside_png),
    "jpg": pictures("JPEG", "jpg", mutated),
    "gif": pictures("GIF", "gif", mutated),
    "webp": pictures("WEBP", "webp", mutated),
    "bmp": pictures("BMP", "bmp", mutated),
    "json": Kind(texts(), "train/a.json", mutated, data_set(find_shakespeare)),
    "json.gz": Kind(texts(".json.gz", gzip.compress), "train/a.json.gz", inside_gzip, data_set(find_shakespeare)),
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


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs to know how much memory it has")
@pytest.mark.parametrize("count", [COUNT, pytest.param(50 * COUNT, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_give_data_or_a_sentence(name: str, count: int, tmp_path: Path, bounded: None) -> None:
    kind = KINDS[name]
    write(tmp_path, kind.files)
    with limited(None):
        assert outcome(kind, tmp_path) == "read"
    counts = {"read": 0, "refused": 0}
    for number in range(count):
        draw = random.Random(zlib.crc32(f"{SEED} {name} {number}".encode()))
        (tmp_path / kind.damaged).write_bytes(kind.damage(kind.files[kind.damaged], draw))
        result = outcome(kind, tmp_path)
        assert result in counts, f"{name}, seed {SEED}, number {number}: {result}"
        counts[result] += 1
    assert counts["refused"] > count / 10
