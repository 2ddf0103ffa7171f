from __future__ import annotations

import numpy as np
import pytest
import torch

from smofi.data.decoded import Decoded, Split
from smofi.data.samples import Store, TensorSamples
from smofi.data.source import as_source
from smofi.training.arguments import as_samples

CPU = torch.device("cpu")


def images(samples: int = 7) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (samples, 4, 5, 3), dtype=np.uint8)


def test_bytes_become_what_a_model_sees() -> None:
    raw, targets = images(), torch.arange(7)
    mean, deviation = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0])
    store = Store(torch.from_numpy(raw), targets, image=True, mean=mean, deviation=deviation)
    x, y = TensorSamples(store, torch.tensor([6, 1])).batch(torch.tensor([1, 0]))
    expected = (torch.from_numpy(raw[[1, 6]]).float() - mean) / deviation
    torch.testing.assert_close(x, expected.permute(0, 3, 1, 2), rtol=1e-6, atol=1e-6)
    assert y.tolist() == [1, 6]
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert store.inputs.dtype == torch.uint8  # as compact as before


def test_no_read_changes_the_store() -> None:
    inputs = torch.tensor([[5.0], [7.0]])
    one = torch.ones(1)
    samples = TensorSamples(Store(inputs, torch.arange(2), mean=one, deviation=2 * one), torch.arange(2))
    for _ in range(3):
        assert samples[0].tensors()[0].tolist() == [[2.0]]
        assert samples.batch(torch.tensor(1))[0].tolist() == [[3.0]]
        assert samples[:].tensors()[0].tolist() == [[2.0], [3.0]]
    assert inputs.tolist() == [[5.0], [7.0]]


def test_clients_share_one_store_on_every_device_and_type() -> None:
    all_samples = TensorSamples(Store(torch.from_numpy(images()), torch.arange(7), image=True), torch.arange(7))
    first, second = (as_samples(all_samples[part], "clients", torch.float64, CPU) for part in ([0, 1], [2]))
    assert isinstance(first, TensorSamples)
    assert isinstance(second, TensorSamples)
    assert first.store is second.store
    assert first.store.inputs.data_ptr() == all_samples.store.inputs.data_ptr()
    assert first.batch(torch.tensor([1]))[0].dtype == torch.float64
    assert as_samples(all_samples, "test", torch.float32, CPU).store is all_samples.store  # type: ignore[attr-defined]


def test_parts_of_parts() -> None:
    samples = TensorSamples.of(torch.arange(10.0).unsqueeze(1), torch.arange(10))
    part = samples[[9, 5, 3, 1]][1:3]
    assert part.labels.tolist() == [5, 3]
    assert part.tensors()[0].flatten().tolist() == [5.0, 3.0]
    assert samples[np.flatnonzero(np.arange(10) % 4 == 0)].labels.tolist() == [0, 4, 8]


def test_excerpts_of_a_text_take_no_memory() -> None:
    text = np.arange(200, dtype=np.uint8)
    rows = np.array([5, 0, 100])
    part = Split(text, text[rows + 8].astype(np.int64), rows=rows)
    samples = as_source("text", Decoded("text", part, part, classes=tuple(map(str, range(256))), length=8)).train
    assert samples.store.inputs.untyped_storage().nbytes() == 200
    x, y = samples.batch(torch.tensor([2, 0]))
    assert x.dtype == torch.int64
    assert x.tolist() == [list(range(100, 108)), list(range(5, 13))]
    assert y.tolist() == [108, 13]
    assert samples.labels.tolist() == [13, 8, 108]
    moved = samples.to(torch.float32, torch.device("meta"))
    assert moved.store.inputs.untyped_storage().nbytes() == 199  # a text still, all but the last target's character
    assert tuple(moved.store.inputs.shape) == tuple(samples.store.inputs.shape)


def test_resizing_averages_and_stays_compact() -> None:
    raw = images(3)[:, :4, :4]
    samples = TensorSamples(Store(torch.from_numpy(raw.copy()), torch.arange(3), image=True), torch.tensor([2, 0]))
    small = samples.resized(2)
    assert small.shape == (3, 2, 2)
    assert small.store.inputs.dtype == torch.uint8
    expected = raw[[2, 0]].reshape(2, 2, 2, 2, 2, 3).mean((2, 4))  # 2x2 blocks of 2x2 pixels
    assert np.abs(small.store.inputs.numpy() - expected).max() <= 0.5
    assert small.labels.tolist() == [2, 0]
    assert samples.resized(4) is samples


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_floats_are_taken_as_they_are(dtype: torch.dtype) -> None:
    inputs = torch.randn(4, 2, 3, 3, dtype=torch.float64)
    samples = as_samples((inputs, torch.arange(4)), "clients[0]", dtype, CPU)
    assert torch.equal(samples.batch(torch.tensor([3, 1]))[0], inputs[[3, 1]].to(dtype))
