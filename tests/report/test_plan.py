from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from smofi.engine.memory.needs import Memory
from smofi.planning import CutParameters, PlanSummary, Seconds
from smofi.report.numbers import duration, megabytes
from smofi.report.plan import plan_table


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


def shown(*summaries: PlanSummary) -> list[list[str]]:
    """The cells of the table, row by row."""
    console = Console(file=io.StringIO(), width=200)
    console.print(plan_table(summaries))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().replace("┃", "│").splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]


def test_several_workers_are_shown_with_the_memory_of_each_and_of_all() -> None:
    one = summary("smofi", Memory("gradients", "1,000 x 4 bytes", 4000), Memory("data", "x", 96_000))
    rows = dict(shown(replace(one, workers=3)))
    assert rows["workers"] == "3"
    assert rows["gradients"] == "4.0 kB: 1,000 x 4 bytes"
    assert "memory of each worker" in rows
    assert rows["memory of all 3 workers, not counting Python and torch"] == "108.0 kB"  # 3 x 4 kB, and the data once


def test_every_number_is_shown() -> None:
    rows = dict(shown(summary("smofi", Memory("gradients", "1,000 x 4 bytes", 4000), Memory("data", "x", 96_000))))
    assert rows == {
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


def test_methods_stand_side_by_side_and_like_stands_by_like() -> None:
    rows = shown(
        summary("smofi", Memory("momentum: fused", "a", 1000), Memory("data", "b", 2000)),
        summary("a[b]", Memory("momentum", "c", 3000), Memory("data", "d", 4000)),
    )
    assert rows[0] == ["", "smofi", "a[b]"]
    at = [row[0] for row in rows].index("momentum: fused")
    assert rows[at : at + 3] == [
        ["momentum: fused", "1.0 kB: a", "-"],
        ["momentum", "-", "3.0 kB: c"],
        ["data", "2.0 kB: b", "4.0 kB: d"],
    ]


def test_several_cuts_are_told_apart() -> None:
    rows = shown(summary("smofi", sides=(CutParameters("0", 10, 990), CutParameters("2,1", 500, 500))))
    at = [row[0] for row in rows].index("parameters, client + server")
    assert [row[1] for row in rows[at : at + 2]] == [
        "10 + 990 (1.0% on the client), cut 0",
        "500 + 500 (50.0% on the client), cut 2,1",
    ]


def test_sizes_and_times_in_the_unit_that_suits_them() -> None:
    assert [megabytes(size) for size in (0, 1500, 10**6, 10**9)] == ["0.0 kB", "1.5 kB", "1.0 MB", "1.0 GB"]
    times = {
        0.5: "500 ms",
        1: "1.0 s",
        119: "119 s",
        120: "2 min",
        3599: "1 h 00 min",
        86399: "1 d 00 h",
        9e5: "10 d 10 h",
    }
    assert {seconds: duration(seconds) for seconds in times} == times


def test_many_methods_are_not_squeezed_and_names_not_broken() -> None:
    names = ["fedavg", "smofi", "fedprox(mu=0.01)+smofi(alpha=-0.5)", "mergesfl", "sflv1"]
    console = Console(file=io.StringIO(), width=80)
    console.print(plan_table([summary(name, Memory("data", "x", 1)) for name in names]))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert sum("samples per client" in line for line in lines) == 3  # two methods beside each other
    words = " ".join(lines).replace("┃", " ").split()
    assert all(word in words for word in ("fedavg", "fedprox(mu=0.01)+", "smofi(alpha=-0.5)", "mergesfl", "sflv1"))
    assert max(map(len, lines)) <= 80
