"""Rows: a matrix whose shared columns exist once, and sums of it in the order of the tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from smofi.engine.cohort.rows import ALIGNMENT, Rows, Terms, weighted_sum
from smofi.engine.processes.tree import Branch
from support.fold import fold

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


def in_order(shares: Sequence[float]) -> Terms:
    """All rows, those at the first places with the most steps."""
    branch = Branch(range(len(shares)))
    return Terms(branch.rows, [shares[row] for row in branch.rows], branch.joins(branch.rows))


def summed(rows: Rows, shares: Sequence[float], origin: Tensor | None = None) -> Tensor:
    out = torch.full((rows.size,), math.nan, dtype=rows.pieces[0][1].dtype)
    rows.weighted_sum(in_order(shares), out, origin)
    return out


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shared", [None, slice(9, 40)])
@pytest.mark.parametrize("size", [41, 128])
def test_all_rows_begin_alike_and_end_before_the_next_begins(
    dtype: torch.dtype, shared: slice | None, size: int
) -> None:
    """In memory, so that a kernel rounds every row in the same way; they take no more than that needs."""
    for _, piece in Rows(5, size, LIKE.to(dtype), shared).pieces:
        begins = [row.data_ptr() for row in piece]
        gaps = {after - before for before, after in pairwise(begins)}
        assert all(gap % ALIGNMENT == 0 for gap in gaps)
        used = piece.shape[1] * dtype.itemsize
        assert all(used <= gap < used + ALIGNMENT for gap in gaps)
        assert piece.untyped_storage().nbytes() < len(piece) * (used + ALIGNMENT)


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
    columns, once = rows.once()
    assert columns == slice(1, 5)
    assert once.tolist() == [1, 2, 9, 9]
    assert once.data_ptr() == rows.of(1, slice(1, 5)).data_ptr()


@pytest.mark.parametrize("shared", [slice(0, 2), slice(2, 4), slice(0, 4), slice(2, 2)])
def test_shared_columns_may_be_at_either_end_all_or_none(shared: slice) -> None:
    rows = Rows(2, 4, LIKE, shared=shared)
    rows.fill(counted(4))
    assert elements(rows) == 2 * 4 - (shared.stop - shared.start)
    for columns in (slice(0, shared.start), shared, slice(shared.stop, 4)):
        assert rows.of(1, columns).tolist() == counted(4)[columns].tolist()
    found, (columns, once) = summed(rows, [0.25, 0.75]), rows.once()
    assert found[columns].tolist() == [0.0] * len(once)  # whoever has what exists once adds it by itself
    assert found[columns].signbit().all()
    found[columns] += once
    assert found.tolist() == [0, 1, 2, 3]


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


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_row_is_finite_if_all_of_it_is(broken: float) -> None:
    """That of the columns which exist only once is broken for all."""
    rows = Rows(3, 6, LIKE, shared=slice(2, 4))
    rows.fill(counted(6))
    assert [bool(rows.finite(row)) for row in range(3)] == [True] * 3
    rows.of(1, slice(5, 6)).fill_(broken)
    assert [bool(rows.finite(row)) for row in range(3)] == [True, False, True]
    rows.of(0, slice(3, 4)).fill_(broken)
    assert [bool(rows.finite(row)) for row in range(3)] == [False] * 3


# ----------------------------------------------------------------------------------------------------------------- sums


def test_the_sum_by_hand() -> None:
    rows = Rows(2, 3, LIKE, shared=slice(1, 2))
    rows.of(0, slice(0, 1)).fill_(10)
    rows.of(1, slice(0, 1)).fill_(20)
    rows.of(0, slice(1, 2)).fill_(7)
    rows.of(0, slice(2, 3)).fill_(-4)
    assert summed(rows, [0.25, 0.75]).tolist() == [17.5, 0, -1]
    assert rows.of(0, slice(1, 2)).tolist() == [7]  # what exists once is not changed


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
    found = summed(rows, shares.tolist())
    found[shared] += rows.once()[1]
    assert (found - expected).abs().max() < 1e-14


@given(count=st.integers(1, 20), size=st.sampled_from([1, 7, 33, 300]), seed=st.integers(0, 99))
def test_the_sum_has_the_bits_of_the_tree(count: int, size: int, seed: int) -> None:
    """p_j W_j is rounded first, then the strip is folded; by places that are not those of the strip."""
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn((count, size), generator=draw) * 10.0 ** torch.randint(-3, 4, (count, size), generator=draw)
    shares = torch.rand(count, generator=draw).tolist()
    places = torch.randperm(count, generator=draw).tolist()
    matrix = torch.empty_like(values)
    matrix[places] = values
    branch, out = Branch(range(count)), torch.empty(size)
    terms = Terms([places[row] for row in branch.rows], [shares[row] for row in branch.rows], branch.joins(branch.rows))
    weighted_sum(matrix, terms, out)
    expected = fold([share * row for share, row in zip(shares, values, strict=True)])
    assert expected is not None
    assert out.equal(expected)


def test_other_rows_are_neither_added_nor_changed() -> None:
    matrix, out = torch.tensor([[1.0], [10.0], [100.0]]), torch.empty(1)
    weighted_sum(matrix, Terms([2, 0], [0.5, 3.0], [0, 1]), out)
    assert out.tolist() == [53.0]
    assert matrix[1].tolist() == [10.0]


def test_the_sum_of_no_rows_is_nothing() -> None:
    """-0.0, which leaves what another process has as it is, -0.0 too."""
    out = torch.full((2,), math.nan)
    weighted_sum(torch.ones(3, 2), Terms([], [], []), out)
    assert out.tolist() == [0.0, 0.0]
    assert out.signbit().all()
    assert torch.tensor([-0.0, 5.0]).add(out).signbit().tolist() == [True, False]


@given(count=st.integers(1, 5), seed=st.integers(0, 99))
def test_the_mean_of_changes_is_the_mean(count: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    shares = torch.rand(count, generator=draw, dtype=torch.float64)
    shares /= shares.sum()
    origin = torch.randn(4, generator=draw, dtype=torch.float64)
    values = torch.randn((count, 4), generator=draw, dtype=torch.float64)
    expected = sum(share * row for share, row in zip(shares, values, strict=True))
    assert (origin + summed(holding(values), shares.tolist(), origin) - expected).abs().max() < 1e-14


def test_what_no_row_changed_stays_in_every_bit() -> None:
    """Shares that do not add up to one in binary would move 0.1, and make infinities into NaN."""
    origin = torch.tensor([0.1, -math.inf, math.inf, 1e300], dtype=torch.float64)
    found = summed(holding(origin.repeat(3, 1)), [0.9 / 3] * 3, origin)
    assert found.tolist() == [0.0] * 4
    assert (origin + found).equal(origin)


def test_a_column_that_one_row_changed_is_averaged() -> None:
    origin = torch.tensor([2.0, 2.0])
    assert summed(holding(torch.tensor([[2.0, 6.0], [2.0, 2.0]])), [0.25, 0.75], origin).tolist() == [0.0, 1.0]
