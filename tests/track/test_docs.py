"""The page on tracking is run as shown, offline."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_page_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tracking.md").read_text(), flags=re.DOTALL)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false", "HOME": str(tmp_path)}
    environment = os.environ | quiet | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "TrainingWarning" not in done.stderr
    assert list((tmp_path / "runs" / "first" / "tensorboard").glob("events.*"))
    assert list((tmp_path / "runs" / "first" / "wandb").glob("offline-run-*/*.wandb"))
    assert (tmp_path / "mlflow.db").exists()
