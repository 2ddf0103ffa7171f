"""Forked processes add in shared memory: any size and type, the same bits everywhere, a clear end when one dies."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import Tensor

from smofi.engine.processes.forked import SLOT, ForkedWorkers
from smofi.engine.processes.workers import WorkerGone
from smofi.errors import InputError
from support.fold import fold
from support.processes import exit_code, in_each


@pytest.fixture(autouse=True)
def _within_a_minute() -> Iterator[None]:
    """Who waits for ever fails."""

    def late(number: int, frame: FrameType | None) -> None:
        pytest.fail("still waiting after a minute")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


COUNTS = [0, 1, 7, SLOT // 8, *(SLOT // 4 + near for near in (-1, 0, 1)), 3 * SLOT // 4 + 5]
TYPES = [torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.bool]
NEGATIVE_ZERO = 5
CASES = {f"{count} {dtype}": (count, dtype) for count in COUNTS for dtype in TYPES}


@cache
def drawn(rank: int) -> Tensor:
    """What a process comes with: numbers whose sum depends on the order of adding, and a negative zero."""
    draw = torch.Generator().manual_seed(rank)
    numbers = torch.randn(max(COUNTS), generator=draw, dtype=torch.float64) * 1000
    numbers[NEGATIVE_ZERO] = -0.0
    return numbers


def brought(rank: int, count: int, dtype: torch.dtype) -> Tensor:
    """A beginning of it as another type."""
    return drawn(rank)[:count].to(dtype, copy=True)


@pytest.mark.parametrize("size", [1, 2, 3, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 5, 8))])
def test_a_sum_of_any_size_and_type_is_that_of_folding_in_every_process(size: int, tmp_path: Path) -> None:
    def work(workers: ForkedWorkers) -> dict[str, Tensor]:
        return {name: workers.sum(brought(workers.rank, *case)) for name, case in CASES.items()}

    expected = {name: fold([brought(rank, *case) for rank in range(size)]) for name, case in CASES.items()}
    for found in in_each(size, tmp_path, work):
        assert [name for name in CASES if not found[name].equal(expected[name])] == []
        floats = [tensor for tensor in found.values() if tensor.is_floating_point() and len(tensor) > NEGATIVE_ZERO]
        assert all(tensor[NEGATIVE_ZERO].signbit() for tensor in floats)
        assert len(floats) == 3 * 6


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_copy_is_what_the_first_one_has(size: int, tmp_path: Path) -> None:
    def work(workers: ForkedWorkers) -> dict[str, Tensor]:
        return {name: workers.copy(brought(workers.rank, *case)) for name, case in CASES.items()}

    for found in in_each(size, tmp_path, work):
        assert [name for name, case in CASES.items() if not found[name].equal(brought(0, *case))] == []


def test_tensors_that_do_not_lie_in_one_piece_are_changed_in_place(tmp_path: Path) -> None:
    def work(workers: ForkedWorkers) -> dict[str, Tensor]:
        whole = torch.full((6, SLOT // 8), float(workers.rank + 1))
        workers.sum(whole[::2])
        workers.sum(whole.T[3:5])
        workers.copy(whole[1, ::3])
        return {"whole": whole, "scalar": workers.sum(torch.tensor(workers.rank + 1))}

    for rank, found in enumerate(in_each(2, tmp_path, work)):
        expected = torch.full((6, SLOT // 8), float(rank + 1))
        expected[::2] = 3
        expected[::2, 3:5] = 6
        expected[1::2, 3:5] = 3
        expected[1, ::3] = 1
        expected[1, 3] = 3  # what the first one had there by then
        assert found["whole"].equal(expected)
        assert found["scalar"].equal(torch.tensor(3))


def test_sums_inside_and_outside_of_inference_mode(tmp_path: Path) -> None:
    def work(workers: ForkedWorkers) -> dict[str, Tensor]:
        with torch.inference_mode():
            inside = workers.sum(torch.ones(3))
        weights = torch.ones(3, requires_grad=True)
        outside = workers.sum((weights * 2).detach())
        return {"inside": inside.clone(), "outside": outside, "weights": workers.sum(weights).detach().clone()}

    for found in in_each(2, tmp_path, work):
        assert [found[name].tolist() for name in ("inside", "outside", "weights")] == [[2.0] * 3, [4.0] * 3, [2.0] * 3]


@pytest.mark.parametrize("size", [2, 3])
def test_many_sums_in_a_row_are_never_mixed_up_however_uneven_the_processes(size: int, tmp_path: Path) -> None:
    rounds = 300

    def work(workers: ForkedWorkers) -> dict[str, Tensor]:
        found = torch.empty(rounds, 50, dtype=torch.int64)
        for round in range(rounds):
            if round % (7 + workers.rank) == 0:
                time.sleep(0.002)  # longer than anybody asks again before falling asleep
            found[round] = workers.sum(torch.full((50,), round * 10**workers.rank))
        return {"found": found}

    factor = sum(10**rank for rank in range(size))
    for result in in_each(size, tmp_path, work):
        assert result["found"].equal((torch.arange(rounds) * factor)[:, None].expand(-1, 50))


def again_and_again(operation: Callable[[Tensor], Tensor]) -> None:
    for _ in range(1000):
        operation(torch.ones(SLOT))


@pytest.mark.parametrize("operation", ["sum", "copy"])
@pytest.mark.parametrize("size", [2, 3, 6])
def test_a_killed_process_is_noticed_by_all_the_others(size: int, operation: str, tmp_path: Path) -> None:
    workers = ForkedWorkers(size)
    workers.fork()
    if workers.rank > 0:
        signal.alarm(60)
        try:
            workers.sum(torch.ones(3))
            if workers.rank == size - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            again_and_again(getattr(workers, operation))
        except WorkerGone as error:
            (tmp_path / str(workers.rank)).write_text(str(error))
        finally:
            os._exit(0)
    workers.sum(torch.ones(3))
    with pytest.raises(
        WorkerGone, match=f"worker 1 of {size} lost contact with another worker, which has ended or was kil"
    ):
        again_and_again(getattr(workers, operation))
    assert sum(exit_code(child) for child in workers.children) == signal.SIGKILL
    workers.end()
    told = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(told) == {str(rank) for rank in range(1, size - 1)}
    assert all(f"worker {int(rank) + 1} of {size} lost contact" in text for rank, text in told.items())


def test_to_end_them_leaves_no_process_and_no_open_file() -> None:
    before = set(os.listdir("/proc/self/fd"))
    workers = ForkedWorkers(4)
    workers.fork()
    if workers.rank > 0:
        time.sleep(60)
        os._exit(0)
    children = list(workers.children)
    assert len(children) == 3
    workers.end()
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert set(os.listdir("/proc/self/fd")) <= before
    with pytest.raises(WorkerGone):
        workers.sum(torch.ones(1))


def test_those_who_were_made_are_ended_if_another_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = os.fork

    def fork() -> int:
        if made:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        child = real()
        if not child:
            time.sleep(60)
            os._exit(0)
        made.append(child)
        return child

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(BlockingIOError):
        ForkedWorkers(3).fork()
    assert not Path(f"/proc/{made[0]}").exists()


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="size=0 is not accepted"):
        ForkedWorkers(0)
    workers = ForkedWorkers(2)
    with pytest.raises(
        InputError, match=r"workers='ForkedWorkers\(2\)' is not accepted: expected fork\(\) to be called before"
    ):
        workers.sum(torch.ones(1))
    torch.set_num_threads(2)
    try:
        with pytest.raises(InputError, match="threads=2 is not accepted: expected 1 in a process that forks"):
            workers.fork()
    finally:
        torch.set_num_threads(1)
        workers.end()
