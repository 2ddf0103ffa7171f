"""What claims, or unpacks to, more than memory has room for is refused with the arithmetic; pipes are never read."""

from __future__ import annotations

import gzip
import io
import os
import signal
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smofi import data, memory
from smofi.cli import main
from smofi.clock.devices import read_devices, read_traces
from smofi.data.formats import letters, rows
from smofi.errors import InputError


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The sentence with which `smofi plan` refuses."""
    assert main(["plan", *map(str, arguments)]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    return printed


# ------------------------------------------------------------------------------------------------------ what is claimed


def bomb(path: Path, *shape: int) -> Path:
    """An .npz file whose x claims this shape; nothing but zeros are in it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, sizes, kind in (("x", shape, "<f4"), ("y", shape[:1], "|u1")):
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": sizes})
            content = header.getvalue() + bytes(int(np.prod(sizes)) * int(kind[-1]))
            archive.writestr(f"{key}.npy", content)
    return path


def test_an_npz_is_refused_by_what_it_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bomb(tmp_path / "a.npz", 500, 40, 40)
    said = refusal(capsys, "--data", f"npz:{path}", "--model", "cnn", "--memory-limit", "100MB")
    assert said == (
        f"error: {path} is not accepted: expected what fits into the 0 MB that memory_limit=100MB leaves, but "
        "x takes 500 x 40 x 40 x 9 bytes (4 in the file, 5 to convert and shuffle them) = 7.2 MB, and all arrays "
        "together = 7.2 MB\n"
    )


def test_without_a_limit_it_is_the_machine_that_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 7_000_000)
    path = bomb(tmp_path / "a.npz", 500, 40, 40)
    with pytest.raises(InputError, match=r"fits into the 7 MB of memory available, but x takes .* = 7\.2 MB"):
        data.load(f"npz:{path}")


def idx(*shape: int) -> bytes:
    return bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape)


@pytest.fixture
def clothes(tmp_path: Path) -> Path:
    """Four files, 3 pictures to train on and 2 to test on."""
    for split, count in (("train", 3), ("t10k", 2)):
        images, labels = idx(count, 4, 4) + bytes(16 * count), idx(count) + bytes(range(count))
        (tmp_path / f"{split}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return tmp_path


def test_idx_is_refused_by_what_it_claims(clothes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, shape in (("images-idx3", (2000, 30, 40)), ("labels-idx1", (2000,))):
        content = idx(*shape) + bytes(int(np.prod(shape)))
        (clothes / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(content))
    said = refusal(capsys, "--data", "fashion-mnist", "--data-folder", clothes, "--memory-limit", "9MB")
    assert "but it announces 2,000 x 30 x 40 bytes, and 9 x 2,000 for labels = 2.4 MB" in said


def test_labels_are_not_unpacked_where_there_are_fewer_pictures(clothes: Path) -> None:
    """A label takes nine bytes: two billion of them, in two megabytes, would take 19 GB."""
    path = clothes / "train-labels-idx1-ubyte.gz"
    path.write_bytes(gzip.compress(idx(2**31 - 100)) + gzip.compress(bytes(10**8)) * 21)
    with pytest.raises(InputError, match=r"expected 3 labels, as many as .* but it has 2,147,483,548"):
        data.load("fashion-mnist", folder=clothes)


def test_images_are_refused_by_the_size_they_would_get(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, "--image-size", 1024, "--memory-limit", "9MB")
    assert said.startswith("error: image_size=1024 is not accepted: expected images that fit into the 0 MB")
    assert "1,437 x 1024 x 1024 x 1 x 4 bytes = 6.0 GB" in said


def test_pictures_are_refused_by_their_number_and_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a/1", "a/2", "b/1", "b/2"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (1200, 900)).save(tmp_path / f"{name}.png")
    said = refusal(capsys, "--data", f"folder:{tmp_path}", "--memory-limit", "9MB")
    assert "its pictures take 4 x 900 x 1,200 x 1 bytes" in said


# ------------------------------------------------------------------------------------------------------ what is reached


def test_a_table_is_refused_when_it_has_taken_too_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b,c,d,y\n" + b"0,0,0,0,cat\n1,1,1,1,dog\n" * 50_000, 1))
    said = refusal(capsys, "--data", f"csv:{path}", "--model", "mlp", "--memory-limit", "9MB")
    assert "but its first 25,000 rows take 13 x 25,000 x 4 bytes for numbers + 1.2 MB for words = 2.5 MB" in said


def test_words_are_counted_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"0,{k}{'x' * 9000}\n" for k in range(2000)))
    said = refusal(capsys, "--data", f"csv:{path}", "--model", "mlp", "--memory-limit", "9MB")
    assert "its first 1,863 rows take 13 x 1,863 x 1 bytes for numbers + 17 MB for words = 17 MB" in said


def test_a_packed_table_may_not_grow_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "SMALL", 1 << 21)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"0,1\n" * 1_000_000))
    said = refusal(capsys, "--data", f"csv:{path}", "--model", "mlp")
    size = path.stat().st_size
    assert f"packed to no less than a 250th, but its {size:,} bytes unpack to more than 3,145,728; if they" in said
    assert said.endswith("unpack it first: gunzip t.csv.gz\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\n" * 9000, "rows, but of the first 2,003 lines 2,002 are blank"),
        (b"0,1\n1,2\n" + b"1" * (1 << 22), "lines below 4,194,304 characters, but line 4 is longer"),
    ],
)
def test_a_table_of_nothing_is_not_read_to_its_end(
    content: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_BLANK", 1000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + content))
    with pytest.raises(InputError, match=said):
        data.load(f"csv:{tmp_path / 't.csv.gz'}")


def test_every_second_line_may_be_blank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_BLANK", 10)
    (tmp_path / "t.csv").write_text("a,y\n\n" + "0,1\n\n1,2\n\n" * 100)
    assert len(data.load(f"csv:{tmp_path / 't.csv'}").train) == 160


def test_json_is_refused_by_what_it_unpacks_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "roles.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 4_000_000 + b"]"))
    arguments = ("--data", "shakespeare", "--data-folder", tmp_path, "--model", "transformer", "--memory-limit", "9MB")
    assert "but it unpacks to more than 2 x 1,048,576 bytes" in refusal(capsys, *arguments)
    (tmp_path / "roles.json").write_bytes(b"[" + b" " * 700_000 + b"]")
    path.unlink()
    assert "but it takes 6 x 700,002 bytes + 64 x 1 values = 4.2 MB" in refusal(capsys, *arguments)


def test_devices_are_refused_when_they_have_taken_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 0)
    path = tmp_path / "devices.csv"
    path.write_text("ms_per_sample,kbps\n" + "1,1\n" * 10_000)
    with pytest.raises(InputError, match=r"devices=.* fits into the 0 MB .*, but its first 3,319 lines take 1 MB"):
        read_devices(str(path))


# ------------------------------------------------------------------------------------------- pipes, sockets and devices


def pipe(path: Path) -> None:
    os.mkfifo(path)


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


CLOTHES = [f"{split}-{kind}-ubyte.gz" for split in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"]


@pytest.mark.skipif(os.name != "posix", reason="has no such files")
@pytest.mark.parametrize("make", [pipe, plug, endless])
@pytest.mark.parametrize(
    ("names", "arguments"),
    [
        (["t.csv"], ["--data", "csv:{}/t.csv"]),
        (["t.csv.gz"], ["--data", "csv:{}/t.csv.gz"]),
        (["train.csv", "test.csv"], ["--data", "csv:{}"]),
        (["a.npz"], ["--data", "npz:{}/a.npz"]),
        (["a/1.png", "b/1.png"], ["--data", "folder:{}"]),
        (CLOTHES, ["--data", "fashion-mnist", "--data-folder", "{}"]),
        (BATCHES, ["--data", "cifar10", "--data-folder", "{}"]),
        (["yes/ab_nohash_0.wav"], ["--data", "speech-commands", "--data-folder", "{}"]),
        (["train/a.json", "test/a.json"], ["--data", "shakespeare", "--data-folder", "{}"]),
        (["wnids.txt"], ["--data", "tiny-imagenet", "--data-folder", "{}"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) and not value[0].startswith("-") else "",
)
def test_nothing_waits_for_a_pipe(
    make: Callable[[Path], None],
    names: list[str],
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    at_once: None,
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        make(tmp_path / name)
    assert str(tmp_path) in refusal(capsys, *(argument.format(tmp_path) for argument in arguments))


@pytest.mark.skipif(os.name != "posix", reason="has no such files")
@pytest.mark.parametrize("make", [pipe, plug, endless])
@pytest.mark.parametrize("read", [read_devices, read_traces])
def test_devices_are_not_waited_for(
    read: Callable[[str], object], make: Callable[[Path], None], tmp_path: Path, at_once: None
) -> None:
    make(tmp_path / "d.csv")
    with pytest.raises(InputError, match=r"=.*d\.csv' is not accepted: expected a \.csv file that exists"):
        read(str(tmp_path / "d.csv"))


# ------------------------------------------------------------------------------------------------- words and file names


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("key", ["y", "client", "classes"])
def test_a_letter_that_does_not_exist_is_refused(key: str, order: str, tmp_path: Path) -> None:
    words = np.array(["cat", "dog"] * 10, f"{order}U3")
    arrays = {"x": np.zeros((20, 4), np.float32), "y": words, "client": words, "classes": np.array(["cat", "dog"])}
    np.savez(tmp_path / "good.npz", **arrays)
    assert data.load(f"npz:{tmp_path / 'good.npz'}").class_names == ("cat", "dog")
    bad = arrays[key].astype(f"{order}U3")
    bad.view(f"{order}u4")[1] = 0x110000
    np.savez(tmp_path / "bad.npz", **{**arrays, key: bad})
    with pytest.raises(InputError, match=rf"bad\.npz is not accepted: expected {key} .*there is no letter 0x110000"):
        data.load(f"npz:{tmp_path / 'bad.npz'}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--data", "csv:{}.csv"],
        ["plan", "--data", "npz:{}.npz"],
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


def test_a_long_text_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "To be, or nöt to be. " * 50
    whole, changed = letters.numbers(text, letters.Changed()), letters.Changed()
    monkeypatch.setattr(letters, "AT_ONCE", 7)
    assert letters.numbers(text, changed).tolist() == whole.tolist()
    assert changed == letters.Changed(transliterated=50)
