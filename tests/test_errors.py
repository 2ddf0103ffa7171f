"""Checks of plain values: what they return, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import smofi
from smofi.errors import check_size


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("10", 10),
        (10, 10),
        ("2GB", 2 * 10**9),
        ("1.5 gib", 3 * 2**29),
        ("500M", 5 * 10**8),
        ("2g", 2 * 10**9),
        ("7kb", 7000),
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
    with pytest.raises(
        smofi.InputError, match=r"^memory_limit=.* expected a number of bytes, or a size such as 500MB, 2GB or"
    ):
        check_size("memory_limit", written)
