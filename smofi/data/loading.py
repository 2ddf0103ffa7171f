"""Find a data set by its name: `cifar10`, or your own by `folder:PATH`, `npz:PATH`, `csv:PATH`, `python:...`."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from smofi.data import cache, hub
from smofi.data.cache import Damaged, cached, data_home, fingerprint
from smofi.data.catalogue import CATALOGUE, EMBEDDED, check_columns, check_data_name
from smofi.data.decoded import DataFiles, Decoded, ReadProgress, Split, silent, with_moments
from smofi.data.folder import find_folder
from smofi.data.source import Source, as_source
from smofi.data.tables import NamedColumns, find_csv, find_npz, read_python
from smofi.errors import DataWarning, InputError, check_count, check_path, check_size, refuse, refuse_unwanted
from smofi.memory import as_text, limited, refusing, room
from smofi.seeds import generator

FROM_HUB = "hub"
LARGEST_IMAGE = 1024

DIGITS = Path(__file__).parent / "digits" / "digits.csv.gz"
TRAIN_SIZE = 1437  # leaves 360 of 1,797 for the test


def load(
    name: str,
    *,
    folder: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    max_train: int | None = None,
    max_test: int | None = None,
    label_column: str | None = None,
    client_column: str | None = None,
    progress: ReadProgress = silent,
    memory_limit: int | str | None = None,
) -> Source:
    """Return a data set, decoded once and memory-mapped from then on.

    folder         where its official files are; if not given, they are looked for in SMOFI_DATA/NAME (~/.cache/smofi)
    image_size     images are brought to this height and width
    max_train      how many training samples to use, the first ones; `max_test` is the same for test samples
    label_column   of csv:PATH, the column to learn; `client_column` is the one that says whose sample it is
    progress       called with how far decoding is, the first time
    memory_limit   what reading may take, such as "2GB", with what the process uses; by default, what is available

    >>> load("digits").classes
    10
    """
    check_data_name("data", name)
    for field, value in (("image_size", image_size), ("max_train", max_train), ("max_test", max_test)):
        if value is not None:
            check_count(field, value, high=LARGEST_IMAGE if field == "image_size" else None)
    if memory_limit is not None:
        check_size("memory_limit", memory_limit)
    if not callable(progress):
        refuse("progress", progress, "a function of how far decoding is")
    check_columns(name, label_column, client_column)
    named = NamedColumns(label_column, client_column)
    with limited(memory_limit), refusing(f"data={name!r}"):
        found = _read(name, None if folder is None else check_path("folder", folder), image_size, named, progress)
        source = found if isinstance(found, Source) else as_source(name, found)
        if isinstance(found, Decoded) and "warning" in found.about:
            warnings.warn(f"data={name!r}: {found.about['warning']}", DataWarning, stacklevel=2)
        if image_size is not None and source.kind != "image":
            refuse_unwanted("image_size", image_size, f"{name} has no images")
        source = source.limited(max_train, max_test)
        if image_size is None or source.input_shape[1:] == (image_size, image_size):
            return source
        (samples, channels), width = (
            (len(source.train), source.input_shape[0]),
            source.train.store.inputs.element_size(),
        )
        needed, left = samples * image_size**2 * channels * width, room()
        if not left.holds(needed):
            sizes = f"{samples:,} x {image_size} x {image_size} x {channels} x {width} bytes = {as_text(needed)}"
            refuse("image_size", image_size, f"images that fit into the {left.words}, but they would take {sizes}")
        return source.resized(image_size)


def check_found(name: str, *, folder: str | os.PathLike[str] | None = None, label_column: str | None = None) -> None:
    """Refuse a data set whose files are not on this machine; none is read."""
    check_data_name("data", name)
    check_columns(name, label_column, None)
    _find(name, None if folder is None else check_path("folder", folder), None, NamedColumns(label_column, None))


def fetch(name: str, progress: ReadProgress = silent) -> None:
    """Bring a data set from the Hugging Face hub into the cache, where `load` finds it."""
    if name in EMBEDDED:
        return
    check_data_name("data", name)
    if name not in CATALOGUE:
        refuse("data", name, f"a data set to fetch, one of {', '.join(CATALOGUE)}")
    try:
        with refusing(f"data={name!r}"):
            cache.store(name, FROM_HUB, FROM_HUB, with_moments(hub.fetch(name, progress)))
    except OSError as error:
        raise InputError(f"{name} could not be saved in {data_home()}: {error.strerror or error}") from error


def where(name: str) -> str | None:
    """Tell where a data set of the catalogue is on this machine, None if it is not."""
    if name in EMBEDDED:
        return "embedded"
    home = data_home() / name
    with suppress(InputError):
        if home.is_dir() and CATALOGUE[name].find(home).paths:
            return str(home)
    return "cache, from the hub" if cache.place_of(name, FROM_HUB, FROM_HUB).exists() else None


def _read(
    name: str, folder: Path | None, image_size: int | None, named: NamedColumns, progress: ReadProgress
) -> Decoded | Source:
    found = _find(name, folder, image_size, named)
    if isinstance(found, Decoded):
        return found
    if found is None:
        return read_digits() if name in EMBEDDED else read_python(name)
    known_as, place, files = found
    return cached(known_as, str(place.resolve()), fingerprint(files.paths), lambda: files.read(progress))


def _find(
    name: str, folder: Path | None, image_size: int | None, named: NamedColumns
) -> tuple[str, Path, DataFiles] | Decoded | None:
    """Return what the cache calls the files of a data set, where they are, and them; what came from the hub; or None
    for what has no files."""
    scheme, colon, rest = name.partition(":")
    if colon or name in EMBEDDED:
        if folder is not None:
            refuse_unwanted("data_folder", str(folder), f"{name} already says where it is")
        files_of_its_own = colon and scheme != "python"
        return _own(scheme, Path(rest).expanduser(), image_size, named) if files_of_its_own else None
    place = data_home() / name if folder is None else folder.expanduser()
    try:
        return name, place, CATALOGUE[name].find(place)
    except InputError as error:
        try:
            if folder is None and (fetched := cache.find(name, FROM_HUB, FROM_HUB)) is not None:
                return fetched
        except Damaged as damage:
            raise InputError(
                f"data={name!r} is not accepted: what was fetched from the Hugging Face hub into {data_home()} is "
                f"damaged ({damage}); fetch it again with: smofi data {name} --fetch"
            ) from None
        setting = f"data={name!r}" if folder is None else f"data_folder={str(place)!r}"
        missing = f"there is no {place}" if not os.path.exists(place) else str(error)
        raise InputError(
            f"{setting} is not accepted: {missing}. Two ways to get {name}: (1) {CATALOGUE[name].get}, into "
            f"{data_home() / name} or any folder named by --data-folder; (2) from the Hugging Face hub: "
            f'pip install "smofi[datasets]" and smofi data {name} --fetch'
        ) from None


def _own(scheme: str, path: Path, image_size: int | None, named: NamedColumns) -> tuple[str, Path, DataFiles]:
    if not os.path.exists(path):  # unlike a path's own method, it does not fail on a name that is too long
        refuse("data", f"{scheme}:{path}", f"a path that exists, but there is no {path.absolute()}")
    if scheme == "folder":
        # pictures of many sizes are brought to one when they are decoded
        return f"folder-{image_size or 'as-is'}", path, find_folder(path, image_size)
    if scheme == "npz":
        return scheme, path, find_npz(path)
    return f"csv{named.key}", path, find_csv(path, named)


def read_digits() -> Decoded:
    """Read handwritten digits, embedded in the package: 1,437 images to train on and 360 to test on, the same ones
    in every run whatever its seed.

    Alpaydin and Kaynak, UCI repository, 1998.
    """
    rows = torch.from_numpy(np.loadtxt(DIGITS, delimiter=",", dtype=np.int64))
    order = torch.from_numpy(generator(0, "digits split").permutation(len(rows)))
    images = rows[order, :64].reshape(-1, 8, 8, 1).to(torch.float32) / 16
    labels = rows[order, 64].numpy()
    seen = images[:TRAIN_SIZE]
    mean, deviation = seen.mean(), seen.std()
    scaled = ((images - mean) / deviation).numpy()
    train = Split(scaled[:TRAIN_SIZE], labels[:TRAIN_SIZE])
    test = Split(scaled[TRAIN_SIZE:], labels[TRAIN_SIZE:])
    # as numbers from 0 to 16, which is what the file has: 16 is a power of 2, so to the bit the same
    moments = {"mean": [16 * mean.item()], "deviation": [16 * deviation.item()]}
    raw_input = {"kind": "array", "shape": [8, 8, 1], "type": "float32", "range": [0, 16], **moments}
    return Decoded("image", train, test, classes=tuple("0123456789"), standardise=False, raw_input=raw_input)
