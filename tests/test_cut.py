"""The cut: every way of writing it, which columns it gives to whom, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from smofi.cut import Cut, Region, parse_cut, regions
from smofi.errors import InputError
from smofi.flat import Layout

BLOCKS = ("input", "a", "b", "c", "output")


def layout() -> Layout:
    """Five blocks of 9, 4, 4, 6 and 3 parameters: three core blocks."""
    sizes = [(2, 3), (3, 1), (1, 2), (2, 2), (2, 1)]
    return Layout.of(nn.Sequential(OrderedDict((b, nn.Linear(*size)) for b, size in zip(BLOCKS, sizes, strict=True))))


# Forms


@pytest.mark.parametrize(
    ("spec", "server"),
    [
        (0, (1, 5)),
        (3, (4, 5)),
        ("0", (1, 5)),
        ("3", (4, 5)),
        (" 2 ", (3, 5)),
        (np.int64(2), (3, 5)),
        ((0, 1), (1, 4)),
        ((2, 1), (3, 4)),
        ((0, 3), (1, 2)),
        ((1, 0), (2, 5)),
        ("0,1", (1, 4)),
        ("(2, 1)", (3, 4)),
        ("1,0", (2, 5)),
    ],
)
def test_one_cut_for_all(spec: Any, server: tuple[int, int]) -> None:
    cuts = parse_cut(spec, layout(), clients=7)
    assert cuts.options == (Cut(*server, blocks=5),)
    assert not cuts.drawn
    assert not cuts.per_client
    assert cuts.for_round([2, 6, 4], seed=0, round=0) == [Cut(*server, blocks=5)] * 3


@pytest.mark.parametrize(
    ("spec", "servers"),
    [
        ([0, 3, 1], [(1, 5), (4, 5), (2, 5)]),
        ("[0,3,1]", [(1, 5), (4, 5), (2, 5)]),
        ("[0, 3, 1]", [(1, 5), (4, 5), (2, 5)]),
        ([2, (0, 1), (1, 2)], [(3, 5), (1, 4), (2, 3)]),
    ],
)
def test_a_cut_for_each_client(spec: Any, servers: list[tuple[int, int]]) -> None:
    cuts = parse_cut(spec, layout(), clients=3)
    assert cuts.per_client
    assert not cuts.drawn
    expected = [Cut(*server, blocks=5) for server in servers]
    assert cuts.for_round([0, 1, 2], seed=0, round=0) == expected
    assert cuts.for_round([2, 0], seed=4, round=9) == [expected[2], expected[0]]


def test_equal_cuts_for_all_clients_are_one_cut() -> None:
    cuts = parse_cut([2, 2, 2], layout(), clients=3)
    assert not cuts.per_client
    assert cuts == parse_cut(2, layout(), clients=3)
    assert not parse_cut([1], layout(), clients=1).per_client


def test_a_range_is_drawn_once_a_round_for_all_clients() -> None:
    cuts = parse_cut("1-3", layout(), clients=10)
    assert cuts.drawn
    assert not cuts.per_client
    assert cuts.options == (Cut(2, 5, 5), Cut(3, 5, 5), Cut(4, 5, 5))
    drawn = [cuts.for_round([1, 5, 9], seed=3, round=n) for n in range(300)]
    assert all(len(set(of_round)) == 1 and len(of_round) == 3 for of_round in drawn)
    # 100 of 300 each, with a standard deviation of 8
    assert all(60 < count < 140 for count in Counter(of_round[0] for of_round in drawn).values())
    assert {of_round[0] for of_round in drawn} == set(cuts.options)


def test_the_draw_is_a_function_of_seed_and_round_alone() -> None:
    cuts = parse_cut("0-3", layout(), clients=10)
    draws = {seed: [cuts.for_round([0], seed=seed, round=n)[0] for n in range(40)] for seed in (0, 1)}
    assert draws[0] == [cuts.for_round([7, 8], seed=0, round=n)[1] for n in range(40)]
    assert draws[0] != draws[1]
    backwards = [cuts.for_round([0], seed=0, round=n)[0] for n in reversed(range(40))]
    assert draws[0] == backwards[::-1]


def test_a_range_of_one_is_that_cut() -> None:
    cuts = parse_cut("2-2", layout(), clients=2)
    assert {cuts.for_round([0], seed=0, round=n)[0] for n in range(5)} == {Cut(3, 5, 5)}


# Columns


@pytest.mark.parametrize(
    ("cut", "server", "blocks", "written"),
    [
        (Cut(1, 5, 5), slice(9, 26), [range(1)], "0"),
        (Cut(3, 5, 5), slice(17, 26), [range(3)], "2"),
        (Cut(1, 4, 5), slice(9, 23), [range(1), range(4, 5)], "0,1"),
        (Cut(2, 3, 5), slice(13, 17), [range(2), range(3, 5)], "1,2"),
    ],
    ids=str,
)
def test_columns_of_both_sides(cut: Cut, server: slice, blocks: list[range], written: str) -> None:
    assert cut.server(layout()) == server
    assert cut.client_blocks == blocks
    assert cut.u_shaped == (len(blocks) == 2)
    assert str(cut) == written
    assert parse_cut(written, layout(), clients=1).options == (cut,)


# Regions


def test_one_region_if_all_are_cut_alike() -> None:
    assert regions([Cut(2, 4, 5)] * 3) == [Region(2, 4, (0, 1, 2))]


def test_regions_of_different_cuts() -> None:
    assert regions([Cut(1, 5, 5), Cut(3, 5, 5), Cut(2, 4, 5)]) == [
        Region(1, 2, (0,)),
        Region(2, 3, (0, 2)),
        Region(3, 4, (0, 1, 2)),
        Region(4, 5, (0, 1)),
    ]


def test_blocks_that_nobody_has_on_the_server_are_in_no_region() -> None:
    assert regions([Cut(1, 2, 5), Cut(3, 5, 5)]) == [Region(1, 2, (0,)), Region(3, 5, (1,))]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted), min_size=1, max_size=6))
def test_every_server_block_is_in_one_region_with_all_its_rows(pairs: list[list[int]]) -> None:
    cuts = [Cut(first, last + 1, 6) for first, last in pairs]
    found = regions(cuts)
    for block in range(6):
        rows = tuple(row for row, cut in enumerate(cuts) if cut.first <= block < cut.last)
        containing = [region.rows for region in found if region.first <= block < region.last]
        assert containing == ([rows] if rows else [])
    assert all(before.last <= after.first for before, after in itertools.pairwise(found))


# Refusals

NAMED = "the model's blocks are 0=input, 1=a, 2=b, 3=c, 4=output"
FORMS = 'L (such as 2), L,H for the U shape (such as 2,1), a range drawn each round (such as "0-3"), or a list with'
EACH = "expected one cut for each of the 2 clients, but it has "

WRONG: list[tuple[Any, str, str]] = [
    *((spec, "0 <= L <= 3 core blocks", NAMED) for spec in (4, -1, "4", 100, "1-4", [0, 4], "[0,4]", [(0, 1), 9])),
    *((spec, "0 <= L <= 2 core blocks", NAMED) for spec in ((3, 1), "3,1", (-1, 1))),
    *((spec, "0 <= L <= 0 core blocks", NAMED) for spec in ((1, 3), [0, (1, 3)])),
    *((spec, "expected ", NAMED) for spec in ((0, 4), (0, -1), "0,99")),
    *(
        (spec, FORMS, "")
        for spec in ("", "two", "-1", "1.5", "3-1", "1-", "1,", "1,2,3", "[]", "[1", "1]", "[1,(0,1)]")
    ),
    *((spec, FORMS, "") for spec in ("[1,(0,1)]", 1.0, None, True, (1, 2, 3), (1,), (1, "2"), (True, 1), {"L": 1})),
    *((spec, FORMS, "") for spec in ([True, 0], ["1", "2"], [None, 1], [[0], [1]], [(0, 1, 2), 0])),
    *((spec, EACH, "") for spec in ([0], [0, 1, 2, 3], [], "[0,1,2]")),
]


@pytest.mark.parametrize(("spec", "word", "end"), WRONG, ids=repr)
def test_what_is_refused(spec: Any, word: str, end: str) -> None:
    """With what is accepted: the model's blocks are named, or the forms that there are."""
    with pytest.raises(InputError) as refusal:
        parse_cut(spec, layout(), clients=2)
    message = str(refusal.value)
    assert message.startswith(f"cut={spec!r} is not accepted: ")
    assert word in message
    assert message.endswith(end)


def test_an_endless_number_is_refused_like_any_other() -> None:
    """Python itself refuses to read a number of more than 4,300 digits, with an error of its own."""
    with pytest.raises(InputError, match="cut="):
        parse_cut("1" * 5000, layout(), clients=2)
