"""What README and docs/workers.md say about numbers of workers, carried out by the command as they say it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from smofi.cli import main
from support.processes import QUICK, ROOT

PROMISE = (
    "A run's numbers do not depend on how many processes compute it: "
    "with the same `executor`, 1, 2, 4 and 8 workers give the same bits."
)

EIGHT_A_ROUND = ["0.66" if one == "0.5" else one for one in QUICK]
"""One client for each worker."""


@pytest.mark.parametrize("page", ["README.md", "docs/workers.md"])
def test_the_promise_is_made(page: str) -> None:
    assert PROMISE in " ".join((ROOT / page).read_text().split())


@pytest.mark.parametrize("executor", ["loop", "vmap"])
def test_the_promise_is_kept(executor: str, tmp_path: Path) -> None:
    models = set()
    for workers in re.findall(r"\d+", PROMISE):
        folder = tmp_path / workers
        asked = [*EIGHT_A_ROUND, "--rounds", "2", "--executor", executor]
        asked += ["--workers", workers, "--output", str(folder)]
        assert main(["run", *asked]) == 0
        models.add(hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())
    assert len(models) == 1


@pytest.mark.parametrize(("workers", "times"), [(3, 1), (2, 0)])
def test_other_numbers_of_workers_say_once_that_their_last_bits_differ(
    workers: int, times: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once, although there are two methods."""
    two = [*QUICK, "--method", "fedavg", "--rounds", "1", "--output", str(tmp_path / "run")]
    assert main(["run", *two, "--workers", str(workers)]) == 0
    told = "".join(capfd.readouterr())
    sentence = f"with {workers} workers, the last bits of all numbers differ from those of 1, 2, 4 or 8 workers"
    assert told.count(sentence) == told.count("last bits") == times
