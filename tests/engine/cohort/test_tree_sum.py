"""Sums in the order of the tree: whatever order the rows come in, with few vectors if that is the order of the tree."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from smofi.engine.cohort.tree_sum import TreeSum, Vectors
from smofi.engine.processes.tree import Branch
from support.fold import fold

WIDTH = 5


def fresh() -> Tensor:
    return torch.full((WIDTH,), torch.nan)


def drawn(count: int, seed: int = 0) -> Tensor:
    """A vector for each row, of all sizes, so that the order of adding shows."""
    draw = torch.Generator().manual_seed(seed)
    sizes = 10.0 ** torch.randint(-3, 4, (count, WIDTH), generator=draw)
    return torch.randn(count, WIDTH, generator=draw) * sizes


def bring(total: TreeSum, values: Tensor, rows: Sequence[int]) -> None:
    """The vectors of these rows, in this order."""
    for row in rows:
        number = total.vectors.take()
        total.vectors[number].copy_(values[row])
        total.add(row, number)


def by_fold(values: Tensor, rows: set[int]) -> Tensor:
    """That of a strip on which row j lies at place j."""
    total = fold([value if row in rows else None for row, value in enumerate(values)])
    assert total is not None
    return total


@given(data=st.data(), count=st.integers(1, 33), seed=st.integers(0, 99))
def test_any_rows_in_any_order_are_folded(data: st.DataObject, count: int, seed: int) -> None:
    values, branch = drawn(count, seed), Branch(range(count))
    chosen = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    total = TreeSum(Vectors(fresh), branch, list(chosen))
    bring(total, values, data.draw(st.permutations(sorted(chosen))))
    found = total.result()
    assert found is not None
    assert found.equal(by_fold(values, chosen))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 100])
def test_in_order_there_are_no_more_vectors_than_levels_and_one(count: int) -> None:
    vectors, levels = Vectors(fresh), (count - 1).bit_length()
    total = TreeSum(vectors, Branch(range(count)), range(count))
    for row in total.rows:
        bring(total, drawn(count), [row])
        assert total.waiting == {}
    assert len(vectors.all) <= levels + 1
    if count == 1 << levels:  # then every level waits for its other half
        assert len(vectors.all) == levels + 1
    assert len(total.stack) == 1


def test_a_row_that_comes_early_waits() -> None:
    """(0 + 3) + (1 + 2): the others are not added before 0, and 2 not before 1."""
    values = drawn(4)
    total = TreeSum(Vectors(fresh), Branch(range(4)), range(4))
    assert total.rows == [0, 3, 1, 2]
    bring(total, values, [2, 3])
    assert set(total.waiting) == {2, 3}
    assert total.position == 0
    bring(total, values, [0])
    assert set(total.waiting) == {2}
    assert total.position == 2
    assert len(total.stack) == 1
    bring(total, values, [1])
    assert total.position == 4
    found = total.result()
    assert found is not None
    assert found.equal((values[0] + values[3]) + (values[1] + values[2]))


def test_no_rows_have_no_sum() -> None:
    assert TreeSum(Vectors(fresh), Branch([]), []).result() is None
    assert TreeSum(Vectors(fresh), Branch([7, 8]), []).result() is None


def test_a_sum_begins_anew_with_the_same_vectors() -> None:
    values, vectors = drawn(6), Vectors(fresh)
    total = TreeSum(vectors, Branch(range(6)), range(6))
    for turn in range(3):
        bring(total, values + turn, total.rows)
        found = total.result()
        assert found is not None
        assert found.equal(by_fold(values + turn, set(range(6))))
        total.restart()
        assert len(vectors.free) == len(vectors.all) <= 4


def test_a_sum_given_up_half_way_gives_its_vectors_back() -> None:
    vectors = Vectors(fresh)
    total = TreeSum(vectors, Branch(range(6)), range(6))
    bring(total, drawn(6), [total.rows[0], total.rows[3]])  # one is added, one waits
    total.restart()
    assert sorted(vectors.free) == [0, 1]


# -------------------------------------------------------------------------------------------------------------- vectors


def test_vectors_are_made_when_there_is_none_to_use_again() -> None:
    made: list[Tensor] = []

    def make() -> Tensor:
        made.append(fresh())
        return made[-1]

    vectors = Vectors(make)
    assert made == []
    first, second = vectors.take(), vectors.take()
    assert vectors[first] is made[0]
    assert vectors[second] is made[1]
    vectors.give(first)
    assert vectors.take() == first
    assert len(made) == 2
    third = vectors.take()
    assert vectors[third] is made[2]


def test_vectors_of_an_owner_are_never_taken() -> None:
    given_by_owner = [fresh(), fresh()]
    vectors = Vectors(fresh, given_by_owner)
    assert vectors[1] is given_by_owner[1]
    vectors.give(0)
    vectors.give(1)
    taken = vectors.take()
    assert taken == 2
    vectors.give(taken)
    assert vectors.take() == 2


@given(count=st.integers(1, 20), most=st.integers(1, 8), seed=st.integers(0, 99))
def test_an_owner_uses_its_vectors_for_one_subtree_after_the_other(count: int, most: int, seed: int) -> None:
    """What was added moves out of them before."""
    values, branch = drawn(count, seed), Branch(range(count))
    scratch = torch.empty(most, WIDTH)
    vectors = Vectors(fresh, scratch.unbind())
    total = TreeSum(vectors, branch, range(count))
    for subtree in branch.subtrees(most):
        total.move()
        scratch.fill_(torch.nan)
        for place, row in enumerate(subtree):
            scratch[place] = values[row]
        for place, row in enumerate(subtree):
            total.add(row, place)
    found = total.result()
    assert found is not None
    assert found.equal(by_fold(values, set(range(count))))
