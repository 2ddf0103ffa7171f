"""The order of sums by hand: which rows a worker has, which of them are neighbours, and how they are joined."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.engine.processes.tree import NOTHING, Branch, deal, mirrored


def joined(branch: Branch, rows: list[int]) -> str:
    """The sum of these rows, as it is written."""
    stack: list[str] = []
    for row, joins in zip(rows, branch.joins(rows), strict=True):
        stack.append(str(row))
        for _ in range(joins):
            last = stack.pop()
            stack[-1] = f"({stack[-1]}+{last})"
    assert len(stack) <= 1
    return "".join(stack)


def test_nothing_changes_no_number() -> None:
    assert str(-0.0 + NOTHING) == "-0.0"
    assert str(0.0 + NOTHING) == "0.0"
    assert str(-0.0 + 0.0) == "0.0"  # which is why zero is not nothing


@pytest.mark.parametrize(
    ("steps", "workers", "expected"),
    [
        ([9, 8, 7, 6, 5], 1, [[0, 1, 2, 3, 4]]),
        ([5, 6, 7, 8, 9], 1, [[4, 3, 2, 1, 0]]),
        ([9, 8, 7, 6, 5], 2, [[0, 3, 4], [1, 2]]),
        ([9, 8, 7, 6, 5], 4, [[0], [1], [2], [3, 4]]),
        ([9, 8, 7, 6, 5, 4, 3], 3, [[0, 5, 6], [1, 4], [2, 3]]),
        ([3, 3, 3, 3], 2, [[0, 3], [1, 2]]),  # equals by their row
        ([3, 0], 4, [[0], [1], [], []]),
        ([], 2, [[], []]),
    ],
)
def test_rows_are_dealt_back_and_forth(steps: list[int], workers: int, expected: list[list[int]]) -> None:
    assert deal(steps, workers) == expected
    assert [Branch.of(steps, workers, rank).leaves.keys() for rank in range(workers)] == [
        dict.fromkeys(rows).keys() for rows in expected
    ]


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [0]), (2, [1, 0]), (3, [3, 2, 1]), (4, [3, 2, 1, 0]), (5, [7, 6, 5, 4, 3])]
)
def test_a_folded_strip_has_places_on_each_other(count: int, expected: list[int]) -> None:
    assert [mirrored(place, count) for place in range(count)] == expected


@given(count=st.integers(1, 1000), data=st.data())
def test_what_lies_on_a_place_has_that_place_on_it(count: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, count - 1))
    assert mirrored(mirrored(place, count), count) == place


BY_HAND = {
    1: "0",
    2: "(0+1)",
    3: "(0+(1+2))",
    4: "((0+3)+(1+2))",
    5: "((0+(3+4))+(1+2))",
    6: "((0+(3+4))+(1+(2+5)))",
    7: "((0+(3+4))+((1+6)+(2+5)))",
    8: "(((0+7)+(3+4))+((1+6)+(2+5)))",
}


@pytest.mark.parametrize(("count", "expected"), BY_HAND.items())
def test_the_sums_of_few_rows(count: int, expected: str) -> None:
    branch = Branch(range(count))
    assert joined(branch, branch.rows) == expected
    named = Branch([50 + row for row in range(count)])  # whichever rows they are
    assert named.rows == [50 + row for row in branch.rows]
    assert named.joins(named.rows) == branch.joins(branch.rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [([0, 4], "(0+4)"), ([4, 1, 0], "((0+4)+1)"), ([2, 4, 3], "((3+4)+2)"), ([6, 5, 2, 1], "((1+6)+(2+5))"), ([], "")],
)
def test_some_of_the_rows_keep_their_places(rows: list[int], expected: str) -> None:
    branch = Branch(range(7))
    assert joined(branch, branch.in_order(rows)) == expected


def test_a_branch_of_no_rows() -> None:
    branch = Branch([])
    assert branch.rows == branch.joins([]) == []
    assert branch.subtrees(3) == [[]]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [[0], [7], [3], [4], [1], [6], [2], [5]]),
        (2, [[0, 7], [3, 4], [1, 6], [2, 5]]),
        (3, [[0, 7], [3, 4], [1, 6], [2, 5]]),
        (4, [[0, 7, 3, 4], [1, 6, 2, 5]]),
        (7, [[0, 7, 3, 4], [1, 6, 2, 5]]),
        (8, [[0, 7, 3, 4, 1, 6, 2, 5]]),
    ],
)
def test_subtrees_are_as_large_as_fits(most: int, expected: list[list[int]]) -> None:
    assert Branch(range(8)).subtrees(most) == expected


@given(count=st.integers(1, 200), most=st.integers(1, 70))
def test_subtrees_are_whole_and_no_larger(count: int, most: int) -> None:
    """All rows, in order; each is one sum before another subtree's rows are added to it."""
    branch = Branch(range(count))
    subtrees = branch.subtrees(most)
    assert [row for rows in subtrees for row in rows] == branch.rows
    assert all(1 <= len(rows) <= most for rows in subtrees)
    everything = joined(branch, branch.rows)
    assert all(joined(branch, rows) in everything for rows in subtrees)


@pytest.mark.parametrize(("count", "most", "sizes"), [(1000, 64, 8 * [62] + 8 * [63]), (100, 64, [50, 50])])
def test_large_subtrees_are_nearly_equal(count: int, most: int, sizes: list[int]) -> None:
    assert sorted(map(len, Branch(range(count)).subtrees(most))) == sizes
