"""Nothing but `fork` ties smofi to POSIX: it trains where the modules of POSIX, and one of its signals, are missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import ENVIRONMENT

TRAINING = """
import signal, sys
import filelock, torch, numpy, matplotlib, yaml, cyclopts, rich.console, safetensors.torch, pydantic
import subprocess
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None
del signal.SIGHUP
import smofi.cli
sys.exit(smofi.cli.main(sys.argv[1:]))
"""
TINY = ["--clients", "8", "--model", "cnn", "--width", "4", "--method", "smofi", "--rounds", "1", "--local-epochs", "1"]


@pytest.mark.slow
def test_it_trains_without_the_modules_of_posix(tmp_path: Path) -> None:
    flags = [*TINY, "--workers", "1", "--memory-limit", "64GB", "--output", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, "run", *flags], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()
