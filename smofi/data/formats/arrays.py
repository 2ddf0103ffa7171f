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
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import numpy as np
import torch

from smofi.data.decoded import Array, Decoded, Split
from smofi.data.formats.labels import class_names, hold_out, number_classes, number_owners, say_held_out, values
from smofi.data.formats.names import printable
from smofi.errors import InputError
from smofi.seeds import generator

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
