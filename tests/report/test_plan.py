"""What a run will take and which cut suits the devices: tables, sentences and the picture, from known figures."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from smofi.config import Config
from smofi.engine.memory.needs import Memory
from smofi.planning import Advice, CutParameters, Outlook, PlanSummary, Seconds, Side
from smofi.report.plan import advice_picture, advice_table, plan_table, sentences


def summary(
    method: str, *memory: Memory, sides: tuple[CutParameters, ...] = (CutParameters("1", 250, 750),)
) -> PlanSummary:
    return PlanSummary(
        method=method,
        rounds=30,
        clients=1200,
        eligible=900,
        per_round=10,
        samples=(8, 26.5, 76),
        validation=144,
        test=360,
        steps_per_round=171.84,
        parameters=1000,
        sides=sides,
        memory=memory,
        measured=Seconds(0.1, 0.2, 0.3, 0.4, 0.5),
        seconds_per_round=3.0,
    )


def cells(*summaries: PlanSummary) -> list[list[str]]:
    """The cells of the table, row by row."""
    console = Console(file=io.StringIO(), width=200)
    console.print(plan_table(summaries, console.width))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().replace("┃", "│").splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]


def test_every_number_is_shown() -> None:
    one = summary("smofi", Memory("gradients", "1,000 x 4 bytes", 4000), Memory("data", "x", 96_000))
    rows = dict(cells(replace(one, workers=3)))
    assert "memory of each worker" in rows
    assert rows["memory of all 3 workers, not counting Python and torch"] == "108.0 kB"  # 3 x 4 kB, and the data once
    assert dict(cells(one)) == {
        "": "smofi",
        "clients": "1,200",
        "clients with a full batch": "900",
        "clients per round": "10",
        "samples per client": "8 to 76, median 26.5",
        "held out": "360 for testing, 144 for validation",
        "rounds": "30",
        "steps": "5,155 (171.8 per round)",
        "parameters, client + server": "250 + 750 (25.0% on the client)",
        "workers": "1",
        "gradients": "4.0 kB: 1,000 x 4 bytes",
        "data": "96.0 kB: x",
        "memory, not counting Python and torch": "100.0 kB",
        "a round takes about": "3.0 s",
        "all rounds take about": "90 s",
    }


# -------------------------------------------------------------------------------------------------------- which cut

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
    console = Console(file=file, width=width, color_system=None)
    console.print(advice_table(advice, console))
    file.seek(0)
    text = file.read()
    assert max(map(len, text.splitlines())) <= width
    return text


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


def test_the_picture_says_what_is_what(tmp_path: Path) -> None:
    path = advice_picture(ADVICE).save(tmp_path / "cuts.svg")
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
    [many(1, 1), many(40, 3), replace(many(2, 1), configured=0)],
    ids=lambda advice: f"{len(advice.sides)} cuts, {len(advice.outlooks)} methods",
)
def test_few_and_many_cuts_and_methods_are_drawn(advice: Advice, tmp_path: Path) -> None:
    assert advice_picture(advice).save(tmp_path / "cuts.png").stat().st_size > 10_000
    assert len(rows(shown(advice))) == len(advice.sides) * len(advice.alike)
