"""Processes that the tests start: the command, what it leaves behind, and whether it is gone."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from smofi import ForkedWorkers
from support.crash import spawning

Work = Callable[[ForkedWorkers], dict[str, Tensor]]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
QUICK = ["--clients", "12", "--participation", "0.5", "--model", "cnn", "--width", "4", "--method", "smofi"]
QUICK += ["--local-epochs", "1", "--batch-size", "16", "--display", "jsonl"]


def sharded(folder: Path, *sizes: int, only: Sequence[str] = (), **options: str | bool) -> list[dict[str, Tensor]]:
    """What tests/support/sharded.py gives, forked into each of these numbers of workers."""
    output = fresh(folder)
    run_sharded([], output, "--workers", *map(str, sizes), *flags(only, **options))
    return [load_file(f"{output}-{size}" if sizes != (1,) else output) for size in sizes]


def sharded_by_torchrun(folder: Path, size: int, only: Sequence[str] = (), **options: str | bool) -> dict[str, Tensor]:
    """The same, started by torchrun."""
    output = fresh(folder)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size)]
    run_sharded(torchrun, output, *flags(only, **options))
    return load_file(output)


def run_sharded(by: Sequence[str], output: Path, *arguments: str) -> None:
    if not by:
        forked_sharded(output, *arguments)
        return
    started = [sys.executable, *by, str(ROOT / "tests/support/sharded.py"), str(output), *arguments]
    done = subprocess.run(started, env=ENVIRONMENT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def forked_sharded(output: Path, *arguments: str) -> None:
    """In a process that is forked from one that has loaded torch."""
    told = output.with_name(f"{output.name}.log")
    process = spawning.Process(target=_sharded, args=(told, str(output), *arguments))
    process.start()
    process.join(600)
    assert process.exitcode == 0, told.read_text()


def _sharded(told: Path, *arguments: str) -> None:
    from support.sharded import main

    log = os.open(told, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.argv = ["sharded.py", *arguments]
    main()


def fresh(folder: Path) -> Path:
    """A file that is not there yet."""
    return folder / f"output-{len(list(folder.iterdir()))}"


def flags(only: Sequence[str] = (), **options: str | bool) -> list[str]:
    """Options of tests/support/sharded.py.

    >>> flags(["smofi"], dtype="float32", direct=True)
    ['--dtype', 'float32', '--direct', '--only', 'smofi']
    """
    given = [[f"--{name}"] if value is True else [f"--{name}", str(value)] for name, value in options.items() if value]
    return [*(word for one in given for word in one), *(["--only", *only] if only else [])]


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    """The names of the tensors that are not the same byte for byte: 0.0 is not -0.0, and not a number is itself.

    >>> import torch
    >>> differing({"a": torch.tensor([0.0, torch.nan])}, {"a": torch.tensor([-0.0, torch.nan])})
    ['a: 1 of 8 bytes']
    """
    assert one.keys() == other.keys()
    found = []
    for name, tensor in one.items():
        assert (tensor.dtype, tensor.shape) == (other[name].dtype, other[name].shape) or name.endswith("history"), name
        ours, theirs = (each[name].numpy().tobytes() for each in (one, other))
        if ours != theirs:
            found.append(f"{name}: {sum(a != b for a, b in zip(ours, theirs, strict=False))} of {len(ours)} bytes")
    return found


# ------------------------------------------------------------------------------------------------- the order of sums


def fold(strip: Sequence[Tensor | None]) -> Tensor | None:
    """The strip is folded in half, end over beginning, until one place is left."""
    if len(strip) == 1:
        return strip[0]
    half = 1
    while 2 * half < len(strip):
        half *= 2
    full = [*strip, *[None] * (2 * half - len(strip))]
    return fold([plus(full[place], full[2 * half - 1 - place]) for place in range(half)])


def plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Nothing and a number is that number, bit by bit."""
    return one if other is None else other if one is None else one + other


def accuracies(folder: Path) -> list[float]:
    return [json.loads(line)["accuracy"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def in_each(size: int, folder: Path, work: Work) -> list[dict[str, Tensor]]:
    """What every one of so many processes gets out of `work`."""
    workers = ForkedWorkers(size)
    workers.fork()
    if workers.rank > 0:
        signal.alarm(60)
        code = 1
        try:
            save_file(work(workers), folder / f"{workers.rank}")
            code = 0
        finally:
            os._exit(code)
    first = work(workers)
    assert [exit_code(child) for child in workers.children] == [0] * (size - 1)
    workers.end()
    return [first, *(load_file(folder / f"{rank}") for rank in range(1, size))]


def exit_code(child: int) -> int:
    """Wait for the end of a process, but let others see it too."""
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status


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


def tensors_in_memory() -> int:
    """The bytes of all that tensors of this process live in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # looking at every object touches deprecated ones
        kinds = (Tensor, nn.Parameter)
        found = [one.untyped_storage() for one in gc.get_objects() if type(one) in kinds and _plain(one)]
    return sum({place.data_ptr(): place.nbytes() for place in found}.values())


def _plain(tensor: Tensor) -> bool:
    """Whether it has memory of its own, as a tensor that torch has wrapped has not."""
    try:
        return tensor.layout == torch.strided and bool(tensor.untyped_storage() is not None)
    except (NotImplementedError, RuntimeError):
        return False
