"""Batches read ahead: by another thread, in the same order, and only where nothing is drawn at random."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import smofi
from smofi.data.ahead import Gathered
from smofi.data.samples import TensorSamples
from smofi.training.arguments import as_samples


class Slow(Dataset[Any]):
    """Samples that note who reads them; `noisy` ones draw from torch's stream as they do."""

    def __init__(self, inputs: Tensor, targets: Tensor, noisy: bool = False, broken: int = -1) -> None:
        self.inputs, self.targets, self.noisy, self.broken = inputs, targets, noisy, broken
        self.readers: list[str] = []

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        self.readers.append(threading.current_thread().name)
        if index == self.broken:
            raise OSError("the disk is gone")
        noise = 0.1 * torch.randn(self.inputs.shape[1]) if self.noisy and index % 2 else 0.0
        return self.inputs[index] + noise, self.targets[index]


def federation(**how: Any) -> list[Slow]:
    draw = torch.Generator().manual_seed(0)
    sizes = (8, 14, 9)
    return [Slow(torch.randn(n, 4, generator=draw), torch.randint(3, (n,), generator=draw), **how) for n in sizes]


def trained(clients: list[Any], method: str = "smofi") -> Tensor:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    settings = {"rounds": 2, "participation": 1.0, "local_epochs": 2, "batch_size": 4, "cut": 0}
    result = smofi.train(model, clients, method=method, **settings)  # type: ignore[arg-type]
    return torch.cat([parameter.detach().flatten() for parameter in result.model.parameters()])


@pytest.mark.parametrize("method", ["smofi", "fedavg", "mergesfl"])
def test_samples_read_ahead_are_the_same_samples(method: str) -> None:
    clients = federation()
    found = trained(clients, method)
    assert torch.equal(found, trained([(one.inputs, one.targets) for one in clients], method))
    for client in clients:
        training = [name for name in client.readers if name != "MainThread"]
        assert len(training) == 2 * 2 * (len(client) // 4) * 4  # rounds, epochs, batches, samples of each


def test_samples_that_draw_are_read_in_their_turn() -> None:
    clients = federation(noisy=True)
    found = trained(clients)
    assert {name for client in clients for name in client.readers} == {"MainThread"}
    assert torch.equal(found, trained(federation(noisy=True)))
    assert not torch.equal(found, trained(federation()))


def test_a_sample_that_cannot_be_read_names_its_client() -> None:
    clients = federation()
    clients[1].broken = 9
    with pytest.raises(smofi.SmofiError, match=r"client 1 failed in round 1, step \d: the disk is gone"):
        trained(clients)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_tensors_are_not_worth_reading_ahead() -> None:
    kinds = torch.float32, torch.device("cpu")
    one = federation()[0]
    assert as_samples(one, "one", *kinds).slow
    assert not as_samples((one.inputs, one.targets), "one", *kinds).slow


@pytest.mark.parametrize(("kept", "side", "at_a_time"), [(1, 4, 1), (500, 4, 2), (1 << 18, 4, 1365), (1 << 18, 3, 1)])
def test_batches_gathered_in_one_go_are_the_same_batches(kept: int, side: int, at_a_time: int) -> None:
    samples = TensorSamples.of(torch.randn(7, 1, side, side), torch.arange(7))[[6, 5, 4, 3, 2, 0]]
    order = torch.tensor([[0, 3, 1], [5, 2, 4], [1, 1, 0]])  # three images of 64 bytes each, or of 36
    gathered = Gathered(samples, order, kept)
    for step in (0, 1, 2, 1):
        inputs, targets = gathered.batch(step)
        expected_inputs, expected_targets = samples.batch(order[step])
        assert torch.equal(inputs, expected_inputs)
        assert torch.equal(targets, expected_targets)
        assert inputs.stride() == expected_inputs.stride()
        assert inputs.data_ptr() % 64 == 0  # where a batch gathered by itself begins, so that kernels see no difference
    assert gathered.at_a_time == at_a_time


@pytest.mark.parametrize("inputs", [torch.zeros(5, 3), torch.zeros(5, 3, dtype=torch.uint8), torch.zeros(5, 1, 4, 4)])
def test_the_bytes_of_a_sample_are_those_of_a_gathered_one(inputs: Tensor) -> None:
    samples = TensorSamples.of(inputs, torch.arange(5))
    assert samples.bytes_of_sample == samples.batch(torch.tensor([2]))[0].nbytes
