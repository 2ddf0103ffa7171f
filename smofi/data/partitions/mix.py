"""How the classes of each client are mixed, and how far that is from balance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from smofi.errors import check_count, refuse


def class_counts(labels: Any, clients: Sequence[npt.NDArray[np.int64]], classes: int) -> npt.NDArray[np.int64]:
    """How many samples of each class each client has, `[clients, classes]`; `clients` has the samples of each.

    >>> class_counts([0, 1, 1, 2], [np.array([0, 1]), np.array([2, 3])], classes=3).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    check_count("classes", classes)
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        refuse("labels", f"{array.dtype} of shape {array.shape}", "a class number per sample, shape [samples]")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < 0 or high >= classes:
        refuse("labels", low if low < 0 else high, f"class numbers from 0 to {classes - 1}")
    counts = [np.bincount(array[samples].astype(np.int64), minlength=classes) for samples in clients]
    return np.array(counts, dtype=np.int64).reshape(len(clients), classes)


def mixes(targets: Sequence[Tensor]) -> npt.NDArray[np.int64]:
    """The same from each client's own targets.

    >>> import torch
    >>> mixes([torch.tensor([0, 1]), torch.tensor([2, 2])]).tolist()
    [[1, 1, 0], [0, 0, 2]]
    """
    labels = np.concatenate([np.asarray(own.cpu()) for own in targets])
    edges = np.cumsum([0, *map(len, targets)])
    clients = [np.arange(low, high) for low, high in pairwise(edges)]
    return class_counts(labels, clients, classes=1 + int(labels.max(initial=0)))


def divergence(counts: Any) -> npt.NDArray[np.float64]:
    """The Jensen-Shannon divergence of each client's class mix from balance, in bits: 0 balanced, never more than 1.

    A client without samples has no mix, and NaN.

    >>> divergence([[5, 5], [10, 0]]).round(4).tolist()
    [0.0, 0.3113]
    """
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "iu" or array.min(initial=0) < 0:
        refuse("counts", f"{array.dtype} of shape {array.shape}", "numbers of samples, shape [clients, classes]")
    sizes = array.sum(axis=1, keepdims=True)
    mix = np.divide(array, sizes, out=np.full(array.shape, np.nan), where=sizes > 0)
    balance = np.full(array.shape, 1 / array.shape[1])
    middle = (mix + balance) / 2
    # JS(q, u) = KL(q | m) / 2 + KL(u | m) / 2 with m = (q + u) / 2
    bits: npt.NDArray[np.float64] = (_relative_entropy(mix, middle) + _relative_entropy(balance, middle)) / 2
    return np.maximum(bits, 0)


def _relative_entropy(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # KL(p | m) = sum p log2(p / m), where 0 log 0 is 0
    ratio = np.divide(one, other, out=np.ones_like(one), where=one != 0)
    total: npt.NDArray[np.float64] = (one * np.log2(ratio)).sum(axis=1)
    return total
