"""Runs of earlier versions go on, and are shown, as what they meant, though a default has changed since."""

from pathlib import Path

import pytest
import yaml

from paper.results import Recorded, collect, read_results
from smofi.cli import main
from smofi.config import read_config
from smofi.engine.events import Event, Warned
from smofi.errors import InputError
from smofi.experiment import resume
from smofi.runs import RunFolder, RunWriter
from smofi.sweep.store import Cell, Store
from support.crash import TINY, same_end, train

BY_STEP = TINY.model_copy(update={"method": ("sflv2(turns='step')",), "rounds": 3, "validation": 0.0})
BY_CLIENT = BY_STEP.model_copy(update={"method": ("sflv2",)})


def as_once_written(folder: Path) -> None:
    """Make a run's file what it was when sflv2 took turns step by step, unless it was told otherwise."""
    for one in (folder, *(path.parent for path in folder.glob("*/config.yaml"))):
        text = (one / "config.yaml").read_text()
        RunWriter(RunFolder(one)).write_config(text.replace("sflv2(turns='step')", "sflv2"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two rounds, by step, in a file that says sflv2."""
    folder = tmp_path_factory.mktemp("older") / "run"
    train(folder, BY_STEP.model_copy(update={"rounds": 2}))
    as_once_written(folder)
    assert yaml.safe_load((folder / "config.yaml").read_text())["method"] == "sflv2"
    return folder


def test_a_run_of_an_earlier_version_goes_on_as_it_was_begun(older: Path, tmp_path: Path) -> None:
    train(tmp_path / "straight", BY_STEP)
    train(tmp_path / "by client", BY_CLIENT)
    told: list[Event] = []
    (run,) = resume(older, {"rounds": 3}, told.append)
    run.train()
    same_end(older, tmp_path / "straight")
    with pytest.raises(AssertionError):
        same_end(older, tmp_path / "by client")
    remarks = [event.message for event in told if isinstance(event, Warned)]
    assert remarks == [f"{older} was begun when sflv2 meant sflv2(turns='step'), and goes on as that"]
    told.clear()
    (again,) = resume(older, {"rounds": 4}, told.append)
    again.train()
    assert not [event for event in told if isinstance(event, Warned)], "its file now says it in full"


def test_a_clock_without_round_trips_goes_on_without_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brief = TINY.model_copy(update={"clock": "full", "rounds": 1, "devices": "phones(rtt_ms=0)"})
    train(tmp_path / "run", brief)
    train(tmp_path / "straight", brief.model_copy(update={"rounds": 2}))
    text = (tmp_path / "run/config.yaml").read_text()
    RunWriter(RunFolder(tmp_path / "run")).write_config(text.replace("phones(rtt_ms=0)", "phones"))
    assert main(["timeline", str(tmp_path / "run")]) == 0
    assert "latency" not in capsys.readouterr().out
    told: list[Event] = []
    (run,) = resume(tmp_path / "run", {"rounds": 2}, told.append)
    run.train()
    same_end(tmp_path / "run", tmp_path / "straight")
    (remark,) = [event.message for event in told if isinstance(event, Warned)]
    assert remark.endswith("was begun when phones meant phones(rtt_ms=0), and goes on as that")
    train(tmp_path / "today", brief.model_copy(update={"devices": "phones"}))
    assert yaml.safe_load((tmp_path / "today/config.yaml").read_text())["devices"] == "phones(rtt_ms=28)"


def test_it_is_shown_and_repeated_as_what_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    train(folder, BY_STEP.model_copy(update={"method": ("fedavg", "sflv2(turns='step')"), "rounds": 1}))
    next(folder.glob("sflv2*")).rename(folder / "sflv2")
    RunWriter(RunFolder(folder)).describe_comparison(
        (folder / "config.yaml").read_text(),
        {name: RunFolder(folder / name).manifest().run for name in ("fedavg", "sflv2")},
    )
    as_once_written(folder)
    assert main(["show", str(folder)]) == 0
    assert "sflv2(turns='step')" in capsys.readouterr().out
    assert read_config(folder / "config.yaml").method == ("fedavg", "sflv2(turns='step')")
    with pytest.raises(InputError, match="the run was started with method="):
        resume(folder, {"method": ["fedavg", "sflv2"]})
    for run in resume(folder, {"rounds": 2}):
        run.train()
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["fedavg", "sflv2"]
    own = tmp_path / "own.yaml"
    own.write_text("method: sflv2\n")
    assert read_config(own).method == ("sflv2",), "a file of the user's own means today's"


def test_a_dirichlet_of_an_earlier_version_keeps_its_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their files say dirichlet(0.5), and mean it without the balance rule."""
    before = TINY.model_copy(update={"partition": "dirichlet(0.5, balance=False)", "rounds": 1})
    folder, today = tmp_path / "runs/before", tmp_path / "runs/today"
    train(folder, before)
    train(tmp_path / "straight", before.model_copy(update={"rounds": 2}))
    train(today, before.model_copy(update={"partition": "dirichlet(0.5)"}))
    assert "partition: dirichlet(0.5, balance=True)" in (today / "config.yaml").read_text()
    text = (folder / "config.yaml").read_text()
    RunWriter(RunFolder(folder)).write_config(text.replace("dirichlet(0.5, balance=False)", "dirichlet(0.5)"))

    cell = Cell(before.model_copy(update={"partition": "dirichlet(0.5)"}))
    store = Store(tmp_path / "runs")
    finished = store.finished(cell)
    assert finished is not None
    assert finished.path == today, "the run from before is no run of this cell"
    assert store.finished(Cell(before)) is not None

    assert main(["compare", str(tmp_path / "runs"), "--target", "1%"]) == 0
    compared = " ".join(capsys.readouterr().out.split())
    assert "dirichlet(0.5, balance=False) is not dirichlet(0.5), which is here too" in compared
    assert compared.index("partition dirichlet(0.5, balance=False)") != compared.index("partition dirichlet(0.5)")

    told: list[Event] = []
    (run,) = resume(folder, {"rounds": 2}, told.append)
    run.train()
    same_end(folder, tmp_path / "straight")
    remarks = [event.message for event in told if isinstance(event, Warned)]
    assert remarks == [
        f"{folder} was begun when dirichlet(0.5) meant dirichlet(0.5, balance=False), and goes on as that"
    ]


def test_results_of_an_earlier_version_are_those_of_its_partition(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("data: digits\npartition: dirichlet(0.2)\n")
    header = "method,seed,version,seconds,accuracy,virtual_seconds\n"
    (tmp_path / "x.csv").write_text(f"{header}fedavg,0,0.1.0,1,0.5,\n")
    (run,) = read_results(tmp_path).runs.values()
    assert run.config.partition == "dirichlet(0.2, balance=False)"
    today = Recorded(run.config.model_copy(update={"partition": "dirichlet(0.2)"}), run.history)
    collect(tmp_path, [today])
    assert sorted(one.config.partition for one in read_results(tmp_path).runs.values()) == [
        "dirichlet(0.2)",
        "dirichlet(0.2, balance=False)",
    ]
