"""Runs of earlier versions go on, and are shown, as what they meant, though a default has changed since."""

from pathlib import Path
from typing import Any

import pytest

from paper.results import Recorded, collect, read_results
from smofi.cli import main
from smofi.config import read_config
from smofi.engine.events import Event, Warned
from smofi.errors import InputError
from smofi.experiment import resume, start
from smofi.runs import RunFolder, RunWriter
from smofi.sweep.store import Cell, Store
from support.crash import TINY, same_end, train

SFLV2, PHONES, DIRICHLET = "sflv2(turns='step')", "phones(rtt_ms=0)", "dirichlet(0.5, balance=False)"
TINIER = TINY.model_copy(update={"rounds": 1, "validation": 0.0})


def as_once_written(folder: Path, meaning: str, name: str) -> None:
    """Make a run's files what they were when a name meant what it does not mean today."""
    for one in (folder, *(path.parent for path in folder.glob("*/config.yaml"))):
        text = (one / "config.yaml").read_text()
        RunWriter(RunFolder(one)).write_config(text.replace(meaning, name))


@pytest.mark.parametrize(
    ("changes", "meaning", "name"),
    [
        ({"method": (SFLV2,)}, SFLV2, "sflv2"),
        ({"clock": "full", "devices": PHONES}, PHONES, "phones"),
        ({"partition": DIRICHLET}, DIRICHLET, "dirichlet(0.5)"),
    ],
)
def test_a_run_of_an_earlier_version_goes_on_as_it_was_begun(
    changes: dict[str, Any], meaning: str, name: str, tmp_path: Path
) -> None:
    folder, config = tmp_path / "run", TINIER.model_copy(update=changes)
    train(folder, config)
    train(tmp_path / "straight", config.model_copy(update={"rounds": 2}))
    as_once_written(folder, meaning, name)
    told: list[Event] = []
    (run,) = resume(folder, {"rounds": 2}, told.append)
    run.train()
    same_end(folder, tmp_path / "straight")
    remarks = [event.message for event in told if isinstance(event, Warned)]
    assert remarks == [f"{folder} was begun when {name} meant {meaning}, and goes on as that"]
    told.clear()
    (again,) = resume(folder, {"rounds": 3}, told.append)
    again.train()
    assert not [event for event in told if isinstance(event, Warned)], "its file now says it in full"


def test_files_of_today_say_in_full_what_names_mean(tmp_path: Path) -> None:
    names = {"clock": "full", "method": ("sflv2",), "devices": "phones", "partition": "dirichlet(0.5)"}
    (run,) = start(TINIER.model_copy(update=names), tmp_path / "run")
    run.close()
    text = (tmp_path / "run/config.yaml").read_text()
    assert all(one in text for one in ("phones(rtt_ms=28)", "dirichlet(0.5, balance=True)", "sflv2(turns='client')"))


def test_it_is_shown_and_repeated_as_what_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs"
    train(folder, TINIER.model_copy(update={"method": ("fedavg", SFLV2)}))
    next(folder.glob("sflv2*")).rename(folder / "sflv2")
    RunWriter(RunFolder(folder)).describe_comparison(
        (folder / "config.yaml").read_text(),
        {name: RunFolder(folder / name).manifest().run for name in ("fedavg", "sflv2")},
    )
    as_once_written(folder, SFLV2, "sflv2")
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


def test_an_earlier_dirichlet_is_no_run_of_a_cell_with_the_new_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now = (TINIER.model_copy(update={"partition": name}) for name in (DIRICHLET, "dirichlet(0.5)"))
    train(tmp_path / "runs/before", before)
    train(tmp_path / "runs/today", now)
    as_once_written(tmp_path / "runs/before", DIRICHLET, "dirichlet(0.5)")
    store = Store(tmp_path / "runs")
    finished = store.finished(Cell(now))
    assert finished is not None
    assert finished.path == tmp_path / "runs/today"
    assert store.finished(Cell(before)) is not None
    assert main(["compare", str(tmp_path / "runs"), "--target", "1%"]) == 0
    compared = " ".join(capsys.readouterr().out.split())
    assert "dirichlet(0.5, balance=False) is not dirichlet(0.5), which is here too" in compared
    assert compared.index("partition dirichlet(0.5, balance=False)") != compared.index("partition dirichlet(0.5)")


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
