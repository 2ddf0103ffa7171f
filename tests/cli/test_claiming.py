"""Every run has a folder of its own, and one that is refused leaves none."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from smofi.cli import main
from smofi.cli.claiming import _claim, claimed_folder
from smofi.errors import InputError
from support.processes import ENVIRONMENT, QUICK


def test_a_folder_that_is_taken_is_left_to_its_owner(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as several:
        claimed = list(several.map(lambda _: _claim(tmp_path / "runs" / "now"), range(8)))
    assert sorted(path.name for path in claimed) == ["now", *(f"now-{number}" for number in range(2, 9))]
    assert sorted(claimed) == sorted((tmp_path / "runs").iterdir())


def test_a_new_folder_is_named_after_the_time_and_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with claimed_folder("folder:/data/x rays") as folder:
        assert re.fullmatch(r"runs/\d{8}-\d{6}-folder-data-x-rays", folder.as_posix())
    assert folder.is_dir()


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--clients", "100000"]) == 2
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "runs" / "earlier").mkdir(parents=True)
    assert main(["run", "--clients", "100000"]) == 2
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["earlier"]


def test_a_file_called_runs_is_not_taken_for_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("mine")
    with pytest.raises(InputError, match=r"output='runs/\S+-digits' is not accepted: "), claimed_folder("digits"):
        pass
    assert (tmp_path / "runs").read_text() == "mine"


@pytest.mark.slow
def test_three_runs_started_at_once_have_three_folders(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "smofi", "run", *QUICK, "--rounds", "1"]
    together = [subprocess.Popen(asked, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [one.wait(timeout=120) for one in together] == [0, 0, 0]
    assert len([path for path in (tmp_path / "runs").iterdir() if (path / "model.safetensors").exists()]) == 3
