"""`smofi sweep` and `tune`: cells by one command, recorded, skipped when done, going on after anything."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from smofi.cli import main
from smofi.cli.sweep import SweepDisplay
from smofi.runs import FolderLock, RunFolder
from smofi.sweep.running import Advanced, CellEvent, Ended, Outcome, Pace, Started, Stopping
from smofi.sweep.store import Cell
from support.cells import TINY, ran, tiny
from support.processes import ENVIRONMENT, gone, workers_of

FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def written(path: Path, **more: Any) -> str:
    """A sweep's file of tiny runs."""
    path.write_text(yaml.safe_dump({**TINY, "method": "fedavg", **more}))
    return str(path)


def recorded(folder: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((folder / "sweep.json").read_text())
    return known


def states(folder: Path) -> dict[str, str]:
    return {entry["title"]: entry["state"] for entry in recorded(folder)["cells"].values()}


def test_a_sweep_from_the_first_cell_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One cell is there already, one is computed, one cannot be: its model has no such cut."""
    out = tmp_path / "out"
    ran(out / "before", tiny(seed=0), [0.4])
    file = written(tmp_path / "s.yaml", list=[{"seed": 0}, {"seed": 1}, {"seed": 1, "cut": 9}])
    assert main(["sweep", file, "--output", str(out), "--jobs", "2"]) == 1
    done = capsys.readouterr()
    assert "3 cells in" in done.out
    assert "1 done, 2 at a time" in done.out
    assert "fedavg, cut 1, seed 1: finished in 0:" in done.out
    assert "best accuracy" in done.out
    assert f"Next: smofi compare {out}" in done.out
    assert done.err.startswith("error: fedavg, cut 9, seed 1 failed: cut=")
    assert states(out) == {
        "fedavg, cut 1, seed 0": "finished",
        "fedavg, cut 1, seed 1": "finished",
        "fedavg, cut 9, seed 1": "failed",
    }
    assert list(recorded(out)["cells"].values())[-1]["words"].startswith("cut=")
    assert (out / "sweep.yaml").read_text() == (tmp_path / "s.yaml").read_text()
    # a changed file: what is finished stays, what is no longer in it is kept and said
    file = written(tmp_path / "s.yaml", list=[{"seed": 1}])
    assert main(["sweep", file, "--output", str(out)]) == 0
    kept = "not in the file any more, but kept: fedavg, cut 1, seed 0; fedavg, cut 9, seed 1"
    assert kept in capsys.readouterr().out
    assert states(out) == {"fedavg, seed 1": "finished"}
    assert len(recorded(out)["no_longer_in_the_file"]) == 2
    assert (out / "before" / "model.safetensors").exists()


def test_a_dry_run_lists_cells_and_the_time_they_take(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    ran(out / "x", tiny(seed=0, rounds=4))
    ran(out / "y", tiny(seed=1, rounds=4), [0.5], ended=False)
    asked = ["sweep", written(tmp_path / "s.yaml", rounds=4, grid={"seed": [0, 1, 2]}), "--output", str(out)]
    before = sorted(tmp_path.rglob("*"))
    assert main([*asked, "--dry-run", "--jobs", "1"]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "cell rounds state",
        "fedavg, seed 0 4 finished",
        "fedavg, seed 1 4 begun",
        "fedavg, seed 2 4 to do",
        f"3 cells in {out}, 1 done.",
        "The other 2 take about 16 s, 1 at a time.",  # 6 s to start and 4 rounds of half a second, each
    ]
    assert sorted(tmp_path.rglob("*")) == before
    (out / "y" / "metrics.jsonl").write_text("{}\n")
    assert main([*asked, "--dry-run"]) == 2
    done = capsys.readouterr()
    assert "cannot start" in done.out
    assert done.err.startswith(f"error: fedavg, seed 1: {out / 'y'}/metrics.jsonl")


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        ("a file", "expected a folder, but it is a file"),
        ("a run", "it is the folder of a run; expected one for many"),
        ("another sweep.yaml", "it has a sweep.yaml that is not a sweep's own"),
        ("another sweep.json", "sweep.json is not the record of a sweep (its format is 'mine', not 'smofi-sweep-1')"),
        ("a damaged sweep.json", "sweep.json is not the record of a sweep"),
        ("another sweep", "is being written by another process"),
    ],
)
def test_a_folder_that_is_not_for_it_is_refused_and_left_alone(
    there: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, lock = tmp_path / "out", None
    if there == "a file":
        out.write_text("mine")
    elif there == "a run":
        ran(out, tiny())
    elif there == "another sweep":
        lock = FolderLock(out)
    else:
        out.mkdir()
        (out / there.split()[-1]).write_text('{"format": "mine"}' if there == "another sweep.json" else "mine")
    file = written(tmp_path / "s.yaml")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    try:
        assert main(["sweep", file, "--output", str(out)]) == 2
    finally:
        if lock:
            lock.release()
    assert sentence in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["all", "the sweep alone"])
def test_a_killed_sweep_goes_on_where_it_was(killed: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    file = written(tmp_path / "s.yaml", rounds=300, checkpoint_every=1, grid={"seed": [0, 1]})
    asked = [sys.executable, "-m", "smofi", "sweep", file, "--output", str(out), "--jobs", "2"]
    process = subprocess.Popen(asked, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(saving := sorted(path for path in out.glob("fedavg*") if RunFolder(path).saved_rounds())) < 2:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    children = workers_of(process.pid)
    assert len(children) == 2
    process.kill()
    if killed == "all":
        for child in children:
            os.kill(child, signal.SIGKILL)
    process.wait()
    assert all(gone(child, 60) for child in children)
    saved = [RunFolder(path).saved_rounds()[-1] for path in saving]
    assert all(1 <= round < 300 for round in saved)
    done = subprocess.run([*asked, "--display", "jsonl"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    began = {
        event["cell"]: event["done"] for event in events if event["event"] == "CellAdvanced" and not event["seconds"]
    }
    assert [began["fedavg, seed 0"], began["fedavg, seed 1"]] == saved
    assert set(states(out).values()) == {"finished"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_sweep_after_the_round(number: signal.Signals, tmp_path: Path) -> None:
    file = written(tmp_path / "s.yaml", rounds=2000, grid={"seed": [0, 1]})
    asked = [sys.executable, "-m", "smofi", "sweep", file, "--output", str(tmp_path / "out"), "--jobs", "1"]
    process = subprocess.Popen(
        [*asked, "--display", "plain"], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list((tmp_path / "out").glob("*/checkpoints")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "finishing the rounds that are running, then stopping" in out
    assert "fedavg, seed 0: interrupted" in out
    assert "Interrupted; continue with: smofi sweep" in err
    assert states(tmp_path / "out") == {"fedavg, seed 0": "interrupted", "fedavg, seed 1": "waiting"}
    assert "Traceback" not in err


# The display

CELLS = [Cell(tiny(seed=seed, rounds=4), f"fedavg, seed {seed}") for seed in range(3)]
EVENTS: list[CellEvent] = [
    Ended(Outcome(CELLS[0], "finished", Path("a"))),
    Started(CELLS[1], Path("b"), resumed=False),
    Advanced(CELLS[1], 0),
    Advanced(CELLS[1], 1, seconds=2.0, value=0.25),
    Advanced(CELLS[1], 2, seconds=2.0, value=0.75),
    Stopping(2),
    Advanced(CELLS[1], 3, seconds=2.0, value=0.5),
    Ended(Outcome(CELLS[1], "interrupted", Path("b"), ran=True, seconds=9.0)),
    Ended(Outcome(CELLS[2], "failed", words="no room")),
]


def shown(mode: str, terminal: bool = False, every: float = 0.0, events: Sequence[CellEvent] = EVENTS) -> str:
    file, clock = io.StringIO(), iter(range(1000))
    console = Console(file=file, force_terminal=terminal, width=100, color_system=None)
    display = SweepDisplay(console, Pace(CELLS), mode, now=lambda: every * next(clock))
    with display.bars:
        display.say("3 cells")
        display.say("odd", warning=True)
        for event in events:
            display(event)
    return file.getvalue()


def test_how_cells_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown("plain").splitlines() == [
        "3 cells",
        "warning: odd",
        "finishing the rounds that are running, then stopping; interrupt again to quit at once",
        "fedavg, seed 1: interrupted in 0:09, best 75.0%; 1 of 3 done, about 0:14 left",
        "fedavg, seed 2: failed; 2 of 3 done, 1 failed, about 0:00 left",
    ]
    assert "1 of 3 done; running: fedavg, seed 1 2/4; about 0:18 left" in shown("plain", every=31.0).splitlines()
    assert shown("quiet") == "warning: odd\n"
    monkeypatch.delenv("TERM", raising=False)
    assert "all cells" not in shown("auto")
    bars = shown("auto", terminal=True)
    assert "all cells" in bars
    assert "2/3" in bars


def test_events_as_json_lines() -> None:
    events = [json.loads(line) for line in shown("jsonl").splitlines()]
    assert [event["event"] for event in events] == [f"Cell{type(event).__name__}" for event in EVENTS]
    cell = {"cell": "fedavg, seed 1", "key": CELLS[1].key}
    assert events[4] | {"time": ""} == {
        "event": "CellAdvanced",
        "time": "",
        **cell,
        "done": 2,
        "seconds": 2.0,
        "value": 0.75,
    }
    assert events[-1]["words"] == "no room"


# tune


@pytest.mark.slow
def test_a_grid_is_trained_and_the_best_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of its runs is there already: on validation data it cannot be beaten, on test data it is bad."""
    out = tmp_path / "out"
    ran(out / "x", tiny(method="fedprox(mu=0.01)", validation=0.1), [0.0], validation=[1.0])
    asked = ["tune", "fedprox", *FLAGS, "--grid", "mu=0.1,0.01", "--output", str(out)]
    assert main(asked) == 0
    text = capsys.readouterr().out
    rows = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert re.search(r"fedprox\(mu=0\.1\), seed 0: finished in 0:\d\d, best [\d.]+% on validation data;", text)
    assert "0.01 100.0% 100.0% 1" in rows
    assert "Best: fedprox(mu=0.01). Use it with: --method 'fedprox(mu=0.01)'" in text
    assert main([*asked, "--display", "jsonl"]) == 0  # nothing is left to do
    assert "CellStarted" not in capsys.readouterr().out


def test_a_dry_run_lists_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(tmp_path / "out" / "x", tiny(method="fedavg", validation=0.1))  # from which the time is known
    asked = ["tune", "fedprox(0.1)+smofi", *FLAGS, "--dry-run", "--output", str(tmp_path / "out"), "--jobs", "4"]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert "fedprox(mu=0.1)+smofi(alpha=-10.0, global_momentum=0.5), seed 0" in text
    assert "20 cells" in text
    assert "The other 20 take about 32 s, 4 at a time." in text  # 20 x 6.5 s / 4


def test_a_tenth_is_held_out_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --output, the folder is named after data and method."""
    monkeypatch.chdir(tmp_path)
    for share, value in ((0.1, 0.5), (0.3, 0.25)):
        path = tmp_path / f"runs/tune-digits-fedprox/{share}"
        ran(path, tiny(method="fedprox(mu=1)", validation=share), [0.9], validation=[value])
    for flags, expected in (([], "50.0%"), (["--validation", "0.3"], "25.0%")):
        assert main(["tune", "fedprox", *FLAGS, "--grid", "mu=1", *flags, "--display", "quiet"]) == 0
        assert expected in capsys.readouterr().out
