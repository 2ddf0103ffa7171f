from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smofi.data.partitions import class_counts, divergence, partition
from smofi.errors import InputError


def entropy(shares: list[float]) -> float:
    return -sum(share * math.log2(share) for share in shares if share)


@pytest.mark.parametrize("classes", [2, 3, 10, 100, 200])
def test_a_single_class_in_closed_form(classes: int) -> None:
    # q = (1, 0, ...) and m = ((c + 1) / 2c, 1 / 2c, ...) give 1 + log2(c) / 2 - (c + 1) log2(c + 1) / 2c.
    expected = 1 + math.log2(classes) / 2 - (classes + 1) * math.log2(classes + 1) / (2 * classes)
    counts = np.zeros((2, classes), dtype=np.int64)
    counts[0, classes - 1], counts[1, 0] = 7, 12345
    assert divergence(counts).tolist() == pytest.approx([expected, expected])


@given(st.integers(2, 12).flatmap(lambda classes: st.lists(st.integers(0, 50), min_size=classes, max_size=classes)))
def test_it_is_the_entropy_of_the_middle_less_the_mean_entropy(counts: list[int]) -> None:
    if not sum(counts):
        assert math.isnan(divergence([counts])[0])
        return
    mix, balance = [count / sum(counts) for count in counts], [1 / len(counts)] * len(counts)
    middle = [(one + other) / 2 for one, other in zip(mix, balance, strict=True)]
    found = float(divergence([counts])[0])
    assert found == pytest.approx(entropy(middle) - (entropy(mix) + entropy(balance)) / 2, abs=1e-9)
    assert 0 <= found <= 1
    assert found == pytest.approx(float(divergence([sorted(counts)])[0]), abs=1e-12)
    assert found == pytest.approx(float(divergence([[2 * count for count in counts]])[0]), abs=1e-12)


def test_counts_are_those_of_a_plain_loop() -> None:
    labels = np.random.default_rng(0).integers(7, size=300)
    parts = partition(labels, 9, "dirichlet(0.3)", min_size=0)
    expected = [[sum(int(labels[i]) == label for i in part) for label in range(8)] for part in parts]
    assert class_counts(labels, parts, 8).tolist() == expected
    assert class_counts(torch.from_numpy(labels), parts, 8).tolist() == expected
    assert class_counts(labels, [], 8).shape == (0, 8)


@pytest.mark.parametrize(
    ("labels", "classes", "sentence"),
    [
        ([0, 3], 3, "labels=3 is not accepted: expected class numbers from 0 to 2"),
        ([0, -1], 3, "labels=-1"),
        ([0.5, 1.0], 3, "labels='float64"),
        ([[0], [1]], 3, r"shape \(2, 1\)"),
        ([0, 1], 0, "classes=0"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels: Any, classes: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        class_counts(labels, [np.array([0, 1])], classes)


@pytest.mark.parametrize("counts", [[1, 2], [[0.5, 1.0]], [[-1, 2]], np.zeros((3, 0), dtype=np.int64)])
def test_counts_that_are_none_are_refused(counts: Any) -> None:
    with pytest.raises(InputError, match=r"counts=.*is not accepted"):
        divergence(counts)
