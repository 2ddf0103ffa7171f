"""Processes of torch.distributed add in the order of the tree: pairs exchange what they have, over gloo."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor

from smofi.engine.processes import workers as workers_module
from smofi.engine.processes.workers import DistributedWorkers, OneWorker, Workers, sum_each
from support.fold import fold
from support.ports import free_port
from support.processes import differing, exit_code

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

COUNT = 1000
Work = Callable[[Workers], dict[str, Tensor]]


@pytest.fixture(autouse=True)
def _in_small_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "MOST_EXCHANGED", 300)


@pytest.fixture
def meeting_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")


def in_each(size: int, folder: Path, work: Work) -> list[dict[str, Tensor]]:
    """What every one of these processes gets out of `work`."""
    children = []
    for rank in range(size):
        child = os.fork()
        if not child:
            code = 1
            try:
                signal.alarm(60)
                save_file(work(DistributedWorkers(rank, size, "gloo")), folder / f"{rank}")
                dist.barrier()  # the first one has the store by which they met
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    codes = [exit_code(child) for child in children]
    for child in children:
        os.waitpid(child, 0)
    assert codes == [0] * size
    return [load_file(folder / f"{rank}") for rank in range(size)]


def brought(rank: int) -> dict[str, Tensor]:
    """What a process comes with: numbers whose sum depends on the order of adding."""
    draw = torch.Generator().manual_seed(rank)
    double = torch.randn(COUNT, generator=draw, dtype=torch.float64) * 10.0 ** torch.randint(
        -4, 5, (COUNT,), generator=draw
    )
    double[0], double[1], double[2] = -0.0, 0.0 if rank == 0 else -0.0, torch.inf if rank == 1 else 1.0
    single = double.float()
    return {
        "double": double,
        "single": single,
        "whole": (double * 1000).nan_to_num(posinf=7).long(),
        "scalar": single[3].clone(),
        "none": single[:0].clone(),
        "square": single[:900].view(30, 30).clone(),
    }


@pytest.mark.usefixtures("meeting_point")
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_sum_is_that_of_folding_in_every_process(size: int, tmp_path: Path) -> None:
    def work(workers: Workers) -> dict[str, Tensor]:
        mine = brought(workers.rank)
        # tensors that do not lie in one piece are changed in place, too
        apart = {"apart": mine["square"].clone()}
        workers.sum(apart["apart"].T[3:5])
        together = [mine["double"].clone(), mine["double"][10:13].clone()]
        sum_each(workers, together)
        copied = {"copied": workers.copy(mine["single"].clone())}
        each = dict(zip(("together", "three"), together, strict=True))
        return {name: workers.sum(tensor) for name, tensor in mine.items()} | apart | each | copied

    terms = [brought(rank) for rank in range(size)]
    expected: dict[str, Tensor] = {}
    for name in terms[0]:
        total = fold([one[name] for one in terms])
        assert total is not None
        expected[name] = total
    for rank, found in enumerate(in_each(size, tmp_path, work)):
        apart = terms[rank]["square"].clone()
        apart[:, 3:5] = expected["square"][:, 3:5]
        others = {"together": expected["double"], "three": expected["double"][10:13], "copied": terms[0]["single"]}
        assert differing({**expected, **others, "apart": apart}, found) == []
        assert found["single"][:2].signbit().tolist() == [True, False]
        assert found["single"][2].isinf()


def test_a_single_process_leaves_everything_as_it_is() -> None:
    tensors = [torch.tensor([-0.0, 2.0]), torch.ones(1)]
    before = [tensor.clone() for tensor in tensors]
    sum_each(OneWorker(), tensors)
    assert differing(dict(zip("ab", before, strict=True)), dict(zip("ab", tensors, strict=True))) == []
