"""Labels and owners, given as whole numbers or words, as positions in a list of names; and a test held out by label."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from smofi.data.decoded import Array
from smofi.errors import InputError
from smofi.seeds import generator

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
