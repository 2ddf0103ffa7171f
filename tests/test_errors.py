"""Checks of plain values: what they return, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from smofi.errors import InputError, check_count, check_seed, check_size, shown


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("10", 10),
        (10, 10),
        ("2GB", 2 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("500M", 5 * 10**8),
        ("2Gi", 2**31),
        (" 3B ", 3),
    ],
)
def test_sizes_as_people_write_them(written: Any, size: int) -> None:
    assert check_size("memory_limit", written) == size


@pytest.mark.parametrize(
    "written", ["", "GB", "-1GB", -1, "2 parsecs", "1e9", "1_000", "2GB of it", "9" * 400 + "GB", True, None], ids=repr
)
def test_what_is_no_size_is_refused(written: Any) -> None:
    with pytest.raises(InputError, match=r"^memory_limit=.* expected a number of bytes, or a size such as 500MB, 2GB"):
        check_size("memory_limit", written)


def test_numbers_have_an_end() -> None:
    assert check_count("rounds", 2**63 - 1) == 2**63 - 1
    assert check_seed("seed", 2**128 - 1) == 2**128 - 1
    for value in (2**63, 10**400, 10**5000):
        with pytest.raises(InputError, match=r"^rounds=.* expected .* >= 1 and <= 9223372036854775807$"):
            check_count("rounds", value)
    with pytest.raises(InputError, match=rf"^seed={2**128} .* >= 0 and <= {2**128 - 1}$"):
        check_seed("seed", 2**128)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(64, 4), "<Tensor of shape (64, 4), float32>"),
        (np.zeros((2, 3), np.int32), "<ndarray of shape (2, 3), int32>"),
        ((torch.zeros(2, 1), "a"), "(<Tensor of shape (2, 1), float32>, 'a')"),
        ({"x": torch.zeros(3)}, "{'x': <Tensor of shape (3,), float32>}"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, 6, 7, ... (9 in all)]"),
        ((1,), "(1,)"),
        (nn.Sequential(nn.Linear(1, 1), nn.ReLU()), "<Sequential>"),
        ([-(10**5000)], "[a whole number of more than 4000 digits]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_in_a_sentence(value: Any, text: str) -> None:
    assert shown(value) == text
