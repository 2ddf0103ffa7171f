"""A run that is killed twice, and goes on with other numbers of workers: the bits of one that never stopped."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from support.crash import command, kill, metrics, same_end

SLOW = pytest.mark.slow

SMALL = [
    "--clients",
    20,
    "--participation",
    0.5,
    "--model",
    "cnn",
    "--width",
    4,
    "--local-epochs",
    1,
    "--batch-size",
    16,
]
SMALL += ["--checkpoint-every", 1, "--metrics", "top1", "--metrics", "per_client", "--display", "jsonl"]
FOREVER = 100_000


def rounds_done(folder: Path) -> int:
    return len(metrics(folder)) if (folder / "metrics.jsonl").exists() else 0


def ended(*arguments: object, start: str) -> None:
    process = command(*arguments, start=start)
    process.join()
    assert process.exitcode == 0


def killed(folder: Path, *arguments: object, start: str, draw: random.Random) -> None:
    """Kill this command at some moment of a later round than it began with, all of its workers or the first."""
    process = command(*arguments, start=start)
    before, until = rounds_done(folder), time.monotonic() + 120
    while rounds_done(folder) < before + 2:
        assert time.monotonic() < until, "the run does not get going"
        assert process.exitcode is None, "the run has ended"
        time.sleep(0.01)
    time.sleep(draw.uniform(0, 0.3))
    kill(process, everyone=draw.random() < 0.5)


EVERY = [
    ("smofi", "loop", "fork", (2, 1, 4)),
    *(pytest.param(*one, marks=SLOW) for one in (
        ("smofi", "vmap", "fork", (4, 2, 1)),
        ("smofi", "vmap", "fork", (1, 8, 2)),
        ("smofi", "loop", "spawn", (2, 1, 4)),
        ("fednag", "vmap", "spawn", (4, 1, 2)),
        ("fednag", "loop", "fork", (1, 4, 2)),
        ("sflv1", "loop", "fork", (4, 1, 2)),
        ("slowmo(0.5, 0.4, steps=6)+sflv1", "vmap", "fork", (2, 4, 1)),
        ("sflv2('step')", "loop", "fork", (2, 1, 4)),
        ("mergesfl", "loop", "spawn", (1, 2, 4)),
        ("fedprox(mu=0.1)+fedavgm(0.3)", "vmap", "fork", (2, 8, 1)),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("method", "executor", "start", "workers"), EVERY)
def test_killed_twice(method: str, executor: str, start: str, workers: tuple[int, int, int], tmp_path: Path) -> None:
    draw = random.Random(f"{method} {executor} {start} {workers}")
    settings = [*SMALL, "--method", method, "--executor", executor]
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    first, second, third = workers
    begin = ["run", *settings, "--rounds", FOREVER, "--output", folder, "--workers", first]
    killed(folder, *begin, start=start, draw=draw)
    go_on = ["run", "--resume", folder, "--display", "jsonl", "--workers"]
    killed(folder, *go_on, second, start=start, draw=draw)
    rounds = rounds_done(folder) + 2
    ended(*go_on, third, "--rounds", rounds, start=start)
    ended("run", *settings, "--rounds", rounds, "--output", whole, "--workers", 1, start=start)
    same_end(folder, whole)
    assert len(metrics(whole)) == rounds
    some_finish_late = any(len(set(line["steps"])) > 1 for line in metrics(whole))
    assert some_finish_late != ("steps=" in method)
