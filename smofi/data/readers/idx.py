"""Fashion-MNIST, and whatever else comes as MNIST did: four idx files, packed or not.

Xiao, Rasul and Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", 2017.

    idx file:  00 00 08 (unsigned bytes), the number of sizes, each size as four bytes (largest first), the bytes
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from smofi.data.decoded import Array, Decoded, Part, Progress
from smofi.data.readers.files import MOST_INFLATED, find_files, read_bytes, wrong

CLASSES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
PLACES = ("fashion-mnist", "FashionMNIST/raw", "raw")
MOST_BYTES = 2**31
"""In one file, unpacked; the largest official one has 47 million."""


def fashion_mnist_files(folder: Path) -> list[Path]:
    """Pictures and labels to train on, then those to test on (t10k).

    >>> fashion_mnist_files(Path("nowhere"))
    Traceback (most recent call last):
    smofi.errors.InputError: nowhere is not accepted: expected a folder
    """
    stems = [("train-images", 3), ("train-labels", 1), ("t10k-images", 3), ("t10k-labels", 1)]
    names = [[f"{stem}{dot}idx{axes}-ubyte{end}" for end in ("", ".gz") for dot in "-."] for stem, axes in stems]
    return find_files(folder, [(PLACES, names)])


def read_fashion_mnist(folder: Path, progress: Progress) -> Decoded:
    """Fashion-MNIST: `[samples, 28, 28, 1]`, in the official order, which is a random one."""
    files = fashion_mnist_files(folder)
    arrays = []
    for number, (path, axes) in enumerate(zip(files, (3, 1, 3, 1), strict=True), start=1):
        arrays.append(read_idx(path, axes))
        progress(number, len(files))
    train, test = (_part(arrays[k], arrays[k + 1], files[k], files[k + 1]) for k in (0, 2))
    if train.inputs.shape[1:] != test.inputs.shape[1:]:
        size, other = ("x".join(map(str, part.inputs.shape[1:3])) for part in (train, test))
        wrong(files[2], f"pictures of {size} as in {files[0].name}, and they are {other}")
    return Decoded("image", train, test, CLASSES)


def _part(images: Array, labels: Array, images_path: Path, labels_path: Path) -> Part:
    if len(labels) != len(images):
        wrong(
            labels_path,
            f"{len(images):,} labels, as many as {images_path.name} has pictures, and it has {len(labels):,}",
        )
    if labels.max() >= len(CLASSES):
        wrong(labels_path, f"labels from 0 to {len(CLASSES) - 1}, and one is {labels.max()}")
    return Part(images[..., None].copy(), labels.astype(np.int64))


def read_idx(path: Path, axes: int) -> Array:
    """The bytes of an idx file, as an array of so many axes; no memory is taken for what the file cannot hold."""
    before = 4 + 4 * axes
    header = _beginning(path, before)
    if len(header) < before or header[:4] != bytes((0, 0, 8, axes)):
        wrong(
            path,
            f"an idx file that begins with 00 00 08 {axes:02x}, and it begins with {header[:4].hex(' ') or 'nothing'}",
        )
    shape = tuple(int(size) for size in np.frombuffer(header[4:], ">u4"))
    needed = before + math.prod(shape)
    sizes = " x ".join(f"{size:,}" for size in shape)
    if needed == before or needed > MOST_BYTES:
        wrong(path, f"1 to {MOST_BYTES:,} bytes, and it announces {sizes}")
    size = path.stat().st_size
    if needed > size * MOST_INFLATED if path.suffix == ".gz" else needed != size:
        wrong(path, f"{needed:,} bytes for the {sizes} it announces, and it has {size:,}")
    content = read_bytes(path, needed, f"{sizes} bytes")
    if len(content) != needed:
        wrong(path, f"{needed:,} bytes for the {sizes} it announces, and it has {len(content):,}")
    return np.frombuffer(content, np.uint8, offset=before).reshape(shape)


def _beginning(path: Path, size: int) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        wrong(path, f"an idx file ({getattr(error, 'strerror', None) or error})")
