"""What a client holds its server to, whatever the method makes of batches."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from smofi.method import Method
from smofi.methods import parse_method
from smofi.serving.participation import Agreed


def batch_sizes(method: Method, samples: int) -> range:
    """Of a client with that much data, offered batches of 8."""
    device = SimpleNamespace(samples=range(samples), setup=SimpleNamespace(method=method))
    agreed: Any = SimpleNamespace(config=SimpleNamespace(batch_size=8), device=device)
    return Agreed.batch_sizes.fget(agreed)  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(
    "method", ["fedavg", "smofi", "mergesfl", "mergesfl(reference='slowest')", "mergesfl(steps=2)"]
)
def test_batches_have_the_size_that_was_offered(method: str) -> None:
    """A served run times no machine: to a method that goes by speed, all are equally fast."""
    assert list(batch_sizes(parse_method(method), 100)) == [8]
    assert list(batch_sizes(parse_method(method), 8)) == [8]
    assert list(batch_sizes(parse_method(method), 7)) == []


def test_a_method_that_goes_by_the_data_of_others() -> None:
    """No client knows how much the others have."""

    def by_size(batch_size: int, speeds: Sequence[float], sizes: Sequence[int]) -> list[int]:
        return [max(1, batch_size * size // max(sizes)) for size in sizes]

    assert batch_sizes(Method(batch_sizes=by_size), 100) == range(1, 101)
