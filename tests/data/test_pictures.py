"""Pictures of every mode and format, and the data sets that are made of them: Tiny-ImageNet, CIFAR, idx files."""

from __future__ import annotations

import gzip
import io
import struct
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smofi.data import cifar, load
from smofi.data.cifar import find_cifar10, find_cifar100
from smofi.data.decoded import silent
from smofi.data.folder import find_folder
from smofi.data.idx_files import CLASSES as CLOTHES
from smofi.data.idx_files import FIRST_LABELS, find_fashion_mnist
from smofi.data.pictures import PictureHeader, decode_picture, map_with_progress, read_picture, read_picture_header
from smofi.data.tiny_imagenet import find_tiny_imagenet
from smofi.errors import DataWarning, InputError
from support.python2 import pickled

PATH = Path("some.png")
COLOUR = np.random.default_rng(0).integers(256, size=(5, 4, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]


def encoded(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def smooth(side: int = 32) -> Image.Image:
    """What JPEG keeps nearly as it is."""
    across, down = np.meshgrid(np.linspace(0, 255, side), np.linspace(0, 255, side))
    return Image.fromarray(np.stack([across, down, 255 - across], axis=-1).astype(np.uint8))


# ------------------------------------------------------------------------------------------------------ modes, formats


def test_colours_as_they_are() -> None:
    for form, options in (("PNG", {}), ("BMP", {}), ("WEBP", {"lossless": True})):
        found = decode_picture(encoded(Image.fromarray(COLOUR), form, **options), PATH)
        np.testing.assert_array_equal(found, COLOUR)
        assert found.flags.writeable
    near = decode_picture(encoded(smooth(), "JPEG", quality=95), PATH)
    assert np.abs(near.astype(int) - np.asarray(smooth()).astype(int)).max() < 12
    ink = decode_picture(encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", quality=95), PATH)
    assert np.abs(ink.astype(int) - [255, 0, 0]).max() < 10


def test_grey_pictures_as_three_channels_or_one() -> None:
    content = encoded(Image.fromarray(GREY))
    np.testing.assert_array_equal(decode_picture(content, PATH), np.stack([GREY] * 3, axis=-1))
    np.testing.assert_array_equal(decode_picture(content, PATH, grey=True), GREY[..., None])
    one_bit = decode_picture(encoded(Image.fromarray(GREY > 128)), PATH, grey=True)
    np.testing.assert_array_equal(one_bit[..., 0], np.where(GREY > 128, 255, 0))


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(channels: int, bits: int, before: bytes = b"") -> bytes:
    """A picture of two by two; `before` comes before the header, which Pillow lets pass."""
    row = b"\0" + b"\x07" * (2 * channels * bits // 8)
    header = struct.pack(">IIBBBBB", 2, 2, bits, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(row * 2))
    return b"\x89PNG\r\n\x1a\n" + before + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


@pytest.mark.parametrize("before", [b"", chunk(b"tEXt", b"by\0me")])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bits_are_refused(tmp_path: Path, channels: int, before: bytes) -> None:
    path = tmp_path / "deep.png"
    path.write_bytes(png(channels, 16, before))
    for read in (read_picture_header, read_picture):
        with pytest.raises(InputError, match=r"deep\.png is not accepted: expected a picture of 8 bits .* npz:PATH"):
            read(path)
    path.write_bytes(png(channels, 8, before))
    assert read_picture(path).shape == (2, 2, 3)
    xray = encoded(Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64)))
    with pytest.raises(InputError, match="8 bits a channel, but it has 16: convert it to 8 bits, so that what matters"):
        decode_picture(xray, PATH, grey=True)


def test_what_is_transparent_is_white() -> None:
    half = np.dstack([np.zeros((1, 3, 3), np.uint8), np.array([[0, 128, 255]], np.uint8)])
    # 255 (1 - alpha / 255) of white shows through black
    assert decode_picture(encoded(Image.fromarray(half)), PATH)[0, :, 0].tolist() == [255, 127, 0]
    pair = Image.merge("LA", [Image.new("L", (2, 1)), Image.fromarray(np.array([[0, 255]], np.uint8))])
    assert decode_picture(encoded(pair), PATH, grey=True)[0, :, 0].tolist() == [255, 0]


@pytest.mark.parametrize("form", ["PNG", "GIF", "BMP"])
def test_palettes_and_moving_pictures(form: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert decode_picture(encoded(image, form), PATH).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    if form != "BMP":
        clear = decode_picture(encoded(image, form, transparency=0), PATH)
        assert clear.tolist() == [[[255, 255, 255], [200, 100, 50]]]
        frames = [Image.new("RGB", (4, 3), colour) for colour in ((200, 0, 0), (0, 0, 200))]
        moving = decode_picture(encoded(frames[0], form, save_all=True, append_images=frames[1:]), PATH)
        assert np.unique(moving.reshape(-1, 3), axis=0).tolist() == [[200, 0, 0]]


TURNED: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    # EXIF says where the top row and the left column of what is stored belong.
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.transpose(1, 0, 2),
    6: lambda x: x.transpose(1, 0, 2)[:, ::-1],
    7: lambda x: x.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda x: x.transpose(1, 0, 2)[::-1],
}


@pytest.mark.parametrize("orientation", TURNED)
def test_as_the_camera_was_held(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo"
    path.write_bytes(encoded(Image.fromarray(COLOUR), exif=exif))
    expected = TURNED[orientation](COLOUR)
    np.testing.assert_array_equal(read_picture(path, upright=True), expected)
    np.testing.assert_array_equal(read_picture(path), COLOUR)
    assert read_picture_header(path) == PictureHeader(width=expected.shape[1], height=expected.shape[0], grey=False)
    strange = encoded(smooth(), "JPEG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff")
    np.testing.assert_array_equal(decode_picture(strange, PATH, upright=True), decode_picture(strange, PATH))


def test_shrinking_averages_the_square_in_the_middle() -> None:
    # Halved, 4 x 2 is 2 x 1, and its middle column weighs columns by a triangle: (1, 3, 3, 1) / 8.
    image = np.array([[8, 16, 24, 8], [16, 24, 32, 16]], np.uint8)
    expected = ((8 + 3 * 16 + 3 * 24 + 8) / 8 + (16 + 3 * 24 + 3 * 32 + 16) / 8) / 2
    assert decode_picture(encoded(Image.fromarray(image)), PATH, grey=True, side=1).tolist() == [[[expected]]]
    assert decode_picture(encoded(smooth(40).crop((0, 0, 40, 25))), PATH, side=16).shape == (16, 16, 3)
    square = COLOUR[:4]
    np.testing.assert_array_equal(decode_picture(encoded(Image.fromarray(square)), PATH, side=4), square)
    thin = encoded(Image.new("L", (1_000_000, 1), 7))
    assert (decode_picture(thin, PATH, grey=True, side=64) == 7).all()


PICTURES = {
    "PNG": encoded(smooth()),
    "palette PNG": encoded(smooth().convert("P"), transparency=3),
    "JPEG": encoded(smooth(), "JPEG", exif=Image.Exif()),
    "progressive JPEG": encoded(smooth(), "JPEG", progressive=True),
    "BMP": encoded(smooth(), "BMP"),
    "GIF": encoded(smooth(), "GIF"),
    "WEBP": encoded(smooth(), "WEBP", lossless=True),
}
WHOLE = {name: decode_picture(content, PATH, upright=True) for name, content in PICTURES.items()}


@settings(max_examples=40)
@given(data=st.data())
def test_a_picture_cut_short_is_refused_unless_nothing_is_missing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(PICTURES)))
    content = PICTURES[name][: data.draw(st.integers(0, len(PICTURES[name]) - 1))]
    try:
        found = decode_picture(content, PATH, upright=True)
    except InputError:
        return
    np.testing.assert_array_equal(found, WHOLE[name])


@pytest.mark.parametrize("threads", [False, True])
def test_many_in_order_with_progress_and_the_first_refusal_in_order(tmp_path: Path, threads: bool) -> None:
    told: list[tuple[int, int]] = []
    workers, filters = set(), list(warnings.filters)

    def work(item: int) -> int:
        workers.add(threading.get_ident())
        return item * item

    found = map_with_progress(
        work, range(250), lambda done, total: told.append((done, total)), threads=threads, done=50, total=300
    )
    assert found == [item * item for item in range(250)]
    assert (told[0], told[-1], len(told)) == ((52, 300), (300, 300), 125)
    assert (threading.get_ident() in workers) is not threads
    paths = [tmp_path / f"{number}.png" for number in range(100)]
    for path in paths:
        path.write_bytes(PICTURES["PNG"] if path.name not in ("57.png", "58.png") else b"broken")
    with pytest.raises(InputError, match=r"57\.png is not accepted"):
        map_with_progress(read_picture, paths, lambda done, total: None, threads=threads)
    assert warnings.filters == filters


# -------------------------------------------------------------------------------------------------------- Tiny-ImageNet

CLASSES = ("n00000007", "n00000003", "n00000005")
PER_CLASS, TEST_SIZE = 4, 6


def brightness(train: bool, label: int, number: int) -> int:
    """Every picture has one colour of its own, far enough from the others' for JPEG."""
    return (0 if train else 120) + 10 * (4 * label + number if train else number)


def write_tiny(root: Path, *, inner: bool = True, size: int = 64) -> None:
    """Three classes in the official folders."""
    for label, name in enumerate(CLASSES):
        folder = root / "train" / name / ("images" if inner else "")
        folder.mkdir(parents=True)
        (root / "train" / name / f"{name}_boxes.txt").write_text("")
        for number in range(PER_CLASS):
            shade, grey = brightness(True, label, number), number == 0
            picture = Image.new("L" if grey else "RGB", (size, size), shade if grey else (shade,) * 3)
            picture.save(folder / f"{name}_{number}.JPEG")
    (root / "val" / "images").mkdir(parents=True)
    lines = []
    for number in range(TEST_SIZE):
        picture = Image.new("RGB", (size, size), (brightness(False, 0, number),) * 3)
        picture.save(root / "val" / "images" / f"val_{number}.JPEG")
        lines.append(f"val_{number}.JPEG\t{CLASSES[number % 3]}\t0\t0\t62\t62\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "wnids.txt").write_text("\n".join(CLASSES))
    (root / "words.txt").write_text("n00000003\tcrane, bird\nn00000005\tcrane\nn00000007\tgoldfish, Carassius\n")


@pytest.mark.parametrize(("inner", "place"), [(True, ""), (False, "tiny-imagenet-200")])
def test_official_folders_of_tiny_imagenet(tmp_path: Path, inner: bool, place: str) -> None:
    write_tiny(tmp_path / place, inner=inner)
    told: list[tuple[int, int]] = []
    found = find_tiny_imagenet(tmp_path).read(lambda done, total: told.append((done, total)))
    assert found.classes == ("crane (n00000003)", "crane (n00000005)", "goldfish")
    # Labels count the classes in the order of their names: n…3 is 0, n…5 is 1, n…7 is 2.
    trained = {brightness(True, label, k): [2, 0, 1][label] for label in range(3) for k in range(PER_CLASS)}
    tested = {brightness(False, 0, k): [2, 0, 1][k % 3] for k in range(TEST_SIZE)}
    for part, expected in ((found.train, trained), (found.test, tested)):
        assert (part.inputs.shape[1:], part.inputs.dtype, part.targets.dtype) == ((64, 64, 3), np.uint8, np.int64)
        shades = (part.inputs.reshape(len(part.inputs), -1).mean(1) / 10).round().astype(int) * 10
        assert dict(zip(shades.tolist(), part.targets.tolist(), strict=True)) == expected
    assert told == sorted(told)
    assert told[-1] == (18, 18)
    again = find_tiny_imagenet(tmp_path).read(silent)
    np.testing.assert_array_equal(found.train.inputs, again.train.inputs)
    assert found.train.targets.tolist() != sorted(found.train.targets.tolist())
    assert len(find_tiny_imagenet(tmp_path).paths) == 3 + 12 + 6
    (tmp_path / place / "words.txt").unlink()
    assert find_tiny_imagenet(tmp_path).read(silent).classes == tuple(sorted(CLASSES))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("wnids.txt", None, "wnids.txt, train and val, or these in tiny-imagenet-200"),
        ("val/val_annotations.txt", None, "expected val/val_annotations.txt as well"),
        ("wnids.txt", b"n00000003\n" * 2, "each once, but it has 2, of which 1 are different"),
        ("wnids.txt", b"n00000003\nn00000005\n", "n00000007 is not accepted: expected a class that wnids.txt names"),
        ("wnids.txt", b"\xff\xfe", "in UTF-8"),
        ("val/val_annotations.txt", b"../secret.JPEG\tn00000003\n", "in line 1 a picture of"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn00000003\n" * 2, "in line 2 a picture of"),
        ("val/val_annotations.txt", b"val_1.JPEG\n", "in line 1 a class that wnids.txt names, but there is ''"),
        ("val/val_annotations.txt", b"val_1.JPEG\tn00000003\n", "but 'val_0.JPEG' has none"),
        ("val/images/val_3.JPEG", b"broken", "val_3.JPEG is not accepted: expected a picture"),
        ("val/images/val_3.JPEG", encoded(smooth()), "expected a picture of 64 x 64, but it has 32 x 32"),
        ("words.txt", b"\xff", "words.txt is not accepted: expected a class and its names per line, in UTF-8"),
    ],
)
def test_damaged_files_of_tiny_imagenet_are_named(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    write_tiny(tmp_path)
    (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        find_tiny_imagenet(tmp_path).read(silent)
    assert said in str(caught.value)


# ---------------------------------------------------------------------------------------------------------------- CIFAR

TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HUNDRED = tuple(f"fine {k}" for k in range(100))
BATCHES = [f"data_batch_{k}" for k in range(1, 6)]


def planes(samples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(samples, 3072), dtype=np.uint8)


def labels(samples: int, classes: int, seed: int) -> list[int]:
    return [(7 * k + seed) % classes for k in range(samples)]


def write_ten(folder: Path, form: str, monkeypatch: pytest.MonkeyPatch, samples: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate([*BATCHES, "test_batch"]):
        pixels, targets = planes(samples, seed), labels(samples, 10, seed)
        if form == "binary":
            records = b"".join(bytes([label]) + row.tobytes() for label, row in zip(targets, pixels, strict=True))
            (folder / f"{name}.bin").write_bytes(records)
        else:
            batch = {"batch_label": name, "labels": targets, "data": pixels, "filenames": ["a.png"] * samples}
            (folder / name).write_bytes(pickled(batch))
    if form == "binary":
        (folder / "batches.meta.txt").write_text("\n".join(TEN) + "\n\n")
    else:
        (folder / "batches.meta").write_bytes(pickled({"label_names": list(TEN), "num_vis": 3072}))
    make_official("cifar-10-batches-py", folder, monkeypatch)


def write_hundred(folder: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, samples) in enumerate((("train", 5), ("test", 2))):
        pixels, fine, coarse = planes(samples, seed), labels(samples, 100, seed), labels(samples, 20, seed)
        if form == "binary":
            rows = zip(coarse, fine, pixels, strict=True)
            (folder / f"{name}.bin").write_bytes(b"".join(bytes([c, f]) + row.tobytes() for c, f, row in rows))
        else:
            (folder / name).write_bytes(pickled({"data": pixels, "fine_labels": fine, "coarse_labels": coarse}))
    if form == "binary":
        (folder / "fine_label_names.txt").write_text("\n".join(HUNDRED))
    else:
        (folder / "meta").write_bytes(pickled({"fine_label_names": list(HUNDRED)}))
    make_official("cifar-100-python", folder, monkeypatch)


def make_official(layout: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the pickles in a folder for the official ones."""
    for name in cifar.MD5[layout]:
        if (folder / name).exists():
            known = cifar.hashlib.md5((folder / name).read_bytes()).hexdigest()
            monkeypatch.setitem(cifar.MD5[layout], name, known)


def assert_images(found: np.ndarray, pixels: np.ndarray) -> None:
    assert (found.shape, found.dtype, found.flags.writeable) == ((len(pixels), 32, 32, 3), np.uint8, True)
    # A plane lies row by row: red first, then green, then blue.
    for sample, row, column, channel in [(0, 0, 0, 0), (0, 0, 1, 0), (1, 31, 7, 1), (len(pixels) - 1, 5, 31, 2)]:
        assert found[sample, row, column, channel] == pixels[sample, 1024 * channel + 32 * row + column]
    assert found.astype(np.int64).sum() == pixels.astype(np.int64).sum()


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-{}"])
@pytest.mark.parametrize("form", ["binary", "pickled"])
def test_cifar10(tmp_path: Path, form: str, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_ten(tmp_path / inside.format("bin" if form == "binary" else "py"), form, monkeypatch)
    told: list[tuple[int, int]] = []
    found = find_cifar10(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, found.standardise, found.owners) == ("image", TEN, True, ())
    assert_images(found.train.inputs, np.concatenate([planes(3, seed) for seed in range(5)]))
    assert_images(found.test.inputs, planes(3, 5))
    assert found.train.targets.tolist() == [label for seed in range(5) for label in labels(3, 10, seed)]
    assert found.test.targets.tolist() == labels(3, 10, 5)
    assert found.train.targets.dtype == np.int64
    assert told == [(number, 6) for number in range(1, 7)]


@pytest.mark.parametrize("form", ["binary", "pickled"])
def test_cifar100_has_fine_classes(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hundred(tmp_path / ("cifar-100-binary" if form == "binary" else "cifar-100-python"), form, monkeypatch)
    found = find_cifar100(tmp_path).read(silent)
    assert found.classes == HUNDRED
    assert_images(found.train.inputs, planes(5, 0))
    assert_images(found.test.inputs, planes(2, 1))
    assert (found.train.targets.tolist(), found.test.targets.tolist()) == (labels(5, 100, 0), labels(2, 100, 1))


def test_binary_files_come_first_and_missing_ones_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"data_batch_1\.bin.*cifar-10-batches-bin.*cifar-10-batches-py.*none of them"):
        find_cifar10(tmp_path)
    binary, pickles = tmp_path / "cifar-10-batches-bin", tmp_path / "cifar-10-batches-py"
    write_ten(binary, "binary", monkeypatch)
    write_ten(pickles, "pickled", monkeypatch)
    names = [*BATCHES, "test_batch"]
    assert find_cifar10(tmp_path).paths == [*(binary / f"{name}.bin" for name in names), binary / "batches.meta.txt"]
    (binary / "data_batch_4.bin").unlink()
    assert find_cifar10(tmp_path).paths == [pickles / name for name in (*names, "batches.meta")]
    (pickles / "batches.meta").unlink()
    with pytest.raises(InputError, match=r"is not accepted: expected (data_batch_4\.bin|batches\.meta) as well"):
        find_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data_batch_2.bin", bytes(3072), "whole records of 3,073 bytes, but it has 3,072 bytes"),
        ("data_batch_2.bin", b"", "but it has 0 bytes"),
        ("test_batch.bin", b"\x0a" + bytes(3072), "labels from 0 to 9, but that of sample 0 is 10"),
        ("batches.meta.txt", b"cat\n" * 10, "10 names of classes, no two the same, but it has 10"),
        ("batches.meta.txt", b"\xff" * 10, "in UTF-8"),
        ("batches.meta.txt", b"a" * 100_001, "at most 100,000 bytes"),
    ],
)
def test_damaged_binary_files_of_cifar_are_named(
    tmp_path: Path, name: str, content: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ten(tmp_path, "binary", monkeypatch)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        find_cifar10(tmp_path).read(silent)
    assert str(caught.value).startswith(f"{tmp_path / name} is not accepted: expected ")
    assert said in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ idx files

MNIST, EMNIST = ("train-{}", "t10k-{}"), ("emnist-letters-train-{}", "emnist-letters-test-{}")


def write_idx(folder: Path, names: tuple[str, ...], given: list[list[int]], *, end: str = "", dot: str = "-") -> None:
    """Pictures of 2 x 3, each as bright as its label."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, some in zip(names, given, strict=True):
        for what, shape, content in (
            (f"images{dot}idx3-ubyte", (len(some), 2, 3), np.repeat(np.array(some, np.uint8), 6)),
            (f"labels{dot}idx1-ubyte", (len(some),), np.array(some, np.uint8)),
        ):
            raw = bytes((0, 0, 8, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + content.tobytes()
            (folder / (name.format(what) + end)).write_bytes(gzip.compress(raw) if end else raw)


@pytest.mark.parametrize("names", [MNIST, EMNIST])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_classes_are_the_numbers(
    tmp_path: Path, names: tuple[str, ...], end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    write_idx(tmp_path / "own", names, [[3, 1, 26, 1], [26, 3]], end=end)
    decoded = find_folder(tmp_path / "own").read(silent)
    assert decoded.classes == ("1", "3", "26")
    for split in (decoded.train, decoded.test):
        assert [int(decoded.classes[k]) for k in split.targets] == split.inputs[:, 1, 2, 0].tolist()
    assert decoded.about == {"test": names[1].format("images-idx3-ubyte") + end}
    assert load(f"folder:{tmp_path / 'own'}").remarks[-1].startswith("not tested: '1', of which the test set has no")


def test_one_of_several_by_naming_a_file_of_it_and_a_fifth_held_out(tmp_path: Path) -> None:
    write_idx(tmp_path, EMNIST, [[1, 2], [1]])
    write_idx(tmp_path, ("emnist-digits-train-{}",), [[8, 9] * 10])
    with pytest.raises(InputError, match=r"one data set, but their names begin with 'emnist-digits-', 'emnist-letters"):
        find_folder(tmp_path)
    decoded = find_folder(tmp_path / "emnist-digits-train-images-idx3-ubyte").read(silent)
    assert (decoded.classes, len(decoded.train.targets), len(decoded.test.targets)) == (("8", "9"), 16, 4)
    assert decoded.about["test"].endswith("yourself, add t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte")
    hidden = (tmp_path / "emnist-digits-train-images-idx3-ubyte").rename(tmp_path / ".train-images-idx3-ubyte")
    with pytest.raises(InputError, match="an idx file whose name does not begin with a point"):
        find_folder(hidden)


@pytest.mark.parametrize(
    ("removed", "given", "said"),
    [
        ("train-labels-idx1-ubyte", [[0, 1], [1]], "train-labels-idx1-ubyte beside train-images-idx3-ubyte"),
        ("train", [[0, 1], [1]], "train-images-idx3-ubyte and its labels beside t10k-images-idx3-ubyte"),
        ("none", [[7, 7], [7]], "at least two classes, but there is only 7"),
        ("none", [[0, 1], [2]], "only classes that are in .* is 2"),
    ],
)
def test_idx_files_that_cannot_be_used(tmp_path: Path, removed: str, given: list[list[int]], said: str) -> None:
    write_idx(tmp_path, MNIST, given)
    for path in tmp_path.glob(f"{removed}*"):
        path.unlink()
    with pytest.raises(InputError, match=f"is not accepted: expected {said}$"):
        find_folder(tmp_path).read(silent)


@pytest.mark.parametrize(("place", "end", "dot"), [("", "", "-"), ("fashion-mnist", ".gz", "-"), ("raw", "", ".")])
def test_the_four_files_of_fashion_mnist(tmp_path: Path, place: str, end: str, dot: str) -> None:
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte, .*\(or these in fashion-mnist\)"):
        find_fashion_mnist(tmp_path)
    write_idx(tmp_path / place, MNIST, [[3, 0, 9], [1]], end=end, dot=dot)
    told: list[tuple[int, int]] = []
    found = find_fashion_mnist(tmp_path).read(lambda done, total: told.append((done, total)))
    assert (found.kind, found.classes, len(found.classes)) == ("image", CLOTHES, 10)
    assert (found.train.inputs[:, 1, 2, 0].tolist(), found.train.inputs.shape) == ([3, 0, 9], (3, 2, 3, 1))
    assert (found.train.targets.tolist(), found.test.targets.tolist()) == ([3, 0, 9], [1])
    assert (found.train.inputs.dtype, found.train.targets.dtype) == (np.uint8, np.int64)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_is_read_as_fashion_mnist_but_is_not_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    write_idx(tmp_path / "digits", MNIST, [[5, 0, 4, 1, 9, 2, 1, 3, 1, 4], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]])
    with pytest.warns(DataWarning, match=r"^data='fashion-mnist': the first labels are not .* folder:PATH"):
        load("fashion-mnist", folder=tmp_path / "digits")
    write_idx(tmp_path / "fashion", MNIST, list(FIRST_LABELS))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("fashion-mnist", folder=tmp_path / "fashion")
