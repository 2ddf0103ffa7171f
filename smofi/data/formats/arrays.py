"""The user's own arrays: `x` and `y`, with `x_test` and `y_test` beside them if the test is theirs too.

x         uint8 [samples, height, width], or with 1 or 3 channels last or first: images, standardised
          floats of the same shapes: images, taken as they are
          floats [samples, features]: taken as they are; whole numbers: standardised
y         whole numbers or words; what occurs, sorted, are the classes, unless `classes` names them in order
client    whose sample it is: whole numbers or words; `client_test` too. It may also be called user, speaker, role,
          site, writer, hospital, patient or device
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
import torch

from smofi.data.decoded import Array, Decoded, Split
from smofi.errors import InputError
from smofi.seeds import generator

# --------------------------------------------------------------------------------------------------------------------
# Names from outside, of classes, owners and files: made fit to be shown.


LONGEST = 200


def printable(name: str) -> str:
    """A name on one line, at most 200 characters long, with a question mark for what cannot be printed.

    >>> printable("HAMLET\\x1b\\n")
    'HAMLET??'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST])


# --------------------------------------------------------------------------------------------------------------------
# Labels and owners, given as whole numbers or words, as positions in a list of names; and a test held out by label.

HELD_OUT = 5
"""Every fifth sample is for the test, where the user has set none apart."""

KINDS = {"i": "whole numbers", "U": "words"}


LEAST_CLASSES: ContextVar[int] = ContextVar("least_classes", default=2)
"""How many classes data has to have."""


@contextmanager
def one_class_will_do() -> Iterator[None]:
    """Here data may have one class: others that are trained with have more."""
    token = LEAST_CLASSES.set(1)
    try:
        yield
    finally:
        LEAST_CLASSES.reset(token)


def hold_out(labels: Array, name: str) -> tuple[Array, Array]:
    """Which samples to train on and which to test on: every fifth, class by class, but never a class's only one.

    >>> labels = np.array([0] * 10 + [1] * 5 + [2])
    >>> kept, held_out = hold_out(labels, "mine")
    >>> np.bincount(labels[held_out]).tolist()
    [2, 1]
    """
    order = generator(0, "test split").permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    several = by_class[np.bincount(labels)[labels[by_class]] > 1]
    if not len(several):
        raise InputError(f"{name} is not accepted: expected a test set, or a class with two samples to hold one out")
    held_out = np.zeros(len(labels), dtype=bool)
    held_out[several[::HELD_OUT]] = True
    return order[~held_out[order]], order[held_out[order]]


def say_held_out(what: str, instead: str) -> str:
    """What is said of a test set that was held out, and what would be one of the user's own.

    >>> say_held_out("rows", "a column split")
    'a fifth of the rows, held out; to choose the test set yourself, add a column split'
    """
    return f"a fifth of the {what}, held out; to choose the test set yourself, add {instead}"


def values(array: Array, key: str, name: str) -> Array:
    """Whole numbers as int64 or words as str, one per sample.

    >>> values(np.array([2, 1], np.uint8), "y", "mine").dtype
    dtype('int64')
    """
    accepted = f"{name} is not accepted: expected {key} to be whole numbers or words"
    if array.ndim != 1 or array.dtype.kind not in "biuUST":
        raise InputError(f"{accepted}, shape [samples], but it has shape {list(array.shape)} and type {array.dtype}")
    if array.dtype.kind in "biu":
        if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
            raise InputError(f"{accepted} below 2^63, but it has {array.max()}")
        return array.astype(np.int64)
    try:
        return _with_letters(array.astype(np.str_))
    except (UnicodeError, ValueError, TypeError) as error:
        raise InputError(f"{accepted}, but some are not ({error})") from error


def _with_letters(words: Array) -> Array:
    """Words whose letters exist: numpy keeps any number of four bytes as one, which Python fails to read later."""
    letters = np.dtype(np.uint32).newbyteorder(words.dtype.byteorder)
    largest = int(np.ascontiguousarray(words).view(letters).max(initial=0)) if words.dtype.itemsize else 0
    if largest > sys.maxunicode:
        raise ValueError(f"there is no letter 0x{largest:x}, the last one is 0x{sys.maxunicode:x}")
    return words


def class_names(given: Any, name: str) -> list[str]:
    """The user's names of the classes, in the order of their numbers.

    >>> class_names(np.array(["cat", "dog"]), "mine")
    ['cat', 'dog']
    """
    try:
        checked = _with_letters(given) if isinstance(given, np.ndarray) and given.dtype.kind == "U" else given
        words = checked.tolist() if isinstance(checked, np.ndarray) else checked
    except ValueError as error:
        raise InputError(f"{name} is not accepted: expected classes to be words, but some are not ({error})") from error
    listed = isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words)
    if not listed or len(words) < LEAST_CLASSES.get() or len(set(words)) < len(words):
        shown = f"{given!r:.100}" if listed else f"of type {type(given).__name__}"
        raise InputError(
            f"{name} is not accepted: expected classes to be two or more different words, but it is {shown}"
        )
    return [str(word) for word in words]


def number_classes(labels: dict[str, Array], names: list[str] | None, name: str) -> tuple[dict[str, Array], list[str]]:
    """The labels `y` and `y_test` as numbers of classes, and the names of these: as given, or what is in `y`, sorted.

    >>> number_classes({"y": np.array(["b", "a", "b"])}, None, "mine")
    ({'y': array([1, 0, 1])}, ['a', 'b'])
    """
    known = np.unique(labels["y"])
    if len(known) < LEAST_CLASSES.get():
        raise InputError(
            f"{name} is not accepted: expected at least two classes in y, but there is only {known.tolist()[0]!r:.100}"
        )
    if names is not None:
        known = np.arange(len(names)) if known.dtype.kind == "i" else np.array(names)
    targets = {key: _positions(array, known, key, name) for key, array in labels.items()}
    return targets, [str(word) for word in known.tolist()] if names is None else names


def _positions(array: Array, known: Array, key: str, name: str) -> Array:
    """Where in `known` each value stands, int64."""
    accepted = f"{name} is not accepted: expected {key} to be"
    if array.dtype.kind != known.dtype.kind:
        raise InputError(f"{accepted} {KINDS[known.dtype.kind]}, as y is, but it is {KINDS[array.dtype.kind]}")
    order = np.argsort(known)
    positions: Array = order[np.searchsorted(known, array, sorter=order).clip(max=len(known) - 1)]
    if (strange := known[positions] != array).any():
        shown = ", ".join(f"{word!r:.40}" for word in known[:20].tolist()) + (", ..." if len(known) > 20 else "")
        raise InputError(
            f"{accepted} of the {len(known)} classes {shown}, but there is {array[strange].tolist()[0]!r:.100}"
        )
    return positions.astype(np.int64)


def number_owners(given: dict[str, Array], name: str) -> tuple[dict[str, Array], list[str]]:
    """Owners as numbers, and the names of all that occur, sorted.

    >>> number_owners({"client": np.array([7, 3, 7])}, "mine")
    ({'client': array([1, 0, 1], dtype=int32)}, ['3', '7'])
    """
    if not given:
        return {}, []
    if len({array.dtype.kind for array in given.values()}) > 1:
        raise InputError(f"{name} is not accepted: expected {' and '.join(given)} to be all whole numbers or all words")
    names, numbers = np.unique(np.concatenate(list(given.values())), return_inverse=True)
    ends = np.cumsum([len(array) for array in given.values()])[:-1]
    owners = np.split(numbers.astype(np.int32), ends)
    return dict(zip(given, owners, strict=True)), [str(word) for word in names.tolist()]


# --------------------------------------------------------------------------------------------------------------------
# The user's own arrays: `x` and `y`, with `x_test` and `y_test` beside them if the test is theirs too.

OWNERS = ("client", "user", "speaker", "role", "site", "writer", "hospital", "patient", "device")
KEYS = ("classes", *(key + end for key in ("x", "y", *OWNERS) for end in ("", "_test")))
CHANNELS = (1, 3)
MOST_LISTED = 10


def needed(keys: Iterable[str]) -> list[str]:
    """Those keys that are read; all others are left alone.

    >>> needed(["x", "y", "speaker", "quant"])
    ['x', 'y', 'speaker']
    """
    return [key for key in keys if key in KEYS]


def taken(key: str, kind: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, str]:
    """The bytes of memory that reading such an array takes, and how they come about.

    >>> taken("x", np.dtype("f4"), (1000, 20))
    (180000, 'x takes 1,000 x 20 x 9 bytes (4 in the file, 5 to convert and shuffle them)')
    """
    if kind.kind in "US":
        more = 3 * (kind.itemsize if kind.kind == "U" else 4 * kind.itemsize)  # as words, sorted, compared
    elif key not in ("x", "x_test"):
        more = 40  # as numbers of classes or clients, sorted, compared, shuffled
    elif kind == np.uint8 and len(shape) > 2:
        more = 1
    else:
        more = 5 if kind == np.float32 else 9  # as float32, checked, shuffled
    sizes = " x ".join(f"{size:,}" for size in shape)
    about = f"{kind.itemsize + more} bytes ({kind.itemsize} in the file, {more} to convert and shuffle them)"
    return math.prod(shape) * (kind.itemsize + more), f"{key} takes {sizes} x {about}"


def from_arrays(arrays: Mapping[str, Any], name: str) -> Decoded:
    """A data set of numpy arrays or torch tensors, shuffled; without a test set, a fifth of every class is held out.

    Images with 1 or 3 both first and last are taken to have their channels last.

    >>> decoded = from_arrays({"x": np.zeros((10, 8, 8), np.uint8), "y": np.arange(10) % 2}, "mine")
    >>> decoded.train.inputs.shape, decoded.test.inputs.shape, decoded.classes
    ((8, 8, 8, 1), (2, 8, 8, 1), ('0', '1'))
    """
    keys = needed(arrays)
    owner_key = _check_keys(arrays, name)
    given = {key: _array(arrays[key], key, name) for key in keys if key != "classes"}
    names = class_names(arrays["classes"], name) if "classes" in keys else None

    inputs = {key: _inputs(array, key, name) for key, array in given.items() if key in ("x", "x_test")}
    rest = {key: values(array, key, name) for key, array in given.items() if key not in inputs}
    _check_lengths(inputs, rest, name)
    if "x_test" in inputs:
        _check_alike(given, inputs, name)

    targets, classes = number_classes({key: rest[key] for key in ("y", "y_test") if key in rest}, names, name)
    owner, owners = number_owners({key: array for key, array in rest.items() if key not in targets}, name)
    train = Split(inputs["x"], targets["y"], owner.get(owner_key))
    if "x_test" in inputs:
        train = _select(train, generator(0, "train order").permutation(len(train.targets)))
        test = Split(inputs["x_test"], targets["y_test"], owner.get(f"{owner_key}_test"))
        test = _select(test, generator(0, "test order").permutation(len(test.targets)))
    else:
        kept, held_out = hold_out(train.targets, name)
        train, test = _select(train, kept), _select(train, held_out)
    return Decoded(
        kind="image" if train.inputs.ndim == 4 else "vector",
        train=train,
        test=test,
        classes=tuple(map(printable, classes)),
        owners=tuple(map(printable, owners)),
        standardise=given["x"].dtype.kind != "f",
        about=_about(arrays),
        raw_input={"kind": "array", "shape": list(train.inputs.shape[1:]), "type": train.inputs.dtype.name},
    )


def _about(keys: Mapping[str, Any]) -> dict[str, str]:
    """Where the test comes from, and what is not read."""
    test = "x_test and y_test" if "x_test" in keys else say_held_out("samples", "x_test and y_test")
    others = [key for key in keys if key not in KEYS]
    return {"test": test, **({"left_out": f"keys that are not used: {_listed(others)}"} if others else {})}


def _listed(keys: Iterable[Any]) -> str:
    names = sorted(printable(str(key))[:40] for key in keys)
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(names[:MOST_LISTED]) + more


def _select(split: Split, rows: Array) -> Split:
    return Split(split.inputs[rows], split.targets[rows], None if split.owner is None else split.owner[rows])


def _check_keys(given: Iterable[Any], name: str) -> str:
    """The key of the owners; refuses keys that are missing, or that need another one."""
    keys = set(given)
    for key in ("x", "y"):
        if key not in keys:
            _refuse(name, f"the arrays x and y, but there is no {key}, only {_listed(keys) or 'nothing'}")
    if ("x_test" in keys) != ("y_test" in keys):
        _refuse(name, "both x_test and y_test or neither, but there is only one of them")
    found = [key for key in OWNERS if key in keys]
    if len(found) > 1:
        _refuse(name, f"one of {', '.join(OWNERS)}, but there are {' and '.join(found)}: leave the others out")
    for key in OWNERS:
        if f"{key}_test" in keys and not {key, "x_test"} <= keys:
            _refuse(name, f"{key}_test only beside {key}, x_test and y_test")
    return found[0] if found else ""


def _array(value: Any, key: str, name: str) -> Array:
    """A numpy array of numbers or words with at least one sample."""
    accepted = f"{key} to be a numpy array or torch tensor of numbers or words"
    if isinstance(value, torch.Tensor):
        try:
            value = value.detach().cpu()
            value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        except (TypeError, RuntimeError) as error:
            raise InputError(f"{name} is not accepted: expected {accepted} ({error})") from error
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        _refuse(name, f"{accepted}, but it is of type {type(value).__name__}")
    if value.dtype.kind not in "biufUST":
        _refuse(name, f"{accepted}, but it has type {value.dtype}")
    if value.ndim == 0 or value.size == 0:
        _refuse(name, f"at least one sample in {key}, but it has shape {list(value.shape)}")
    return np.asarray(value)


def _inputs(array: Array, key: str, name: str) -> Array:
    """Images `[samples, height, width, channels]`, uint8 or float32, or vectors, float32; contiguous and writable."""
    shape, vector, floats = list(array.shape), array.ndim == 2, array.dtype.kind == "f"
    fits = array.dtype.kind in "biuf" if vector else array.ndim in (3, 4) and (floats or array.dtype == np.uint8)
    if array.ndim == 3:
        array = array[..., None]
    elif array.ndim == 4 and array.shape[3] not in CHANNELS:
        fits = fits and array.shape[1] in CHANNELS
        array = array.transpose(0, 2, 3, 1)
    if not fits:
        _refuse(
            name,
            f"{key} to be images (uint8 or floats, [samples, height, width] or with 1 or 3 channels last or first) "
            f"or vectors (numbers, [samples, features]), but it has shape {shape} and type {array.dtype}",
        )
    if not vector and not floats:
        return np.require(array, requirements=["C", "W"])
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32, order="C", copy=False)  # copied when it is shuffled
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if not finite.all():
        _refuse(
            name, f"finite numbers in {key}, but sample {np.argmin(finite)} (counting from 0) has values that are not"
        )
    return numbers


def _check_lengths(inputs: dict[str, Array], rest: dict[str, Array], name: str) -> None:
    for key, array in rest.items():
        samples = len(inputs["x_test" if key.endswith("_test") else "x"])
        if len(array) != samples:
            _refuse(name, f"one value of {key} per sample, but there are {len(array):,} for {samples:,} samples")


def _check_alike(given: dict[str, Array], inputs: dict[str, Array], name: str) -> None:
    """The samples to test on are like those to train on."""
    (x, x_test), kinds = (inputs["x"], inputs["x_test"]), {given[key].dtype.kind == "f" for key in ("x", "x_test")}
    if x.shape[1:] != x_test.shape[1:] or len(kinds) > 1:
        _refuse(
            name,
            f"samples of x_test like those of x, shape {list(x.shape[1:])} and type {given['x'].dtype}, but they have "
            f"shape {list(x_test.shape[1:])} and type {given['x_test'].dtype}",
        )


def _refuse(name: str, expected: str) -> NoReturn:
    raise InputError(f"{name} is not accepted: expected {expected}")
