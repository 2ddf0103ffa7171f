"""Learning curves as text, and how methods look in every picture."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.methods import METHODS as REGISTERED
from smofi.report.curves import draw_curves
from smofi.report.style import METHODS, OTHERS, looks
from support.histories import histories


def test_curves_as_ascii_by_hand() -> None:
    drawn = draw_curves(
        histories({"smofi": [0.0, 1.0], "fedavg": [1.0, 0.0]}), width=20, height=4, encoding="ascii", title="two"
    )
    assert drawn.plain.split("\n") == [
        "two  accuracy",
        "100% |oooo      ****",
        " 50% |    oooooo",
        "  0% |****      oooo",
        "     +round 1------2",
        "** smofi 100.0%",
        "oo fedavg 0.0%",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_without_colour_each_curve_has_its_glyph_in_plot_and_legend(encoding: str) -> None:
    names = ["fedavg", "smofi", "smofi(alpha=-1)", "fedprox(mu=0.01)+smofi", "sflv1", "sflv2", "mergesfl", "slowmo"]
    apart = {name: [0.1 * number, 0.1 * number] for number, name in enumerate(names)}
    lines = draw_curves(histories(apart), width=80, encoding=encoding).plain.split("\n")
    legend = "   ".join(lines[17:]).split("   ")
    glyphs = {entry.split()[1]: entry.split()[0].strip("⣤")[0] for entry in legend}
    assert len(set(glyphs.values())) == len(names)
    for name, glyph in glyphs.items():
        rows = [line for line in lines[1:16] if glyph in line.split("┤")[-1].split("│")[-1].split("|")[-1]]
        assert len(rows) == 1, name  # a level curve: its glyph is in one row, and no other curve's glyph is
        assert sum(other in rows[0][5:] for other in glyphs.values()) == 1


def test_the_line_goes_on_over_rounds_without_an_evaluation_and_gaps_stay_gaps() -> None:
    # From column 13/4 to 39/4 of 14, in seven steps of 13/14 across and 2/7 up: two dots, four, and two.
    drawn = draw_curves(histories({"smofi": [None, 0.0, None, 1.0, None]}), width=20, height=4, encoding="ascii")
    assert drawn.plain.split("\n")[1:4] == ["100% |         **", " 50% |     ****", "  0% |   **"]
    gap = histories({"smofi": [1.0, None, math.nan, math.inf, 1.0]})
    lines = draw_curves(gap, width=46, height=4, encoding="ascii").plain.split("\n")
    assert next(line for line in lines if "*" in line) == "100% |*" + " " * 38 + "*"


number = st.none() | st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(
    curve=st.lists(number, min_size=1, max_size=20),
    width=st.integers(20, 100),
    height=st.integers(4, 30),
    target=st.none() | st.floats(-1, 1),
)
def test_any_numbers_fit_the_frame(curve: list[float | None], width: int, height: int, target: float | None) -> None:
    lines = draw_curves(histories({"a": [*curve, 0.5]}), width=width, height=height, target=target).plain.split("\n")
    assert all(len(line) <= width for line in lines)
    assert len(lines) - 1 - height in (1, 2)  # the heading, and one or two lines of legend


@pytest.mark.parametrize(
    "curves",
    [
        {"equal": [0.5, 0.5, 0.5]},
        {"nearly equal": [0.5, 0.5 + 1e-16, 0.5 + 2e-16]},
        {"a": [0.5], "empty": [], "nothing": [None, math.nan]},
        {"fedavgm(lr=1.0, momentum=0.9)+fedprox(mu=0.01)+smofi(alpha=-0.5)": [0.5, 0.6]},
        {"long": [index / 2000 for index in range(2000)]},
    ],
)
def test_difficult_curves_are_drawn(curves: dict[str, list[float | None]]) -> None:
    drawn = draw_curves(histories(curves), width=40, height=8).plain
    assert all(name.replace(" ", "") in "".join(drawn.split()) for name in curves)
    assert all(len(line) <= 40 for line in drawn.split("\n"))


# ------------------------------------------------------------------------------------------------------------- looks

COMBINED = ["smofi(alpha=-1)", "smofi(alpha=-0.5)", "fedprox(mu=0.01)", "fedprox(mu=0.01)+smofi", "clip(1.0)+fedavg"]


def test_every_method_has_a_look_of_its_own_whatever_is_beside_it() -> None:
    assert set(METHODS) >= set(REGISTERED)
    every = [*METHODS.values(), *OTHERS]
    for field in ("colour", "glyph"):
        assert len({getattr(look, field) for look in every}) == len(every)
    alone = {name: looks([name])[0] for name in METHODS}
    for first, second in itertools.permutations(METHODS, 2):
        assert looks([first, second, "fedprox+smofi"])[:2] == [alone[first], alone[second]]
    assert looks(["fedprox(mu=0.01)"]) == [METHODS["fedprox"]]
    assert looks(["smofi(alpha=-1)", "smofi"])[0] in OTHERS


@given(names=st.permutations([*METHODS, *COMBINED]))
def test_a_picture_has_no_two_alike_whatever_their_order(names: list[str]) -> None:
    found = dict(zip(names, looks(names), strict=True))
    assert len({(look.marker, str(look.dashes), look.hollow) for look in found.values()}) == len(names)  # in grey too
    assert found == dict(zip(sorted(names), looks(sorted(names)), strict=True))
