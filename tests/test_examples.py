"""Programs in examples/ do what they say."""

from __future__ import annotations

import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.processes import ENVIRONMENT

PROGRAM = Path(__file__).parent.parent / "examples/deploy_demo.py"


def test_a_difference_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accuracies and weights are compared to the last bit."""
    import torch
    from safetensors.torch import save_file

    compare = runpy.run_path(str(PROGRAM))["compare"]
    for name in ("simulated", "deployed", "other"):
        (tmp_path / name).mkdir()
        late = 0.5 + 2**-50 if name == "other" else 0.5
        (tmp_path / name / "metrics.jsonl").write_text(f'{{"accuracy": 0.25}}\n{{"accuracy": {late!r}}}\n')
        save_file({"weight": torch.ones(2)}, tmp_path / name / "model.safetensors")
    assert compare(tmp_path / "simulated", tmp_path / "deployed", ["smofi"])
    assert "The same: every accuracy" in capsys.readouterr().out
    assert not compare(tmp_path / "simulated", tmp_path / "other", ["smofi"])
    assert "Not the same: smofi: accuracy of round 2" in capsys.readouterr().out
    save_file({"weight": torch.tensor([1.0, 1.0 + 2**-23])}, tmp_path / "deployed/model.safetensors")
    assert not compare(tmp_path / "simulated", tmp_path / "deployed", ["smofi"])
    assert "Not the same: smofi: weight" in capsys.readouterr().out


@pytest.mark.slow
def test_a_folder_of_yours_is_left_alone(tmp_path: Path) -> None:
    asked = [sys.executable, str(PROGRAM), "--output", str(tmp_path)]
    done = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is not accepted: expected a new folder" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_deployed_is_as_simulated(tmp_path: Path) -> None:
    asked = [sys.executable, str(PROGRAM), "--clients", "3", "--rounds", "2", "--output", str(tmp_path / "demo")]
    done = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The same: every accuracy of every round, and every weight" in done.stdout


@pytest.mark.slow
def test_interrupted_it_leaves_no_process(tmp_path: Path) -> None:
    asked = [sys.executable, str(PROGRAM), "--clients", "2", "--rounds", "500", "--method", "fedavg"]
    folder = tmp_path / "demo"
    program = subprocess.Popen([*asked, "--output", str(folder)], env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (folder / "simulated").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 130
    finally:
        program.kill()
        program.wait()
    processes = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [one for one in processes if str(folder).encode() in one]
