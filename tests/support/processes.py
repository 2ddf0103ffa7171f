"""Processes that the tests start: the command, what it leaves behind, and whether it is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
QUICK = ["--clients", "12", "--participation", "0.5", "--model", "cnn", "--width", "4", "--method", "smofi"]
QUICK += ["--local-epochs", "1", "--batch-size", "16", "--display", "jsonl"]


def sharded(folder: Path, workers: int, way: str = "fork", name: str = "") -> dict[str, Tensor]:
    """What tests/support/sharded.py gives with so many processes, forked or started by torchrun."""
    output = folder / f"{workers}{name}.safetensors"
    started = [sys.executable, str(ROOT / "tests/support/sharded.py"), str(output)]
    if way == "torchrun":
        started[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    elif workers > 1:
        started.append(str(workers))
    done = subprocess.run(started, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return load_file(output)


def accuracies(folder: Path) -> list[float]:
    return [json.loads(line)["accuracy"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def workers_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    asked = ["ps", "-o", "pid=,comm=", "--ppid", str(parent)]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.splitlines()
    return [int(line.split()[0]) for line in found if not line.endswith(" ps")]


def gone(process: int, seconds: float = 15) -> bool:
    """Whether a process is no longer there, or is not soon."""
    until = time.monotonic() + seconds
    while Path(f"/proc/{process}").exists() and time.monotonic() < until:
        time.sleep(0.1)
    return not Path(f"/proc/{process}").exists()
