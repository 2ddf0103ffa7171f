from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.errors import InputError
from smofi.report import draw_curves
from smofi.report.canvas import Canvas, can_braille
from smofi.report.curves import ticks
from support.histories import histories


def test_a_line_in_braille_by_hand() -> None:
    # One character is two dots wide and four high; a rising diagonal over 4 x 4 dots sets the dots
    # (0, bottom) 0x40, (1, second from below) 0x20 in the first character and (2, second from above) 0x02,
    # (3, top) 0x08 in the second.
    canvas = Canvas(2, 1, braille=True)
    canvas.line((0.0, 0.0), (1.0, 1.0), style="red", letter="*")
    assert canvas.row(0).plain == chr(0x2800 + 0x60) + chr(0x2800 + 0x0A)
    assert {span.style for span in canvas.row(0).spans} == {"red"}


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


def test_braille_where_it_can_be_shown_and_ascii_elsewhere() -> None:
    assert can_braille("utf-8")
    assert can_braille("utf-16")
    assert not any(can_braille(name) for name in ("ascii", "latin-1", "cp437", "no-such-encoding"))
    curves = {"fedavg": [0.1, 0.5, 0.6], "smofi": [0.3, 0.7, 0.8]}
    assert draw_curves(histories(curves), target=0.6, encoding="cp1252").plain.isascii()
    assert any("⠀" <= character <= "⣿" for character in draw_curves(histories(curves), encoding="utf-8").plain)


def test_each_curve_has_its_colour_in_plot_and_legend() -> None:
    drawn = draw_curves(histories({"fedavg": [0.1, 0.2], "smofi": [0.8, 0.9]}), target=0.5, encoding="utf-8")
    styles = [str(span.style) for span in drawn.spans]
    assert styles.count("#0072B2") > 1
    assert styles.count("#009E73") > 1
    assert "fedavg 20.0%" in drawn.plain
    assert "target 50.0%" in drawn.plain


def test_without_colour_each_curve_has_its_glyph_in_plot_and_legend() -> None:
    names = ["fedavg", "smofi", "smofi(alpha=-1)", "fedprox(mu=0.01)+smofi", "sflv1", "sflv2", "mergesfl", "slowmo"]
    apart = {name: [0.1 * number, 0.1 * number] for number, name in enumerate(names)}
    for encoding in ("utf-8", "ascii"):
        lines = draw_curves(histories(apart), width=80, encoding=encoding).plain.split("\n")
        legend = "   ".join(lines[17:]).split("   ")
        glyphs = {entry.split()[1]: entry.split()[0].strip("⣤")[0] for entry in legend}
        assert len(set(glyphs.values())) == len(names)
        for name, glyph in glyphs.items():
            rows = [line for line in lines[1:16] if glyph in line.split("┤")[-1].split("│")[-1].split("|")[-1]]
            assert len(rows) == 1, name  # a level curve: its glyph is in one row, and no other curve's glyph is
            assert sum(other in rows[0][5:] for other in glyphs.values()) == 1


def test_a_curve_below_another_is_seen() -> None:
    drawn = draw_curves(histories({"fedavg": [0.5, 0.5], "smofi": [0.5, 0.5]}), width=60).plain.split("\n")
    (row,) = [line for line in drawn[1:16] if "*" in line]
    assert row.count("o") >= 4
    assert row.count("*") >= 4


def test_one_curve_needs_no_glyphs() -> None:
    assert "o" not in draw_curves(histories({"fedavg": [0.5, 0.5]})).plain.replace("round", "").split("fedavg")[0]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_legend_breaks_names_after_a_plus_or_a_comma(encoding: str) -> None:
    name = "fedavgm(lr=1.0, momentum=0.9)+fedprox(mu=0.01)+smofi(alpha=-0.5)"
    lines = draw_curves(histories({name: [0.5, 0.6]}), width=40, encoding=encoding).plain.split("\n")
    assert [line.strip("⣤@abcd ") for line in lines[17:]] == [
        "fedavgm(lr=1.0, momentum=0.9)+", "fedprox(mu=0.01)+", "smofi(alpha=-0.5) 60.0%",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 40


def test_the_line_goes_on_over_rounds_without_an_evaluation() -> None:
    # From column 13/4 to 39/4 of 14, in seven steps of 13/14 across and 2/7 up: two dots, four, and two.
    drawn = draw_curves(histories({"smofi": [None, 0.0, None, 1.0, None]}), width=20, height=4, encoding="ascii")
    assert drawn.plain.split("\n")[1:4] == [
        "100% |         **",
        " 50% |     ****",
        "  0% |   **",
    ]


def test_gaps_stay_gaps() -> None:
    drawn = draw_curves(
        histories({"smofi": [1.0, None, math.nan, math.inf, 1.0]}), width=46, height=4, encoding="ascii"
    )
    assert next(line for line in drawn.plain.split("\n") if "*" in line) == "100% |*" + " " * 38 + "*"


@pytest.mark.parametrize(
    "curves",
    [
        {"one point": [0.5]},
        {"equal": [0.5, 0.5, 0.5]},
        {"nearly equal": [0.5, 0.5 + 1e-16, 0.5 + 2e-16]},
        {"zero": [0.0, 0.0]},
        {"one": [1.0] * 5},
        {"a": [0.5], "empty": [], "nothing": [None, math.nan]},
        {f"curve {number}": [number / 10, 0.5] for number in range(10)},
        {"long": [index / 2000 for index in range(2000)]},
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_difficult_curves_are_drawn(curves: dict[str, list[float | None]], encoding: str) -> None:
    drawn = draw_curves(histories(curves), width=50, height=8, encoding=encoding).plain
    assert all(name in drawn for name in curves)
    assert all(len(line) <= 50 for line in drawn.split("\n"))


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


def test_ticks_are_round_and_enclose() -> None:
    assert ticks(0.0, 1.0, 5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.31, 0.68, 4) == [0.3, 0.4, 0.5, 0.6, 0.7]
    assert ticks(3.0, 7.0, 2) == [2.0, 4.0, 6.0, 8.0]
    assert ticks(5.0, 5.0, 2) == [4.5, 5.0, 5.5]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"width": 5}, "width=5"),
        ({"height": 0}, "height=0"),
        ({"histories": []}, "at least one history"),
        ({"histories": histories({"a": [None]})}, "at least one history"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        draw_curves(**{"histories": histories({"a": [0.5]}), **changed})  # type: ignore[arg-type]
