"""The folder of a served run: what reads folders of runs reads it too, and it goes on only as what it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import smofi
from smofi.cli import main
from smofi.data import Source
from smofi.errors import InputError
from smofi.experiment import stored_config
from smofi.runs import RunWriter
from smofi.serving.checks import Serving
from smofi.serving.roster import Roster
from smofi.serving.server import Server
from support.deployed import deployed, small

AGAIN: dict[str, Any] = {"listen": "127.0.0.1:0", "insecure": True, "resume": True, "away": 0.1}
"""Go on, and do not wait long for clients that may not know that the run is over."""


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


def test_a_comparison_without_its_settings_is_not_taken_for_a_folder_of_runs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "config.yaml").unlink()
    assert "config.yaml is missing. The runs themselves are as they were" in " ".join(
        said(capsys, 2, "show", copy).split()
    )


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
        smofi.serve({}, simulation, insecure=True, resume=True)
    with pytest.raises(InputError, match=r"it is a part of .*run, which goes on as a whole"):
        smofi.serve({}, run / "smofi", insecure=True, resume=True)
    with pytest.raises(InputError, match="expected the folder of a run, but there is none"):
        smofi.serve({}, tmp_path / "nothing", insecure=True, resume=True)


def test_it_is_evaluated_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without being told; a curve with other numbers from some round on would mislead."""
    folder = tmp_path / "run"
    deployed(small(clients=2, participation=1.0, rounds=1), folder, evaluate="clients")
    server = Server(Serving(stored_config(folder, {"rounds": 2}, served=True), folder, resume=True))
    assert server.serving.evaluates == "clients"
    with pytest.raises(InputError, match=r"evaluate='server' is not accepted: expected clients: .* until now"):
        smofi.serve({"rounds": 2}, folder, listen="127.0.0.1:0", evaluate="server", insecure=True, resume=True)
    (only,) = smofi.serve({}, folder, evaluate="clients", **AGAIN)
    assert [one.loss for one in only.history] == [None]  # clients send counts
    accuracy = 100 * (only.history[0].accuracy or 0)
    for command in ("show", "compare"):
        text = said(capsys, 0, command, folder)
        assert f"{accuracy:.1f}" in text or f"{accuracy:.2f}" in text
        assert "nan" not in text.lower().split()
    said(capsys, 0, "report", folder, "--output", tmp_path / "page.html")


def test_a_finished_run_needs_no_clients(run: Path) -> None:
    results = smofi.serve({}, run, **AGAIN)
    assert [len(result.history) for result in results] == [2, 2]


def test_a_damaged_list_of_clients(tmp_path: Path) -> None:
    (tmp_path / "clients.json").write_text('[{"name": "a"}]')
    with pytest.raises(
        InputError, match=r"clients\.json is damaged: expected a list of clients with name, samples and"
    ):
        Roster.read(tmp_path)


def test_a_setting_that_changes_is_kept(run: Path, tmp_path: Path) -> None:
    """Otherwise the next `--resume` would ask for fewer rounds than there are."""
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    smofi.serve({"checkpoint_every": 2}, copy, **AGAIN)
    assert stored_config(copy, served=True).checkpoint_every == 2
    assert stored_config(run, served=True).checkpoint_every == 1


def test_it_goes_on_with_the_same_data_only(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "fingerprint", lambda source: "of other samples")
    with pytest.raises(InputError, match="was made with other data"):
        smofi.serve({}, run, **AGAIN)


def test_a_folder_that_was_taken_meanwhile_is_left_alone(run: Path, tmp_path: Path) -> None:
    """Between a server's first look at it and its own files, data is read, which takes a while."""
    folder = tmp_path / "run"
    server = Server(Serving(small(clients=2), folder, "127.0.0.1:0"))
    shutil.copytree(run, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}
    with pytest.raises(InputError, match="it already contains a run"):
        server.open(None)
    assert {path: path.read_bytes() for path in before} == before


def test_a_server_that_ended_while_it_started_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving(small(clients=2, method=["fedavg", "smofi"]), tmp_path / "run", "127.0.0.1:0")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as here:
        here.setattr(RunWriter, "describe_comparison", killed)
        with pytest.raises(KeyboardInterrupt):
            Server(serving).open(None)
    for one in Server(serving).open(None):
        one.close()
    assert not Roster.read(tmp_path / "run").closed


def test_a_long_list_of_clients(tmp_path: Path) -> None:
    roster = Roster()
    for number in range(4000):
        roster.add(f"hospital-{number:05}.example.org", samples=100, tests=10)
    roster.close()
    roster.save(tmp_path)
    assert Roster.read(tmp_path) == roster
