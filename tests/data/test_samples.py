"""Samples as the engine reads them: gathered, in order, ahead of their step, varied; and how raw input became them."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Dataset

import smofi
from smofi.data import batch_order
from smofi.data.augment import Augment, parse_augment
from smofi.data.batches import Gathered
from smofi.data.catalogue import CATALOGUE, EMBEDDED, OWN
from smofi.data.decoded import Decoded, Split
from smofi.data.hub import HUB
from smofi.data.samples import Store, TensorSamples
from smofi.data.source import as_source
from smofi.errors import InputError
from smofi.training import as_samples

CPU = torch.device("cpu")
PAGE = (Path(__file__).parents[2] / "docs/data.md").read_text()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def images(samples: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (samples, 4, 5, 3), dtype=np.uint8)


# ------------------------------------------------------------------------------------------------------------- gathered


def test_bytes_become_what_a_model_sees_and_no_read_changes_the_store() -> None:
    raw, targets = images(), torch.arange(7)
    mean, deviation = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    store = Store(torch.from_numpy(raw.copy()), targets, image=True, mean=mean, deviation=deviation)
    expected = ((torch.from_numpy(raw[[1, 6]]).float() - mean) / deviation).permute(0, 3, 1, 2)
    for _ in range(2):
        x, y = TensorSamples(store, torch.tensor([6, 1])).batch(torch.tensor([1, 0]))
        torch.testing.assert_close(x, expected, rtol=1e-6, atol=1e-6)
        assert y.tolist() == [1, 6]
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(store.inputs.numpy(), raw)  # as compact as before


def test_clients_share_one_store_on_every_device_and_type() -> None:
    all_samples = TensorSamples(Store(torch.from_numpy(images()), torch.arange(7), image=True), torch.arange(7))
    first, second = (as_samples(all_samples[part], "clients", torch.float64, CPU) for part in ([0, 1], [2]))
    assert isinstance(first, TensorSamples)
    assert isinstance(second, TensorSamples)
    assert first.store is second.store
    assert first.store.inputs.data_ptr() == all_samples.store.inputs.data_ptr()
    assert first.batch(torch.tensor([1]))[0].dtype == torch.float64
    assert as_samples(all_samples, "test", torch.float32, CPU).store is all_samples.store  # type: ignore[attr-defined]
    inputs = torch.randn(4, 2, 3, 3, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        floats = as_samples((inputs, torch.arange(4)), "clients[0]", dtype, CPU)
        assert torch.equal(floats.batch(torch.tensor([3, 1]))[0], inputs[[3, 1]].to(dtype))


def test_excerpts_of_a_text_take_no_memory() -> None:
    text = np.arange(200, dtype=np.uint8)
    rows = np.array([5, 0, 100])
    part = Split(text, text[rows + 8].astype(np.int64), rows=rows)
    samples = as_source("text", Decoded("text", part, part, classes=tuple(map(str, range(256))), length=8)).train
    assert samples.store.inputs.untyped_storage().nbytes() == 200
    x, y = samples.batch(torch.tensor([2, 0]))
    assert x.dtype == torch.int64
    assert x.tolist() == [list(range(100, 108)), list(range(5, 13))]
    assert (y.tolist(), samples.labels.tolist()) == ([108, 13], [13, 8, 108])
    moved = samples.to(torch.float32, torch.device("meta"))
    assert moved.store.inputs.untyped_storage().nbytes() == 199  # a text still, all but the last target's character
    assert tuple(moved.store.inputs.shape) == tuple(samples.store.inputs.shape)


def test_resizing_averages_and_stays_compact() -> None:
    raw = images(3)[:, :4, :4]
    samples = TensorSamples(Store(torch.from_numpy(raw.copy()), torch.arange(3), image=True), torch.tensor([2, 0]))
    small = samples.resized(2)
    assert (small.shape, small.store.inputs.dtype) == ((3, 2, 2), torch.uint8)
    expected = raw[[2, 0]].reshape(2, 2, 2, 2, 2, 3).mean((2, 4))  # 2x2 blocks of 2x2 pixels
    assert np.abs(small.store.inputs.numpy() - expected).max() <= 0.5
    assert small.labels.tolist() == [2, 0]
    assert samples.resized(4) is samples


# ----------------------------------------------------------------------------------------------------- order of batches


@given(batch_size=st.integers(1, 8), extra=st.integers(0, 30), steps=st.integers(0, 20), more=st.integers(0, 12))
def test_no_sample_twice_within_an_epoch_and_more_steps_only_lengthen_the_stream(
    batch_size: int, extra: int, steps: int, more: int
) -> None:
    size = batch_size + extra
    order = batch_order(size, batch_size, steps, seed=3, round=1, client=2)
    assert order.shape == (steps, batch_size)
    assert ((order >= 0) & (order < size)).all()
    per_epoch = size // batch_size
    for start in range(0, steps, per_epoch):
        epoch = order[start : start + per_epoch].ravel()
        assert len(np.unique(epoch)) == len(epoch)
    long = batch_order(size, batch_size, steps + more, seed=3, round=1, client=2)
    assert np.array_equal(long[:steps], order)


def test_an_epoch_without_remainder_holds_every_sample_and_seed_round_and_client_each_change_the_order() -> None:
    order = batch_order(12, 4, 6, seed=0, round=0, client=0)
    assert sorted(order[:3].ravel().tolist()) == sorted(order[3:].ravel().tolist()) == list(range(12))
    assert not np.array_equal(order[:3], order[3:])
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)]
    orders = [batch_order(50, 50, 1, seed=s, round=r, client=c).tobytes() for s, r, c in [*keys, keys[0]]]
    assert len(set(orders)) == len(keys)
    assert orders[0] == orders[-1]


# ----------------------------------------------------------------------------------------------------- ahead, in one go


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
    return [Slow(torch.randn(n, 4, generator=draw), torch.randint(3, (n,), generator=draw), **how) for n in (8, 14, 9)]


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
    assert as_samples(clients[0], "one", torch.float32, CPU).slow
    assert not as_samples((clients[0].inputs, clients[0].targets), "one", torch.float32, CPU).slow


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
        assert samples.bytes_of_sample * 3 == inputs.nbytes
    assert gathered.at_a_time == at_a_time


# --------------------------------------------------------------------------------------------------------------- varied


def one_by_one(given: Tensor, drawn: Tensor, padding: int) -> Tensor:
    """Every image by itself, pixel by pixel, as the definition says."""
    out = torch.zeros_like(given)
    for sample, (down, across, flipped) in enumerate(drawn.tolist()):
        for row in range(given.shape[2]):
            for column in range(given.shape[3]):
                source_column = given.shape[3] - 1 - column if flipped else column
                y, x = row + down - padding, source_column + across - padding
                if 0 <= y < given.shape[2] and 0 <= x < given.shape[3]:
                    out[sample, :, row, column] = given[sample, :, y, x]
    return out


@pytest.mark.parametrize("text", ["crop(2)", "flip", "crop(3)+flip", "flip+crop"])
def test_variations_equal_pixel_by_pixel(text: str) -> None:
    given = torch.randn(9, 3, 6, 5).contiguous(memory_format=torch.channels_last)
    augment = parse_augment(text)
    for step in augment.draw(2, 9, seed=1, round=2, client=3):
        varied = augment.apply(given, step)
        assert torch.equal(varied, one_by_one(given, step, augment.padding))
        assert varied.is_contiguous(memory_format=torch.channels_last)


def test_draws_depend_on_seed_round_and_client_alone() -> None:
    augment = Augment(padding=4, flips=True)
    drawn = augment.draw(5, 40, seed=0, round=0, client=0)
    assert torch.equal(drawn, augment.draw(5, 40, seed=0, round=0, client=0))
    others = [dict(seed=1, round=0, client=0), dict(seed=0, round=1, client=0), dict(seed=0, round=0, client=1)]
    assert not any(torch.equal(drawn, augment.draw(5, 40, **keys)) for keys in others)
    assert torch.equal(drawn[:2], augment.draw(2, 40, seed=0, round=0, client=0))  # whatever the number of steps
    assert set(drawn[..., :2].flatten().tolist()) == set(range(9))
    assert 60 < int(drawn[..., 2].sum()) < 140  # of 200, half
    assert not Augment(padding=4).draw(5, 40, seed=0, round=0, client=0)[..., 2].any()


@pytest.mark.parametrize("text", ["crop+crop", "turn", "crop(0)", "crop(-1)", "crop(2, 3)", "flip(1)", "", "crop("])
def test_variations_that_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_augment(text)
    with pytest.raises(InputError, match=r"augment needs images, but these samples have shape \(4,\)"):
        Augment(1).apply(torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.int64))


# -------------------------------------------------------------------------------- from raw input to what a model sees


# ------------------------------------------------------------------------------------------------------------- the page


def test_the_examples_of_the_page_run() -> None:
    found: dict[str, Any] = {}
    exec("".join(re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)), found)
    history = found["result"].history
    assert len(history) == 10
    assert history[-1].accuracy > 0.8
    assert (found["inputs"].shape, found["targets"].shape, len(found["few"])) == ((1437, 1, 8, 8), (1437,), 10)


def test_every_data_set_is_on_the_page() -> None:
    assert set(HUB) == set(CATALOGUE)
    assert all(f"| `{name}" in PAGE for name in (*EMBEDDED, *CATALOGUE, *(f"{scheme}:" for scheme in OWN)))
