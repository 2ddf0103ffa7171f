from __future__ import annotations

import io
import math
import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from smofi.errors import InputError
from smofi.report.heterogeneity import (
    PALETTE,
    Heterogeneity,
    chosen,
    heterogeneity_table,
    length,
    portions,
    save_heterogeneity,
    size_bins,
)
from smofi.report.saving import check_picture

COUNTS = np.array([[10, 10, 10, 10], [0, 0, 0, 3], [60, 20, 0, 0]])
NAMES = ["cat", "dog", "emu", "fox"]
ABOUT = Heterogeneity("pets by dirichlet(0.2)", COUNTS, NAMES, batch_size=8)


def many(clients: int, classes: int) -> Heterogeneity:
    counts = np.random.default_rng(0).geometric(0.3, size=(clients, classes)) - 1
    return Heterogeneity("many", counts + 1, [f"class {number}" for number in range(classes)], batch_size=8)


def shown(about: Heterogeneity, *, encoding: str = "utf-8", colours: bool = False, width: int = 100) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    system = "truecolor" if colours else None
    console = Console(file=file, width=width, color_system=system, force_terminal=colours)
    console.print(heterogeneity_table(about))
    file.seek(0)
    return file.read()


def rows(text: str) -> list[list[str]]:
    """The lines of the clients, cut into words."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("client "))
    return [line.split() for line in lines[start + 1 :]]


def test_the_sentences_say_every_number() -> None:
    # One class of four: 2 - 5 log2(5) / 8 = 0.549; (3/4, 1/4, 0, 0): 3 log2(3) / 8 - 1/4 = 0.344.
    assert ABOUT.summary() == [
        "3 clients, 123 samples: 3 to 80 each, median 40; 1 has less than a batch of 8",
        "classes per client: 1 to 4 of 4, 2.3 on average",
        "divergence from balance (Jensen-Shannon, 0 to 1): 0.30 on average, 0.00 to 0.55",
    ]
    lines = shown(ABOUT, width=100).splitlines()
    assert [line.rstrip() for line in lines[:4]] == [ABOUT.title, *ABOUT.summary()]


def test_a_row_per_client_largest_first() -> None:
    bar = {size: "█" * round(size / 80 * 20) for size in (80, 40)}
    assert rows(shown(ABOUT))[:3] == [
        ["2", "80", bar[80], "2", f"{js(0.75, 0.25, 0, 0):.2f}", "0" * 29 + "1" * 9],
        ["0", "40", bar[40], "4", "0.00", "0" * 10 + "1" * 10 + "2" * 9 + "3" * 9],
        ["1", "3", "█", "1", "0.55", "3" * 38],
    ]


def js(*shares: float) -> float:
    def entropy(values: list[float]) -> float:
        return -sum(value * math.log2(value) for value in values if value)

    balance = [1 / len(shares)] * len(shares)
    middle = [(one + other) / 2 for one, other in zip(shares, balance, strict=True)]
    return entropy(middle) - (entropy(list(shares)) + entropy(balance)) / 2


def test_the_histogram_counts_every_client() -> None:
    lines = [line.rstrip() for line in shown(ABOUT, width=60).splitlines()]
    assert "  0 to 9  " + "█" * 30 + " 1" in lines
    assert "10 to 19   0" in lines
    assert "80 to 89  " + "█" * 30 + " 1" in lines


def test_colours_stand_for_classes() -> None:
    text = shown(ABOUT, colours=True)
    for colour, name in zip(PALETTE, NAMES, strict=False):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        assert f"\x1b[38;2;{red};{green};{blue}m██\x1b[0m {name}" in text
    # Client 2 has 60 cats and 20 dogs: 38 cells are 28.5 and 9.5.
    assert "\x1b[38;2;0;114;178m" + "█" * 29 + "\x1b[0m\x1b[38;2;230;159;0m" + "█" * 9 in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_every_terminal_gets_what_it_can_show(encoding: str) -> None:
    about = Heterogeneity("ürün\x1b[2J", COUNTS, ["кот", "[red]dog", "e\tmu", "fox"], batch_size=8)
    text = shown(about, encoding=encoding)
    assert "\x1b" not in text
    assert ("█" in text) == (encoding == "utf-8")
    assert ("#" in text) == (encoding != "utf-8")
    assert ("кот" if encoding == "utf-8" else "???") in text
    assert "[red]dog" in text
    assert text.startswith("?r?n?[2J" if encoding == "ascii" else "ürün?[2J")


def test_digits_need_no_legend_without_colours() -> None:
    about = Heterogeneity("digits", np.ones((2, 3), dtype=np.int64), ["0", "1", "2"], batch_size=1)
    assert "0: " not in shown(about)
    assert "0: cat" in shown(ABOUT)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for about in (ABOUT, many(300, 200)):
        assert max(len(line) for line in shown(about, width=width).splitlines()) <= width


def test_of_many_clients_some_are_shown_from_the_largest_to_the_smallest() -> None:
    about = many(1000, 100)
    text = shown(about)
    assert "40 of 1,000 clients, evenly spaced by size" in text
    sizes = [int(row[1].replace(",", "")) for row in rows(text)[:40]]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (about.sizes.max(), about.sizes.min())
    assert "0: class 0 to class 9" in text
    assert "9: class 90 to class 99" in text


def test_a_client_without_samples_has_no_mix() -> None:
    about = Heterogeneity("empty", np.array([[3, 3], [0, 0]]), ["a", "b"], batch_size=2)
    assert rows(shown(about))[1] == ["1", "0", "0", "-"]
    assert "0.00 on average, 0.00 to 0.00" in about.summary()[2]


@pytest.mark.parametrize("classes", [1, 2, 9, 10, 11, 35, 100, 200])
def test_groups_cover_all_classes_evenly(classes: int) -> None:
    about = many(3, classes)
    stretches = [group.classes for group in about.groups()]
    covered = [number for stretch in stretches for number in range(classes)[stretch]]
    assert covered == list(range(classes))
    sizes = [stretch.stop - stretch.start for stretch in stretches]
    assert len(sizes) == min(classes, 10)
    assert max(sizes) - min(sizes) <= 1
    assert about.grouped().sum(axis=1).tolist() == about.sizes.tolist()


@given(counts=st.lists(st.integers(0, 10**6), min_size=1, max_size=10), width=st.integers(0, 60))
def test_portions_fill_the_strip_and_are_off_by_less_than_a_cell(counts: list[int], width: int) -> None:
    cells = portions(counts, width)
    if not sum(counts):
        assert cells == [0] * len(counts)
        return
    assert sum(cells) == width
    assert all(abs(cell - count * width / sum(counts)) < 1 for cell, count in zip(cells, counts, strict=True))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_bins_are_few_and_hold_all(sizes: list[int]) -> None:
    bins = size_bins(np.array(sizes))
    assert len(bins) <= 10
    assert [count for *_, count in bins] == [sum(low <= size <= high for size in sizes) for low, high, _ in bins]
    assert sum(count for *_, count in bins) == len(sizes)
    assert bins[0][2]
    assert bins[-1][2]


def test_small_things() -> None:
    assert chosen(np.arange(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert [length(value, 100, 10) for value in (0, 1, 49, 100)] == [0, 1, 5, 10]


def test_a_png_of_readme_width(tmp_path: Path) -> None:
    content = save_heterogeneity(tmp_path / "picture.png", ABOUT).read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1760, 896)


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".PNG"])
def test_the_same_partition_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    one, other = (save_heterogeneity(str(tmp_path / f"{name}{suffix}"), ABOUT).read_bytes() for name in "ab")
    assert one == other
    assert one.startswith({".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}[suffix])


def test_the_picture_has_the_classes_and_the_clients_below_a_batch(tmp_path: Path) -> None:
    path = save_heterogeneity(tmp_path / "picture.svg", ABOUT)
    text = path.read_text()
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for said in (ABOUT.title, *NAMES, "one batch", "samples per client", "class mix", "clients, largest first"):
        assert f"<!-- {said} -->" in text
    assert all(colour.lower() in text for colour in PALETTE[:4])
    assert PALETTE[6].lower() not in text


@pytest.mark.parametrize(
    "about",
    [
        many(1000, 200),
        many(1000, 10),
        many(10, 2),
        many(1, 1),
        Heterogeneity("all alike", np.full((30, 10), 5), list("abcdefghij"), batch_size=8),
        Heterogeneity("one class each", np.eye(12, dtype=np.int64) * 9, list("abcdefghijkl"), batch_size=8),
        Heterogeneity("some have nothing", np.array([[400, 0], [0, 0], [1, 0]]), ["$a", "b_{$"], batch_size=8),
        Heterogeneity("任意の文字", COUNTS, ["猫", "犬" * 40, "", "狐"], batch_size=500),
    ],
    ids=lambda about: f"{about.title} {about.counts.shape}",
)
def test_difficult_partitions_are_drawn(about: Heterogeneity, tmp_path: Path) -> None:
    size = save_heterogeneity(tmp_path / "picture.png", about).stat().st_size
    assert size > 10_000
    assert shown(about)


def test_what_cannot_be_saved_is_refused_before_any_work(tmp_path: Path) -> None:
    for name in ("picture.gif", "picture", ".png"):
        with pytest.raises(
            InputError, match=r"is not accepted: expected a file name that ends in \.png, \.svg or \.pdf"
        ):
            check_picture(tmp_path / name)
    with pytest.raises(InputError, match="expected a file in a folder that exists"):
        save_heterogeneity(tmp_path / "nowhere" / "picture.png", ABOUT)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="expected a file in a folder that exists"):
        check_picture(tmp_path / "folder.png")


@pytest.mark.parametrize(
    ("counts", "names", "batch_size", "sentence"),
    [
        (COUNTS, NAMES[:3], 8, "class_names='3 names' is not accepted: expected a name for each of the 4 classes"),
        (COUNTS, NAMES, 0, "batch_size=0"),
        (COUNTS[0], NAMES, 8, r"counts='shape \(4,\)'"),
        (COUNTS * 0, NAMES, 8, "not all of them 0"),
        (COUNTS - 1, NAMES, 8, "numbers of samples"),
        (COUNTS / 2, NAMES, 8, "numbers of samples"),
        (COUNTS[:0], NAMES, 8, "numbers of samples"),
    ],
)
def test_what_is_no_partition_is_refused(
    counts: npt.NDArray[np.int64], names: list[str], batch_size: int, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        Heterogeneity("wrong", counts, names, batch_size)
