"""`smofi sweep`: cells by one command, recorded, skipped when done, going on after anything."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from smofi.cli import main
from smofi.runs import FolderLock, RunFolder
from support.cells import TINY, ran, tiny
from support.processes import ENVIRONMENT, gone, workers_of


def written(path: Path, **more: Any) -> str:
    """A sweep's file of tiny runs."""
    path.write_text(yaml.safe_dump({**TINY, "method": "fedavg", **more}))
    return str(path)


def recorded(folder: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((folder / "sweep.json").read_text())
    return known


def states(folder: Path) -> dict[str, str]:
    return {entry["title"]: entry["state"] for entry in recorded(folder)["cells"].values()}


def saved_in(folder: Path) -> list[Path]:
    """The runs that have saved a round."""
    return sorted(path for path in folder.glob("fedavg*") if RunFolder(path).saved_rounds())


def test_a_sweep_from_the_first_cell_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One cell is there already, one is computed, one cannot be: its model has no such cut."""
    out = tmp_path / "out"
    ran(out / "before", tiny(seed=0), [0.4])
    file = written(tmp_path / "s.yaml", list=[{"seed": 0}, {"seed": 1}, {"seed": 1, "cut": 9}])
    assert main(["sweep", file, "--output", str(out), "--jobs", "2"]) == 1
    done = capsys.readouterr()
    assert "1 cell done before" in done.out
    assert "fedavg, cut 1, seed 1: finished in 0:" in done.out
    assert "best accuracy" in done.out
    assert f"Next: smofi compare {out}" in done.out
    assert f"smofi report {out} -o {out}/report.html" in done.out
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
    file = written(tmp_path / "s.yaml", rounds=4, grid={"seed": [0, 1, 2]})
    before = sorted(tmp_path.rglob("*"))
    assert main(["sweep", file, "--output", str(out), "--dry-run", "--jobs", "1"]) == 0
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "cell rounds state",
        "fedavg, seed 0 4 finished",
        "fedavg, seed 1 4 begun",
        "fedavg, seed 2 4 to do",
        f"3 cells in {out}, 1 done.",
        "The other 2 take about 16 s, 1 at a time.",  # 6 s to start and 4 rounds of half a second, each
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_in_the_way_of_a_cell_is_said_in_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    path = ran(out / "x", tiny())
    (path / "metrics.jsonl").write_text("{}\n")
    assert main(["sweep", written(tmp_path / "s.yaml"), "--output", str(out), "--dry-run"]) == 2
    done = capsys.readouterr()
    assert "cannot start" in done.out
    assert done.err.startswith(f"error: fedavg, seed 0: {path}/metrics.jsonl")


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        ("a file", "expected a folder, but it is a file"),
        ("a run", "it is the folder of a run; expected one for many"),
        ("another sweep.yaml", "it has a sweep.yaml that is not a sweep's own"),
        ("another sweep.json", "sweep.json is not the record of a sweep (its format is 'mine', not 'smofi-sweep-1')"),
        ("a damaged record", "sweep.json is not the record of a sweep"),
    ],
)
def test_a_folder_that_is_not_for_it_is_refused_and_left_alone(
    there: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    if there == "a file":
        out.write_text("mine")
    elif there == "a run":
        ran(out, tiny())
    else:
        out.mkdir()
        name = there.split()[-1].replace("record", "sweep.json")
        (out / name).write_text('{"format": "mine"}' if there == "another sweep.json" else "mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["sweep", written(tmp_path / "s.yaml"), "--output", str(out)]) == 2
    assert sentence in capsys.readouterr().err
    (tmp_path / "s.yaml").unlink()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_two_sweeps_never_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = FolderLock(tmp_path / "out")
    try:
        assert main(["sweep", written(tmp_path / "s.yaml"), "--output", str(tmp_path / "out")]) == 2
    finally:
        lock.release()
    assert "is being written by another process" in capsys.readouterr().err


def test_without_output_a_sweep_has_a_folder_named_after_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran(tmp_path / "runs" / "s" / "x", tiny())
    assert main(["sweep", written(tmp_path / "s.yaml"), "--display", "quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "runs" / "s" / "sweep.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["all", "the sweep alone"])
def test_a_killed_sweep_goes_on_where_it_was(killed: str, tmp_path: Path) -> None:
    file = written(tmp_path / "s.yaml", rounds=300, checkpoint_every=1, grid={"seed": [0, 1]})
    asked = [sys.executable, "-m", "smofi", "sweep", file, "--output", str(tmp_path / "out"), "--jobs", "2"]
    process = subprocess.Popen(asked, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while len(saving := saved_in(tmp_path / "out")) < 2:
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
    assert set(states(tmp_path / "out").values()) == {"finished"}


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
