"""The folder of a served run: what reads folders of runs reads it too, and it goes on only as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import smofi
from smofi.cli import main
from smofi.errors import InputError
from smofi.serving.roster import Roster
from support.deployed import deployed, small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, served to two clients."""
    folder = tmp_path_factory.mktemp("served") / "run"
    deployed(small(clients=2, participation=1.0, method=["fedavg", "smofi"]), folder)
    return folder


def said(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    assert main([*map(str, arguments)]) == code
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    return shown.out if code == 0 else shown.err


def test_it_is_shown(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "smofi" in said(capsys, 0, "show", run)
    assert "smofi" in said(capsys, 0, "show", run / "smofi")
    assert "smofi" in said(capsys, 0, "compare", run)
    said(capsys, 0, "report", run, "--output", tmp_path / "page.html")
    assert "smofi" in (tmp_path / "page.html").read_text()
    said(capsys, 0, "plot", run, "--output", tmp_path / "curves.png")
    said(capsys, 0, "export", run / "smofi", tmp_path / "model", "--format", "safetensors")


def test_there_is_no_virtual_time_to_show(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(said(capsys, 2, "timeline", run / "smofi").split())
    assert "is not accepted" in text or "clock" in text


def test_a_simulation_does_not_go_on_with_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (run, run / "smofi"):
        text = " ".join(said(capsys, 2, "run", "--resume", folder).split())
        assert "it was served to clients, who have the samples; go on with smofi serve --resume" in text


def test_a_server_does_not_go_on_with_anything_else(run: Path, tmp_path: Path) -> None:
    simulation = tmp_path / "simulation"
    command = "run --clients 2 --participation 1 --rounds 1 --local-epochs 1 --max-train 80"
    command += " --method fedavg --model cnn --width 2"
    assert main([*command.split(), "--output", str(simulation), "--display", "jsonl"]) == 0
    with pytest.raises(InputError, match="no clients took part in it, so that smofi serve cannot go on with it"):
        smofi.serve({}, simulation, resume=True)
    with pytest.raises(InputError, match=r"it is a part of .*run, which goes on as a whole"):
        smofi.serve({}, run / "smofi", resume=True)
    with pytest.raises(InputError, match="expected the folder of a run, but there is none"):
        smofi.serve({}, tmp_path / "nothing", resume=True)


def test_a_finished_run_needs_no_clients(run: Path) -> None:
    results = smofi.serve({}, run, listen="127.0.0.1:0", resume=True)
    assert [len(result.history) for result in results] == [2, 2]


def test_a_damaged_list_of_clients(tmp_path: Path) -> None:
    (tmp_path / "clients.json").write_text('[{"name": "a"}]')
    with pytest.raises(
        InputError, match=r"clients\.json is damaged: expected a list of clients with name, samples and"
    ):
        Roster.read(tmp_path)
