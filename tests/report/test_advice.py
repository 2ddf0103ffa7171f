"""The table, the sentences and the picture of an advice, from figures that are known."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.image import imread
from rich.console import Console

from smofi.config import Config
from smofi.errors import InputError
from smofi.planning.advice import Advice, Outlook, Side
from smofi.report.advice import advice_table, basis, save_advice, sentences, unit
from smofi.report.numbers import figure

SIDES = (Side("0", 0.004, 100), Side("1", 0.25, 12_345), Side("2", 1.0, 1_000_000))
SLOW = (
    Outlook((7000.0, 7400.0), compute=1.0, up=2e6, down=4e6, idle=0.5),
    Outlook((3700.0, 3600.0), compute=60.0, up=1e6, down=2e6, idle=0.25),
    Outlook((3500.0, 3700.0), compute=240.0, up=5e5, down=1e6, idle=0.0),
)
QUICK = tuple(replace(one, seconds=tuple(second / 100 for second in one.seconds)) for one in SLOW)
ADVICE = Advice(
    config=Config(clock="full", method=["fedavg", "fednar", "smofi"]),
    rounds=2,
    configured=0,
    sides=SIDES,
    outlooks={"fedavg": SLOW, "fednar": SLOW, "smofi": (*QUICK[:2], None)},
)


def shown(advice: Advice, *, width: int = 120, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="")
    Console(file=file, width=width, color_system=None).print(advice_table(advice))
    file.seek(0)
    return file.read()


def rows(text: str) -> list[list[str]]:
    """The lines of cuts, cut into words."""
    lines = [line.split() for line in text.splitlines()]
    return [words for words in lines if any(word.endswith("%") for word in words[:3])]


def many(cuts: int, methods: int) -> Advice:
    sides = tuple(Side(str(cut), cut / cuts, 1000 * cut) for cut in range(cuts))
    outlooks = {
        f"method{number}": tuple(Outlook((1.0 + cut, 2.0 + number), cut, 1e6, 1e6 * number, 0.5) for cut in range(cuts))
        for number in range(methods)
    }
    return Advice(Config(clock="paper", cut="0-1"), 2, None, sides, outlooks)


def test_every_figure_is_in_its_place() -> None:
    # 7,200 +- 283 seconds are 2 +- 0.079 hours; bars are 30 wide for the longest.
    assert rows(shown(ADVICE)) == [
        ["0", "0.40%", "100", "2.00", "0.079", "0.017", "50%", "2.00", "4.00", "█" * 30],
        ["*", "1", "25.0%", "12,345", "1.01", "0.020", "1.00", "25%", "1.00", "2.00", "█" * 15],
        ["2", "100.0%", "1,000,000", "1.00", "0.039", "4.00", "0%", "0.500", "1.00", "█" * 15],
        ["0", "0.40%", "100", "72.0", "2.83", "1.00", "50%", "2.00", "4.00", "█" * 30],
        ["*", "1", "25.0%", "12,345", "36.5", "0.707", "60.0", "25%", "1.00", "2.00", "█" * 15],
        ["2", "100.0%", "1,000,000", "-", "-", "-", "-", "-", "-"],
    ]
    lines = [line.rstrip() for line in shown(ADVICE).splitlines()]
    assert lines[:2] == [
        "resnet8 on digits, dirichlet(0.2), 50 clients, 20 per round",
        "the first 2 rounds, planned at every cut without training; clock full, devices phones, latency not counted",
    ]
    assert "fedavg, fednar" in lines
    assert "smofi" in lines


def test_latency_has_a_column_where_it_is_counted() -> None:
    delayed = replace(ADVICE, outlooks={"smofi": tuple(replace(one, latency=6.0) for one in SLOW)})
    text = shown(delayed, width=80)
    # six seconds are a tenth of a minute, beside computing
    assert [words[5:8] for words in rows(text)] == [
        ["0.017", "0.100", "50%"],
        ["0.020", "1.00", "0.100"],
        ["4.00", "0.100", "0%"],
    ]
    assert "Computing, latency, waiting" in text
    assert "latency not counted" not in text
    assert "latency" not in shown(replace(ADVICE, config=Config(clock="paper")))


def test_devices_that_come_and_go_or_come_late_are_named() -> None:
    config = Config(clock="paper", devices="a/fleet.csv", availability="phones", step_deadline=2.5)
    assert basis(replace(ADVICE, config=config, rounds=1)) == (
        "the first round, planned at every cut without training; clock paper, devices fleet.csv, availability phones, "
        "step deadline 2.5 s"
    )


def test_the_sentences_say_why() -> None:
    assert sentences(ADVICE) == [
        "fedavg, fednar: cut 1 is recommended. A round takes 1.01 hours on average, within 5% of the fastest (1.00 "
        "hours at cut 2); among such cuts, clients compute least at this one: 1.00 minutes per round instead of 4.00 "
        "minutes. At the configured cut, 0, it takes 2.00 hours.",
        "smofi: cut 1 is recommended. A round takes 36.5 seconds on average, less than at any other cut. At the "
        "configured cut, 0, it takes 72.0 seconds.",
        "A cut with - would be refused by `smofi run`: no client's batch fits into the bandwidth.",
        "This weighs time and load alone. It does not weigh what activations reveal about samples, which is more the "
        "closer the cut is to the input, nor how well a method trains with less of the model on the server.",
    ]


def test_a_good_choice_is_confirmed_and_cuts_of_many_kinds_are_said_to_be_left_out() -> None:
    first = sentences(replace(ADVICE, configured=1))[0]
    assert first.startswith("fedavg, fednar: cut 1 is recommended, as configured. A round takes")
    assert first.endswith("instead of 4.00 minutes.")
    drawn = replace(ADVICE, config=Config(clock="full", cut="0-2"), configured=None, outlooks={"smofi": SLOW})
    assert sentences(drawn)[1] == ("The configuration has several cuts (0-2); here all clients have the same one.")
    assert "as configured" not in " ".join(sentences(drawn))


def test_times_in_the_unit_that_suits_them() -> None:
    assert [unit([longest]).name for longest in (0.0, 0.5, 2, 119, 120, 7199, 7200)] == [
        "ms", "ms", "seconds", "seconds", "minutes", "minutes", "hours",
    ]  # fmt: skip
    assert [figure(value, decimals=3) for value in (0, 0.0004, 0.5, 1, 9.876, 12.34, 100, 98765)] == [
        "0", "0.000", "0.500", "1.00", "9.88", "12.3", "100", "98,765",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal_and_none_is_cut_short(width: int) -> None:
    text = shown(ADVICE, width=width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "receives," in text


def test_every_terminal_gets_what_it_can_show() -> None:
    text = shown(ADVICE, encoding="latin-1")
    assert "#" * 30 in text
    assert "█" not in text
    assert shown(replace(ADVICE, config=Config(clock="full", devices="ф\x1b[2J.csv")), encoding="ascii")


def test_a_png_of_readme_width_that_is_not_blank(tmp_path: Path) -> None:
    path = save_advice(tmp_path / "cuts.png", ADVICE)
    assert struct.unpack(">II", path.read_bytes()[16:24]) == (1760, 896)
    some = imread(path)[::5, ::5]
    assert len(np.unique(some.reshape(-1, some.shape[-1]), axis=0)) > 20


@pytest.mark.parametrize("suffix", [".svg", *(pytest.param(one, marks=pytest.mark.slow) for one in (".pdf", ".PNG"))])
def test_the_same_advice_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    one, other = (save_advice(str(tmp_path / f"{name}{suffix}"), ADVICE).read_bytes() for name in "ab")
    assert one == other
    assert one.startswith({".svg": b"<?xml", ".pdf": b"%PDF", ".PNG": b"\x89PNG"}[suffix])


def test_the_picture_says_what_is_what(tmp_path: Path) -> None:
    path = save_advice(tmp_path / "cuts.svg", ADVICE)
    text = path.read_text()
    assert ElementTree.parse(path).getroot().tag.endswith("svg")
    for said in (
        "resnet8 on digits, dirichlet(0.2), 50 clients, 20 per round",
        "cut 1, seed 0, clock full",
        "time per round, hours",
        "computing per client, minutes (share of MACs)",
        "traffic per client, MB (dark: received, light: sent)",
        "fednar",
        "smofi",
        "recommended",
        "as configured",
        "25%",
    ):
        assert said in text, said


@pytest.mark.parametrize(
    "advice",
    [many(1, 1), many(85, 2), many(9, 12), many(3, 1), replace(many(2, 1), configured=0)],
    ids=lambda advice: f"{len(advice.sides)} cuts, {len(advice.outlooks)} methods",
)
def test_few_and_many_cuts_and_methods_are_drawn(advice: Advice, tmp_path: Path) -> None:
    assert save_advice(tmp_path / "cuts.png", advice).stat().st_size > 10_000
    assert len(rows(shown(advice))) == len(advice.sides) * len(advice.alike)


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a file name that ends in \.png, \.svg or \.pdf"):
        save_advice(tmp_path / "cuts.gif", ADVICE)
    with pytest.raises(InputError, match="expected a file in a folder that exists"):
        save_advice(tmp_path / "nowhere" / "cuts.png", ADVICE)
