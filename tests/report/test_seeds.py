"""Several seeds: means and spreads in the table, bands in pictures, and which one is trained on the display."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from smofi.cli import main
from smofi.engine.events import Event, Record, RoundDone, RoundStarted, RunEnded, RunStarted, Warned
from smofi.report import History, compare, draw_curves, results_table, save_curves
from smofi.report.curves import _plot
from smofi.report.history import bands
from smofi.report.live import Live
from smofi.report.style import looks
from support.run_folder import write_comparison, write_run

RUNS = [
    History("fedavg", [0.2, 0.4, 0.8], seconds=[1.0] * 3, seed=0),
    History("smofi", [0.5, 0.8, 0.9], seconds=[2.0] * 3, seed=0),
    History("fedavg", [0.4, 0.6, 0.6], seconds=[1.0] * 3, seed=1),
    History("smofi", [0.6, 0.8, 0.8], seconds=[2.0] * 3, seed=1),
]


def text_of(shown: object, width: int = 150) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_leads_with_the_mean_over_rounds() -> None:
    """By hand: fedavg's means are 1.4/3 and 1.6/3, so 50.0 ± 4.7 %. The targets are 0.72 and 0.54: fedavg gets there in
    rounds 3 and 2, smofi in 2 and 1."""
    text = text_of(results_table(compare(RUNS)))
    heading, *lines = [
        [cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")]
        for line in text.splitlines()
        if line.startswith(("┃", "│"))
    ]
    names = ["method", "mean over rounds", "best accuracy", "rounds to target", "seed by seed", "speed-up"]
    assert heading == [*names, "seconds a run"]
    assert lines == [
        ["fedavg", "50.0 ± 4.7%", "70.0 ± 14.1%", "2.5", "3, 2", "1.00x", "3.0"],
        ["smofi", "73.3 ± 0.0%", "85.0 ± 7.1%", "1.5", "2, 1", "1.67x", "6.0"],
    ]
    assert text.splitlines()[-1].strip() == (
        "The target is 90% of fedavg's best accuracy with the same seed; ± is the standard deviation over 2 seeds."
    )


def test_a_single_seed_has_the_same_columns_without_spread() -> None:
    table = results_table(compare(RUNS[:2]))
    assert [str(column.header) for column in table.columns] == [
        *("method", "mean over rounds", "best accuracy", "rounds to target", "speed-up", "seconds a run")
    ]
    assert "±" not in text_of(table)
    assert table.caption == "The target is 72.0%: 90% of fedavg's best accuracy."


def test_a_seed_that_misses_the_target_and_many_seeds() -> None:
    slow = [History("slow", [0.1, value], seed=seed) for seed, value in enumerate((0.8, 0.2))]
    assert "2, >2" in text_of(results_table(compare([*RUNS, *slow])))
    many = [History("fedavg", [0.4, 0.5], seed=seed) for seed in range(6)]
    assert "seed by seed" not in text_of(results_table(compare(many)))


def test_bases_are_named_where_they_differ() -> None:
    prox = [History("fedprox(mu=0.1)", [0.3, 0.6, 0.8]), History("fedprox(mu=0.1)+smofi", [0.6, 0.8, 0.8])]
    text = " ".join(text_of(results_table(compare([*RUNS[:2], *prox]))).split())
    assert "A speed-up is against the bare base: that of fedprox(mu=0.1)+smofi is fedprox(mu=0.1)." in text
    assert "bare base" not in text_of(results_table(compare(RUNS)))


def test_interrupted_runs_are_compared_by_the_seeds_that_all_methods_have() -> None:
    rows = compare(RUNS[:3])  # smofi has not begun with seed 1
    assert [(row.name, row.seeds) for row in rows] == [("fedavg", 1), ("smofi", 1)]
    rows = compare([History("fedavg", [float("nan")], seed=1), *RUNS[:2], RUNS[3]])  # fedavg diverged with it
    assert [(row.name, row.seeds) for row in rows] == [("fedavg", 1), ("smofi", 1)]


# --------------------------------------------------------------------------------------------------------------- curves


def test_a_picture_has_the_mean_and_a_band_of_one_standard_deviation() -> None:
    """Of 0.2 and 0.4 the mean is 0.3, and the deviation of a sample 0.1414."""
    axes = Figure().add_subplot()
    (band,) = bands([RUNS[0], RUNS[2]])
    _plot(axes, [1, 2, 3], band, looks(["fedavg"]), 0)
    assert axes.lines[0].get_xydata().tolist() == [[1, pytest.approx(0.3)], [2, 0.5], [3, pytest.approx(0.7)]]
    corners = axes.collections[0].get_paths()[0].vertices.tolist()
    for round, mean in ((1, 0.3), (2, 0.5), (3, 0.7)):
        for edge in (mean - 0.02**0.5, mean + 0.02**0.5):
            assert any(x == round and y == pytest.approx(edge) for x, y in corners)


def test_a_single_seed_has_no_band() -> None:
    axes = Figure().add_subplot()
    _plot(axes, [1, 2, 3], bands(RUNS[:1])[0], looks(["fedavg"]), 0)
    assert not axes.collections


def test_a_picture_says_what_lines_and_bands_are(tmp_path: Path) -> None:
    path = save_curves(tmp_path / "curves.svg", RUNS, title="digits", below="cut 0, seeds 0-1")
    said = "lines: mean of 2 seeds; bands: one standard deviation either side"
    drawn = " ".join(path.read_text().split())
    assert f"cut 0, seeds 0-1; {said}" in drawn
    assert said in " ".join(save_curves(tmp_path / "bare.svg", RUNS).read_text().split())
    assert "bands" not in save_curves(tmp_path / "one.svg", RUNS[:2], title="digits").read_text()


def test_over_hours_the_times_are_means(tmp_path: Path) -> None:
    runs = [History("smofi", [0.5, 0.7], hours=[1.0 + seed, 3.0 + seed], seed=seed) for seed in (0, 2)]
    assert bands(runs)[0].hours == [2.0, 4.0]
    assert save_curves(tmp_path / "curves.svg", runs, over_hours=True).exists()


def test_the_terminal_draws_the_mean_and_says_so() -> None:
    runs = [History("fedavg", [0.0, 0.5], seed=0), History("fedavg", [0.0, 1.0], seed=1)]
    drawn = str(draw_curves(runs, width=40, height=5, encoding="ascii")).splitlines()
    assert drawn[-2:] == ["oo fedavg 75.0%", "each line is the mean of 2 seeds"]
    assert drawn[:-1] == str(draw_curves([History("fedavg", [0.0, 0.75])], width=40, height=5,
                                         encoding="ascii")).splitlines()  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- live


def events(method: str, accuracy: float) -> list[Event]:
    record = Record(1, accuracy, 1.0, 0.5, 2.0, [0], [4], 0.05, "1")
    return [RunStarted(method, 2, 50, 50, 10, 1234, computed="client by client"), RoundStarted(1, [0], [4]),
            RoundDone(record), RoundDone(record), RunEnded(2, None)]  # fmt: skip


def watched(mode: str, most: int) -> str:
    """Two methods with two seeds, as far as these many runs."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=mode == "live", width=100, height=30, legacy_windows=False)
    with Live(console, ["fedavg", "smofi"], 2, mode, seeds=(0, 7), now=lambda: 0.0) as live:
        for number, method in enumerate(["fedavg", "smofi"] * 2):
            for event in events(method, 0.5 + number / 10)[: None if number < most else 0]:
                live(event)
        live(Warned("careful"))
    return file.getvalue()


def test_lines_name_the_seed_and_the_time_left_over_all() -> None:
    lines = watched("plain", most=4).splitlines()
    assert [line for line in lines if line.startswith("run ")] == [
        "run 1 of 4: fedavg, seed 0",
        "run 2 of 4: smofi, seed 0, about 0:12 left in all",
        "run 3 of 4: fedavg, seed 7, about 0:08 left in all",
        "run 4 of 4: smofi, seed 7, about 0:04 left in all",
    ]
    assert lines.count("fedavg: client by client") == 1
    assert "fedavg, seed 7  round 1/2  accuracy  70.0%" in "\n".join(lines)
    assert lines[-1] == "warning: smofi, seed 7: careful"


def test_the_screen_shows_the_seed_that_is_trained_and_what_is_done() -> None:
    shown = watched("live", most=3)
    last = shown[shown.rindex("seed 7") :]
    assert "70.0%" in last  # of fedavg with seed 7
    assert "50.0%" not in last
    assert "3 of 4 runs done, 0:00 gone, about 0:04 left in all" in last


def test_json_lines_have_the_seed() -> None:
    found = [json.loads(line) for line in watched("jsonl", most=4).splitlines()]
    assert [(line["method"], line["seed"]) for line in found if line["event"] == "RunEnded"] == [
        ("fedavg", 0), ("smofi", 0), ("fedavg", 7), ("smofi", 7),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------- show

CONFIG = "data: digits\nmethod: {method}\nrounds: 3\nseed: {seed}\n"


def test_show_has_all_seeds_and_their_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, names = tmp_path / "run", []
    for run in RUNS:
        names.append(f"seed-{run.seed}/{run.name}")
        records = [{"round": n, "accuracy": value, "seconds": 1.0} for n, value in enumerate(run.values, start=1)]
        path = folder / names[-1]
        writer = write_run(path, CONFIG.format(method=run.name, seed=run.seed), records[: 3 if len(names) < 4 else 2])
        if len(names) < 4:
            writer.write_end({}, {"rounds": 3, "stopped": None, "diverged": False})
    write_comparison(folder, CONFIG.format(method="[fedavg, smofi]", seed="null\nseeds: 0-1"), names)
    assert main(["show", str(folder)]) == 0
    text = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert {
        "seeds 0-1, on cpu",
        "seed 0 fedavg finished 3/3 last 80.0%",
        "seed 1 smofi interrupted 2/3 last 80.0%",
        "3 of 4 runs done",
        "each line is the mean of 2 seeds",
    } <= set(lines)
    assert "to continue  smofi run --resume" in text
    assert "50.0 ± 4.7%" in text
    assert main(["show", str(tmp_path)]) == 0
    assert "smofi, seed 1" in capsys.readouterr().out
    assert main(["show", str(folder / "seed-0")]) == 0
