from __future__ import annotations

import math
import re
import struct
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smofi.config import Config
from smofi.errors import InputError
from smofi.report import History, save_curves
from smofi.report.curves import spread
from smofi.report.heading import details, setting
from smofi.report.numbers import time_unit
from smofi.report.style import METHODS, looks
from support.histories import histories

CURVES = histories({"fedavg": [0.2, 0.5, 0.7], "smofi": [0.4, 0.8, 0.9]})


def test_a_png_of_readme_width(tmp_path: Path) -> None:
    path = save_curves(tmp_path / "curves.png", CURVES, target=0.63, title="digits")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1680, 880)


def test_an_svg_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    first, second = (save_curves(tmp_path / f"{name}.svg", CURVES, target=0.63, title="digits") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    assert ElementTree.parse(first).getroot().tag.endswith("svg")
    assert b"<dc:date>" not in first.read_bytes()


def test_colours_stand_for_curves(tmp_path: Path) -> None:
    text = save_curves(str(tmp_path / "curves.SVG"), CURVES).read_text().lower()
    assert "#0072b2" in text
    assert "#009e73" in text
    assert "#d55e00" not in text


@pytest.mark.parametrize(
    "curves",
    [
        {"one point": [0.5]},
        {"equal": [0.5, 0.5]},
        {"gaps": [0.5, None, math.nan, 0.7], "nothing": [None]},
        {"$not \\maths$": [0.1, 0.2]},
        {f"curve {number}": [number / 10, 0.5] for number in range(12)},
    ],
)
def test_difficult_curves_are_drawn(curves: dict[str, list[float | None]], tmp_path: Path) -> None:
    assert save_curves(tmp_path / "curves.svg", histories(curves)).stat().st_size > 1000


def test_the_line_goes_on_over_rounds_without_an_evaluation(tmp_path: Path) -> None:
    def line(name: str, curve: list[float | None]) -> str:
        """Where the first curve's path goes, from "M x y L x y ..."."""
        text = save_curves(tmp_path / f"{name}.svg", [History("fedavg", curve)]).read_text()
        return next(path for path in text.split('<path d="') if "stroke: #0072b2" in path).split('"')[0]

    def points(name: str, curve: list[float | None]) -> list[list[str]]:
        return [piece.split()[:2] for piece in re.split("[ML]", line(name, curve)) if piece.strip()]

    assert "M" not in line("sparse", [0.0, None, None, 0.6])[1:]
    first, *_, last = points("dense", [0.0, 0.2, 0.4, 0.6])
    assert points("sparse", [0.0, None, None, 0.6]) == [first, last]


def test_over_hours_a_slower_method_goes_further(tmp_path: Path) -> None:
    """The second takes twice as long a round, so that it ends at the right edge and the first half way; the values, and
    so the heights, are those of the picture over rounds."""

    hours = {"fedavg": [1.0, 2.0, 3.0], "smofi": [2.0, 4.0, 6.0]}
    timed = [replace(history, hours=hours[history.name]) for history in CURVES]

    def lines(name: str, *, over_hours: bool) -> list[list[tuple[float, float]]]:
        text = save_curves(tmp_path / f"{name}.svg", timed, over_hours=over_hours).read_text()
        first = {}
        for path in text.split('<path d="')[1:]:
            if colour := re.search(r'style="fill: none; stroke[^#]*(#0072b2|#009e73)', path):
                first.setdefault(colour.group(1), path)
        points = [re.findall(r"[ML] ([\d.]+) ([\d.]+)", path.split('"')[0]) for path in first.values()]
        return [[(float(x), float(y)) for x, y in own] for own in points]

    fast, slow = lines("hours", over_hours=True)
    hour = fast[1][0] - fast[0][0]
    assert [x - fast[0][0] for x, _ in fast] == pytest.approx([0, hour, 2 * hour])
    assert [x - fast[0][0] for x, _ in slow] == pytest.approx([hour, 3 * hour, 5 * hour])
    assert [[y for _, y in own] for own in (fast, slow)] == [
        [y for _, y in own] for own in lines("rounds", over_hours=False)
    ]


def test_hours_are_drawn_in_the_unit_that_suits_them() -> None:
    assert [time_unit(3600 * hours).name for hours in (30.0, 2.0, 1.9, 0.034, 0.033)] == [
        "hours",
        "hours",
        "minutes",
        "minutes",
        "seconds",
    ]


@given(heights=st.lists(st.floats(0, 1), max_size=8), gap=st.floats(0.01, 0.5))
def test_labels_keep_their_distance_and_order(heights: list[float], gap: float) -> None:
    moved = spread(heights, [gap] * len(heights))
    in_order = [after for _, after in sorted(zip(heights, moved, strict=True))]
    assert all(upper - lower > gap - 1e-9 for lower, upper in pairwise(in_order))
    assert sum(moved) == pytest.approx(sum(heights), abs=1e-9)


def test_labels_far_apart_stay() -> None:
    assert spread([0.9, 0.1, 0.5], [0.2] * 3) == [0.9, 0.1, 0.5]
    assert spread([0.5, 0.5, 0.5], [0.2] * 3) == pytest.approx([0.3, 0.5, 0.7])


def test_labels_of_two_lines_take_twice_the_room() -> None:
    assert spread([0.5, 0.5], [0.2, 0.4]) == pytest.approx([0.35, 0.65])


def test_lines_differ_without_colour(tmp_path: Path) -> None:
    """Each curve has a marker or dashes that no other has; a single one needs neither."""
    names = ["fedavg", "smofi", "smofi(alpha=-1)", "fedprox(mu=0.01)+smofi", *METHODS, "a", "b"]
    drawn = [(look.marker, str(look.dashes), look.hollow) for look in looks(list(dict.fromkeys(names)))]
    assert len(set(drawn)) == len(drawn)
    several, one = (save_curves(tmp_path / f"{n}.svg", CURVES[:n]).read_text() for n in (2, 1))
    assert "<use" in several.split("axes_1")[1].split("text_")[-1]
    assert one.count("stroke: #0072b2") == 1


def test_the_picture_says_seed_and_cut(tmp_path: Path) -> None:
    config = Config(seed=7, cut="2", clients=1, data="csv:/far/away/patients.csv")
    path = save_curves(tmp_path / "curves.svg", CURVES, title=setting(config), below=details(config))
    assert "<!-- csv:patients.csv, 1 client, dirichlet(0.2), resnet8" in path.read_text()
    assert "<!-- cut 2, seed 7 -->" in path.read_text()


def test_matplotlib_is_loaded_only_to_draw() -> None:
    """The command line imports all that draws."""
    check = "import sys, smofi.cli.commands; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.png, \.svg or \.pdf"):
        save_curves(tmp_path / "curves.gif", CURVES)
    with pytest.raises(InputError, match="at least one history"):
        save_curves(tmp_path / "curves.png", [History("a", [None])])
