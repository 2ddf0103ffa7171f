"""Checks of plain values: what they return, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import smofi
from smofi.errors import InputError, check_count, check_seed, check_size


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


@pytest.mark.parametrize("value", [2**63, 10**400, 10**5000], ids=["64 bits", "400 digits", "5000 digits"])
def test_a_number_that_nothing_counts_to_is_refused(value: int) -> None:
    with pytest.raises(InputError, match=r"^rounds=.* is not accepted: expected .* >= 1 and <= 9223372036854775807$"):
        check_count("rounds", value)
    assert check_count("rounds", 2**63 - 1) == 2**63 - 1


def test_a_seed_has_128_bits_at_most() -> None:
    assert check_seed("seed", 2**128 - 1) == 2**128 - 1
    with pytest.raises(InputError, match=rf"^seed={2**128} .* >= 0 and <= {2**128 - 1}$"):
        check_seed("seed", 2**128)
    with pytest.raises(InputError, match=r"expected a whole number >= 0$"):
        check_seed("seed", -1)


@pytest.mark.parametrize("value", [-(10**5000), [10**5000], {10**5000: 1}], ids=["number", "list", "dict"])
def test_a_number_that_python_does_not_write_is_named(value: object) -> None:
    with pytest.raises(
        InputError, match=r"^rounds=[\[{]?a whole number of more than 4000 digits[:1 \]}]* is not accepted"
    ):
        check_count("rounds", value)
    with pytest.raises(InputError, match=r"^memory_limit=[\[{]?a whole number of more than 4000 digits"):
        check_size("memory_limit", value)
