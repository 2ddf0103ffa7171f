"""Small runs in processes of their own, which die when told to: by SIGKILL, at a chosen call or at any moment."""

import json
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from smofi.cli import main
from smofi.config import Config
from smofi.experiment import FolderRun, resume, start

TINY = Config(
    clients=12, participation=0.25, model="cnn", width=4, method=("fedprox(mu=0.01)+smofi",), rounds=8, local_epochs=1,
    batch_size=32, checkpoint_every=1, validation=0.1,
)  # fmt: skip

TINY_RUN = [
    "--clients", "6", "--participation", "0.5", "--model", "cnn", "--width", "2", "--max-train", "300",
    "--local-epochs", "1", "--batch-size", "32", "--threads", "1", "--workers", "1", "--display", "jsonl",
]  # fmt: skip

spawning = multiprocessing.get_context("forkserver")
spawning.set_forkserver_preload(["smofi.cli.commands", "torch.fx.experimental.symbolic_shapes"])
"""The last is loaded by torch in the first backward pass, which takes two seconds of work."""


def train(folder: Path, config: Config = TINY, die_at: tuple[str, int] | None = None) -> None:
    """Start the run, or resume it if the folder holds one; `die_at=("fsync", 3)` dies in the third os.fsync."""
    torch.set_num_threads(1)
    if die_at:
        _die(*die_at)
    runs: list[FolderRun] = resume(folder, {}) if (folder / "config.yaml").exists() else start(config, folder)
    for one in runs:
        one.train()


def child(folder: Path, config: Config = TINY, die_at: tuple[str, int] | None = None) -> BaseProcess:
    """The same in a new process."""
    process = spawning.Process(target=train, args=(folder, config, die_at))
    process.start()
    return process


def command(*arguments: object, start: str = "fork", errors: Path | None = None) -> BaseProcess:
    """A command in a new process with a process group of its own; `start` says how it starts further workers. What it
    prints is lost, but for what it says on standard error, if that has a file."""
    process = spawning.Process(target=_command, args=([str(one) for one in arguments], start, errors))
    process.start()
    return process


def _command(arguments: list[str], start: str, errors: Path | None) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a server of forks has it ignored
    os.environ["SMOFI_START"] = start
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    if errors:
        with errors.open("w") as file:
            os.dup2(file.fileno(), 2)
    sys.exit(main(arguments))


def kill(process: BaseProcess, everyone: bool) -> None:
    """SIGKILL to such a command: to its whole group, or to the first worker alone, whom the others follow soon."""
    assert process.pid is not None
    (os.killpg if everyone else os.kill)(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL, "the command had ended"
    until = time.monotonic() + 15
    while group_lives(process.pid):
        assert time.monotonic() < until, "a worker is left behind"
        time.sleep(0.02)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def same_end(folder: Path, other: Path) -> None:
    """Two run folders hold the same model and the same metrics, to the bit."""
    assert (folder / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert metrics(folder) == metrics(other)


def metrics(folder: Path) -> list[dict[str, object]]:
    """What a run folder records of each round, but for the time it took."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in lines]


def _die(call: str, number: int) -> None:
    real, calls = getattr(os, call), iter(range(1, number + 1))

    def dying(*args: object) -> object:
        if next(calls, number) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)

    setattr(os, call, dying)
