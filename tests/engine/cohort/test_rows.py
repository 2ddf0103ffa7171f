"""Rows: a matrix whose shared columns exist once, and means of it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from smofi.engine.cohort.rows import Rows

LIKE = torch.zeros(1, dtype=torch.float64)


def counted(size: int) -> Tensor:
    return torch.arange(size, dtype=torch.float64)


def holding(values: Tensor) -> Rows:
    rows = Rows(len(values), values.shape[1], values)
    for row, value in enumerate(values):
        rows.of(row, slice(0, values.shape[1])).copy_(value)
    return rows


def elements(rows: Rows) -> int:
    return sum(piece.numel() for _, piece in rows.pieces)


def test_every_row_is_filled_and_is_its_own() -> None:
    rows = Rows(3, 5, LIKE)
    rows.fill(counted(5))
    rows.of(1, slice(2, 4)).fill_(9)
    assert rows.of(0, slice(0, 5)).tolist() == [0, 1, 2, 3, 4]
    assert rows.of(1, slice(0, 5)).tolist() == [0, 1, 9, 9, 4]
    assert rows.of(2, slice(1, 3)).tolist() == [1, 2]
    assert rows.matrix(slice(2, 3)).tolist() == [[2], [9], [2]]
    assert elements(rows) == 15
    rows.zero()
    assert rows.matrix(slice(0, 5)).abs().sum() == 0


def test_shared_columns_exist_once() -> None:
    rows = Rows(3, 6, LIKE, shared=slice(1, 5))
    assert elements(rows) == 3 * 2 + 4
    rows.fill(counted(6))
    rows.of(2, slice(3, 5)).fill_(9)
    assert [rows.of(row, slice(1, 5)).tolist() for row in range(3)] == [[1, 2, 9, 9]] * 3
    rows.of(0, slice(0, 1)).fill_(-1)
    rows.of(1, slice(5, 6)).fill_(-2)
    assert [rows.of(row, slice(0, 1)).tolist() for row in range(3)] == [[-1], [0], [0]]
    assert [rows.of(row, slice(5, 6)).tolist() for row in range(3)] == [[5], [-2], [5]]


@pytest.mark.parametrize("shared", [slice(0, 2), slice(2, 4), slice(0, 4), slice(2, 2)])
def test_shared_columns_may_be_at_either_end_all_or_none(shared: slice) -> None:
    rows = Rows(2, 4, LIKE, shared=shared)
    rows.fill(counted(4))
    assert elements(rows) == 2 * 4 - (shared.stop - shared.start)
    for columns in (slice(0, shared.start), shared, slice(shared.stop, 4)):
        assert rows.of(1, columns).tolist() == counted(4)[columns].tolist()
    assert rows.weighted_sum(torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist() == [0, 1, 2, 3]


def test_columns_across_the_edge_of_a_piece_have_no_view() -> None:
    rows = Rows(2, 6, LIKE, shared=slice(2, 4))
    with pytest.raises(IndexError, match=r"slice\(1, 3, None\) lie in no single piece"):
        rows.of(0, slice(1, 3))


def test_views_are_views() -> None:
    rows = Rows(2, 4, LIKE)
    view = rows.of(1, slice(1, 3))
    rows.fill(counted(4))
    assert view.tolist() == [1, 2]
    assert view.data_ptr() == rows.matrix(slice(1, 3))[1].data_ptr()


def test_the_sum_by_hand() -> None:
    rows = Rows(2, 3, LIKE, shared=slice(1, 2))
    rows.of(0, slice(0, 1)).fill_(10)
    rows.of(1, slice(0, 1)).fill_(20)
    rows.of(0, slice(1, 2)).fill_(7)
    rows.of(0, slice(2, 3)).fill_(-4)
    assert rows.weighted_sum(torch.tensor([0.25, 0.75], dtype=torch.float64)).tolist() == [17.5, 7, -1]


@given(
    count=st.integers(1, 5),
    edges=st.tuples(st.integers(0, 6), st.integers(0, 6)).map(sorted),
    seed=st.integers(0, 99),
)
def test_the_sum_of_any_rows(count: int, edges: list[int], seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    shared = slice(*edges)
    shares = torch.rand(count, generator=draw, dtype=torch.float64)
    shares /= shares.sum()
    values = torch.randn((count, 6), generator=draw, dtype=torch.float64)
    values[:, shared] = values[0, shared].clone()
    rows = Rows(count, 6, LIKE, shared=shared)
    for row in range(count):
        for columns in (slice(0, shared.start), shared, slice(shared.stop, 6)):
            rows.of(row, columns).copy_(values[row, columns])
    expected = sum(share * row for share, row in zip(shares, values, strict=True))
    assert (rows.weighted_sum(shares) - expected).abs().max() < 1e-14


@given(count=st.integers(1, 5), seed=st.integers(0, 99))
def test_the_mean_of_changes_is_the_mean(count: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    shares = torch.rand(count, generator=draw, dtype=torch.float64)
    shares /= shares.sum()
    origin = torch.randn(4, generator=draw, dtype=torch.float64)
    values = torch.randn((count, 4), generator=draw, dtype=torch.float64)
    expected = sum(share * row for share, row in zip(shares, values, strict=True))
    assert (origin + holding(values).weighted_change(shares, origin) - expected).abs().max() < 1e-14


def test_what_no_row_changed_stays_in_every_bit() -> None:
    """Shares that do not add up to one in binary would move 0.1, and make infinities into NaN."""
    origin = torch.tensor([0.1, -math.inf, math.inf, 1e300], dtype=torch.float64)
    shares = torch.tensor([1 / 3, 1 / 3, 1 / 3], dtype=torch.float64) * 0.9
    assert holding(origin.repeat(3, 1)).weighted_change(shares, origin).tolist() == [0.0] * 4


def test_a_column_that_one_row_changed_is_averaged() -> None:
    origin = torch.tensor([2.0, 2.0])
    rows = holding(torch.tensor([[2.0, 6.0], [2.0, 2.0]]))
    assert rows.weighted_change(torch.tensor([0.25, 0.75]), origin).tolist() == [0.0, 1.0]
