"""How clients differ in data and devices: numbers by hand, what a terminal shows, and pictures."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from smofi.cli import main
from smofi.clock import Device
from smofi.config import Config
from smofi.data import load
from smofi.models.costing import costs
from smofi.report.clients import (
    PALETTE,
    Fleet,
    Heterogeneity,
    devices_picture,
    devices_table,
    heterogeneity_picture,
    heterogeneity_table,
    portions,
    size_bins,
)

COUNTS = np.array([[10, 10, 10, 10], [0, 0, 0, 3], [60, 20, 0, 0]])
NAMES = ["cat", "dog", "emu", "fox"]
ABOUT = Heterogeneity("pets by dirichlet(0.2)", COUNTS, NAMES, batch_size=8)
MEGABIT = 1e6 / 8
# 0.1 to 0.5 s a sample, 10 to 50 Mbit/s down and half of it up
FIVE = Fleet("five phones", "Made up.", [Device(n / 10, 5 * n * MEGABIT, 10 * n * MEGABIT) for n in range(1, 6)])


def many(clients: int, classes: int) -> Heterogeneity:
    counts = np.random.default_rng(0).geometric(0.3, size=(clients, classes)) - 1
    return Heterogeneity("many", counts + 1, [f"class {number}" for number in range(classes)], batch_size=8)


def shown(table: Any, *, encoding: str = "utf-8", colours: bool = False, width: int = 100) -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    console = Console(file=file, width=width, color_system="truecolor" if colours else None, force_terminal=colours)
    console.print(heterogeneity_table(table, console) if isinstance(table, Heterogeneity) else table)
    file.seek(0)
    return file.read()


def rows(text: str) -> list[list[str]]:
    """The lines of the clients, cut into words."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("client "))
    return [line.split() for line in lines[start + 1 :]]


# -------------------------------------------------------------------------------------------------------------- data


def test_a_partition_by_hand() -> None:
    # One class of four: 2 - 5 log2(5) / 8 = 0.549; (3/4, 1/4, 0, 0): 3 log2(3) / 8 - 1/4 = 0.344.
    text = shown(ABOUT)
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:4] == [
        "pets by dirichlet(0.2)",
        "3 clients, 123 samples: 3 to 80 each, median 40; 1 has less than a batch of 8",
        "classes per client: 1 to 4 of 4, 2.3 on average",
        "divergence from balance (Jensen-Shannon, 0 to 1): 0.30 on average, 0.00 to 0.55",
    ]
    assert "  0 to 9  " + "█" * 70 + " 1" in lines
    assert "10 to 19   0" in lines
    assert rows(text)[:3] == [
        ["2", "80", "█" * 20, "2", f"{3 * math.log2(3) / 8 - 1 / 4:.2f}", "0" * 29 + "1" * 9],
        ["0", "40", "█" * 10, "4", "0.00", "0" * 10 + "1" * 10 + "2" * 9 + "3" * 9],
        ["1", "3", "█", "1", "0.55", "3" * 38],
    ]
    empty = Heterogeneity("empty", np.array([[3, 3], [0, 0]]), ["a", "b"], batch_size=2)
    assert rows(shown(empty))[1] == ["1", "0", "0", "-"]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_every_terminal_gets_what_it_can_show(encoding: str) -> None:
    about = Heterogeneity("ürün\x1b[2J", COUNTS, ["кот", "[red]dog", "e\tmu", "fox"], batch_size=8)
    text = shown(about, encoding=encoding)
    assert "\x1b" not in text
    assert ("█" in text, "#" in text) == (encoding == "utf-8", encoding != "utf-8")
    assert ("кот" if encoding == "utf-8" else "???") in text
    assert "[red]dog" in text


@pytest.mark.parametrize("width", [60, 200])
def test_of_many_clients_some_are_shown_from_the_largest_to_the_smallest(width: int) -> None:
    about = many(1000, 100)
    text = shown(about, width=width)
    assert max(map(len, text.splitlines())) <= width
    sizes = [int(row[1].replace(",", "")) for row in rows(text)[:40]]
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (about.sizes.max(), about.sizes.min())
    assert "40 of 1,000 clients" in text
    assert "9: class 90 to class 99" in text


@given(counts=st.lists(st.integers(0, 10**6), min_size=1, max_size=10), width=st.integers(0, 60))
def test_portions_fill_the_strip_and_are_off_by_less_than_a_cell(counts: list[int], width: int) -> None:
    cells = portions(counts, width)
    assert sum(cells) == (width if sum(counts) else 0)
    total = sum(counts) or 1
    assert all(abs(cell - count * width / total) < 1 for cell, count in zip(cells, counts, strict=True))


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_bins_are_few_and_hold_all(sizes: list[int]) -> None:
    bins = size_bins(np.array(sizes))
    assert len(bins) <= 10
    assert [count for *_, count in bins] == [sum(low <= size <= high for size in sizes) for low, high, _ in bins]
    assert sum(count for *_, count in bins) == len(sizes)


# ----------------------------------------------------------------------------------------------------------- devices


def test_the_table_of_devices_has_percentiles_and_the_source() -> None:
    # of five values 1 to 5, the 5th percentile lies a fifth of the way from the first to the second
    lines = shown(devices_table(FIVE)).splitlines()
    assert [line.split() for line in lines] == [
        ["five", "phones"],
        ["percentile", "5", "25", "50", "75", "95"],
        ["seconds", "per", "sample", "0.120", "0.200", "0.300", "0.400", "0.480"],
        ["Mbit/s", "down", "12.0", "20.0", "30.0", "40.0", "48.0"],
        ["Mbit/s", "up", "6.00", "10.0", "15.0", "20.0", "24.0"],
        ["Made", "up.", "No", "round-trip", "times:", "latency", "is", "not", "counted."],
    ]
    far = shown(devices_table(Fleet.of("phones(rtt_ms=80)", 20, seed=0)), width=60)
    assert max(map(len, far.splitlines())) <= 60
    assert "Round trip: as given" in " ".join(far.split())
    assert ["ms", "round", "trip", *["80.0"] * 5] in [line.split() for line in far.splitlines()]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["data", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_the_command_shows_devices_alone_of_a_file_and_with_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, "--devices").startswith("phones of 100 clients, seed 0 percentile 5 25 50 75 95 seconds")
    output, fleet = tmp_path / "both.svg", tmp_path / "fleet.csv"
    text = told(capsys, "digits", "--clients", "6", "--devices", "phones", "--output", str(output))
    macs = costs(Config().build_model(load("digits")), (1, 8, 8)).macs
    assert "digits, dirichlet(0.2), 6 clients, seed 0 " in text
    assert f"phones of 6 clients, seed 0, for resnet8 ({macs / 1000:.1f}k MACs) " in text
    expected = devices_picture(Fleet.of("phones", 6, 0, "resnet8", macs)).save(tmp_path / "same.svg").read_bytes()
    assert (tmp_path / "both-devices.svg").read_bytes() == expected
    assert "digits, dirichlet" in output.read_text()
    fleet.write_text("ms_per_sample,kbps\n500,8000\n1500,8000\n")
    text = told(capsys, "--clients", "2", "--devices", str(fleet))
    assert "fleet.csv of 2 clients, seed 0 percentile 5 25 50 75 95 seconds per sample 0.550 0.750 1.00" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--devices", "phnes"], "is not accepted: expected phones, or the path of a .csv file"),
        (["digits", "--devices", "no.csv"], "is not accepted: expected a .csv file that exists"),
        (["--devices", "--clients", "0"], "is not accepted: expected a whole number >= 1"),
        (["--devices", "--seed", "-1"], "is not accepted: expected a whole number >= 0"),
        (["--devices", "--output", "a.gif"], "is not accepted: expected a file name that ends in"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", *arguments]) == 2
    assert sentence in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------- pictures


def test_pictures_say_what_they_show_and_are_the_same_bytes_again(tmp_path: Path) -> None:
    first, again = (heterogeneity_picture(ABOUT).save(tmp_path / f"{name}.svg").read_text() for name in "ab")
    assert first == again
    for said in (ABOUT.title, *NAMES, "one batch", "samples per client", "class mix", "clients, largest first"):
        assert f"<!-- {said} -->" in first
    assert all(colour.lower() in first for colour in PALETTE[:4])
    first, again = (devices_picture(FIVE).save(tmp_path / f"{name}.svg").read_text() for name in "ab")
    assert first == again
    for said in ("five phones", "seconds per sample", "throughput, Mbit/s", "Mbit/s down", "bars: down", "dots: up"):
        assert f"<!-- {said} -->" in first


def test_difficult_partitions_and_fleets_are_drawn() -> None:
    for about in (
        many(1000, 200),
        many(1, 1),
        Heterogeneity("some have nothing", np.array([[400, 0], [0, 0], [1, 0]]), ["$a", "b_{$"], batch_size=8),
        Heterogeneity("任意の文字", COUNTS, ["猫", "犬" * 40, "", "狐"], 500, client_names=["north", "a" * 40, "$x"]),
    ):
        assert len(heterogeneity_picture(about).content(".png")) > 10_000
        assert shown(about)
    far = [Device(10.0 ** (n - 8), 10.0 ** (n + 1), 10.0 ** (14 - n)) for n in range(13)]
    for devices in ([Device(1.0, 1e6, 2e6)], [Device(0.1, 1e6, 1e6)] * 30, far):
        assert len(devices_picture(Fleet("装置 $a_{", "", devices)).content(".png")) > 10_000
