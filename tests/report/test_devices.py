from __future__ import annotations

import io
import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from smofi.cli import main
from smofi.clock import Device
from smofi.clock.devices import MEASURED_MACS, devices_for
from smofi.config import Config
from smofi.data import load
from smofi.errors import InputError
from smofi.models.costing import costs
from smofi.report.devices import Fleet, devices_table, save_devices
from smofi.report.numbers import figure

MEGABIT = 1e6 / 8
# 0.1 to 0.5 s a sample, 10 to 50 Mbit/s down and half of it up
FIVE = Fleet("five phones", "Made up.", [Device(n / 10, 5 * n * MEGABIT, 10 * n * MEGABIT) for n in range(1, 6)])


def shown(fleet: Fleet, width: int = 100) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(devices_table(fleet))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_has_percentiles_and_the_source() -> None:
    # of five values 1 to 5, the 5th percentile lies a fifth of the way from the first to the second
    lines = [line.split() for line in shown(FIVE)]
    assert shown(FIVE)[0] == "five phones"
    assert lines[1:] == [
        ["percentile", "5", "25", "50", "75", "95"],
        ["seconds", "per", "sample", "0.120", "0.200", "0.300", "0.400", "0.480"],
        ["Mbit/s", "down", "12.0", "20.0", "30.0", "40.0", "48.0"],
        ["Mbit/s", "up", "6.00", "10.0", "15.0", "20.0", "24.0"],
        ["Made", "up.", "No", "round-trip", "times:", "latency", "is", "not", "counted."],
    ]


def test_round_trips_have_a_line_and_a_source() -> None:
    lines = shown(Fleet.of("phones", 20, seed=0))
    (line,) = [line for line in lines if line.startswith("ms round trip")]
    assert line.split()[3:] == ["28.0"] * 5
    assert "Round trip: Speedtest Global Index" in " ".join(lines)
    far = shown(Fleet.of("phones(rtt_ms=80)", 20, seed=0))
    assert "Round trip: as given" in " ".join(far)
    assert far[0].startswith("phones(rtt_ms=80) of 20 clients")


@pytest.mark.parametrize(
    ("seconds", "unit", "figure"),
    [
        (2.0, "seconds", "2.00"),
        (0.02, "seconds", "0.0200"),
        (0.004, "milliseconds", "4.00"),
        (3e-9, "microseconds", "0.00300"),
    ],
)
def test_times_are_in_the_unit_that_suits_them(seconds: float, unit: str, figure: str) -> None:
    line = shown(Fleet("one", "", [Device(seconds, 1.0, 1.0)]))[2]
    assert line.split() == [unit, "per", "sample", *[figure] * 5]


def test_three_digits_count() -> None:
    assert [figure(value) for value in (0.000999, 1, 99.94, 100, 1234.5)] == [
        "0.000999", "1.00", "99.9", "100", "1,234",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, shown(Fleet.of("phones", 100, 0), width))) <= width


def test_phones_say_where_they_come_from_and_for_which_model_they_are() -> None:
    table, model = Fleet.of("phones", 3, 1), Fleet.of("phones", 3, 1, "resnet18", MEASURED_MACS // 2)
    assert table.title == "phones of 3 clients, seed 1"
    assert model.title == "phones of 3 clients, seed 1, for resnet18 (2.05G MACs)"
    for name in ("AI Benchmark", "MobiPerf", "FLASH", "FLHetBench", "4.10G MACs (our assumption)"):
        assert name in table.source
        assert name in model.source
    assert "scaled" not in table.source
    assert "scaled to 2.05G" in model.source
    assert model.seconds.tolist() == pytest.approx((table.seconds / 2).tolist())
    assert table.devices == devices_for("phones", "always", 3, seed=1, macs=MEASURED_MACS, symmetric=False)


def test_a_png_of_readme_width_with_something_in_every_panel(tmp_path: Path) -> None:
    path = save_devices(tmp_path / "devices.png", Fleet.of("phones", 100, 0))
    assert struct.unpack(">II", path.read_bytes()[16:24]) == (1760, 896)
    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    bluish = pixels[..., 2] > pixels[..., 0] + 60
    for rows, columns in (
        (slice(100, 400), slice(100, 1000)),
        (slice(500, 800), slice(100, 1000)),
        (slice(100, 800), slice(1150, 1700)),
    ):
        assert bluish[rows, columns].sum() > 2000


@pytest.mark.parametrize("suffix", [".svg", *(pytest.param(one, marks=pytest.mark.slow) for one in (".pdf", ".png"))])
def test_the_same_devices_give_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    one, other = (save_devices(str(tmp_path / f"{name}{suffix}"), FIVE).read_bytes() for name in "ab")
    assert one == other
    assert one.startswith({".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}[suffix])


def test_the_picture_names_what_it_shows(tmp_path: Path) -> None:
    path = save_devices(tmp_path / "devices.svg", FIVE)
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    text = path.read_text()
    for said in ("five phones", "seconds per sample", "throughput, Mbit/s", "Mbit/s down", "bars: down", "dots: up"):
        assert f"<!-- {said} -->" in text


def test_one_bandwidth_has_no_dots(tmp_path: Path) -> None:
    fleet = Fleet("same", "", [Device(1.0, 2e6, 2e6), Device(2.0, 1e6, 1e6)])
    assert "dots: up" not in save_devices(tmp_path / "same.svg", fleet).read_text()


@pytest.mark.parametrize(
    "fleet",
    [
        Fleet("one", "", [Device(1.0, 1e6, 2e6)]),
        Fleet("all alike", "", [Device(0.1, 1e6, 1e6)] * 30),
        Fleet("wide", "", [Device(10.0 ** (n - 8), 10.0 ** (n + 1), 10.0 ** (14 - n)) for n in range(13)]),
        Fleet.of("phones", 2000, 0),
        Fleet("装置 $a_{", "", FIVE.devices),
    ],
    ids=lambda fleet: fleet.title,
)
def test_difficult_fleets_are_drawn(fleet: Fleet, tmp_path: Path) -> None:
    assert save_devices(tmp_path / "devices.png", fleet).stat().st_size > 10_000
    assert shown(fleet)


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file name that ends in \.png, \.svg or \.pdf"):
        save_devices(tmp_path / "devices.gif", FIVE)


# --------------------------------------------------------------------------------------------------------- the command


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["data", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_devices_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "devices.svg"
    assert told(capsys, "--devices", "phones").startswith(
        "phones of 100 clients, seed 0 percentile 5 25 50 75 95 seconds"
    )
    assert told(capsys, "--devices") == told(capsys, "--devices", "phones")
    text = told(capsys, "--devices", "phones", "--clients", "7", "--seed", "2", "--output", str(output))
    assert text.startswith("phones of 7 clients, seed 2 ")
    assert output.read_bytes() == save_devices(tmp_path / "same.svg", Fleet.of("phones", 7, 2)).read_bytes()


def test_devices_with_data_are_those_for_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "digits", "--clients", "6", "--devices", "phones", "--output", str(tmp_path / "both.svg"))
    macs = costs(Config().build_model(load("digits")), (1, 8, 8)).macs
    assert "digits, dirichlet(0.2), 6 clients, seed 0 " in text
    assert f"phones of 6 clients, seed 0, for resnet8 ({macs / 1000:.1f}k MACs) " in text
    expected = save_devices(tmp_path / "same.svg", Fleet.of("phones", 6, 0, "resnet8", macs)).read_bytes()
    assert (tmp_path / "both-devices.svg").read_bytes() == expected
    assert "digits, dirichlet" in (tmp_path / "both.svg").read_text()


def test_devices_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = tmp_path / "fleet.csv"
    fleet.write_text("ms_per_sample,kbps\n500,8000\n1500,8000\n")
    for data in ((), ("digits",)):
        text = told(capsys, *data, "--clients", "2", "--devices", str(fleet))
        assert (
            "fleet.csv of 2 clients, seed 0 percentile 5 25 50 75 95 seconds per sample 0.550 0.750 1.00 1.25 1.45"
            in text
        )
        assert "Mbit/s up 8.00 8.00 8.00 8.00 8.00 From " in text


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
