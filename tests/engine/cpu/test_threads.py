"""More threads for a while, and never fewer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from smofi.engine.cpu.threads import with_threads


@pytest.fixture(autouse=True)
def _one_thread_afterwards() -> Iterator[None]:
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(("before", "asked", "during"), [(1, 1, 1), (1, 2, 2), (3, 2, 3)])
def test_there_are_at_least_as_many_as_asked_for(before: int, asked: int, during: int) -> None:
    torch.set_num_threads(before)
    with with_threads(asked):
        assert torch.get_num_threads() == during
    assert torch.get_num_threads() == before


def test_an_error_leaves_none_behind() -> None:
    with pytest.raises(ZeroDivisionError), with_threads(2):
        _ = 1 / 0
    assert torch.get_num_threads() == 1
