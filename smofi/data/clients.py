"""A client's samples, ready to be gathered into batches."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from smofi.errors import InputError


class Samples(Protocol):
    """What the engine asks of data, wherever it comes from. `pixels` is the size of an image, infinite if unknown."""

    pixels: float

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these samples."""


class TensorSamples:
    """Samples held as tensors. Images are stored channels-last, so that a gathered batch is channels-last too."""

    def __init__(self, inputs: Tensor, targets: Tensor, dtype: torch.dtype, device: torch.device) -> None:
        self.shape = tuple(inputs.shape[1:])
        self.image = inputs.dim() == 4
        self.pixels = _pixels_of(inputs[0]) if len(inputs) else math.inf
        stored = inputs.permute(0, 2, 3, 1) if self.image else inputs
        self.inputs = stored.to(device, dtype if inputs.is_floating_point() else None).contiguous()
        self.targets = targets.to(device, dtype if targets.is_floating_point() else None)

    def __len__(self) -> int:
        return len(self.targets)

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        inputs = self.inputs.index_select(0, indices)
        return inputs.permute(0, 3, 1, 2) if self.image else inputs, self.targets.index_select(0, indices)


class DatasetSamples:
    """Samples of a map-style Dataset of (input, target) pairs, collated batch by batch."""

    def __init__(self, dataset: Dataset[Any], dtype: torch.dtype, device: torch.device) -> None:
        self.dataset, self.dtype, self.device = dataset, dtype, device
        self.pixels = _pixels_of(dataset[0][0]) if len(self) else math.inf

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # map-style datasets have a length, their base class does not

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = default_collate([self.dataset[int(index)] for index in indices])
        inputs = inputs.to(self.device, self.dtype if inputs.is_floating_point() else None)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, targets.to(self.device)


def as_samples(data: Any, name: str, dtype: torch.dtype, device: torch.device) -> Samples:
    """Wrap a pair of tensors or a map-style Dataset, or leave samples as they are; `name` is what an error calls them.

    >>> len(as_samples((torch.zeros(3, 2), torch.zeros(3)), "clients[0]", torch.float32, torch.device("cpu")))
    3
    """
    if isinstance(data, (TensorSamples, DatasetSamples)):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(p, (Tensor, np.ndarray)) for p in data):
        inputs, targets = (torch.as_tensor(part) for part in data)
        if not inputs.dim() or not targets.dim() or len(inputs) != len(targets):
            shapes = f"inputs of shape {tuple(inputs.shape)} and targets of shape {tuple(targets.shape)}"
            raise InputError(f"{name} is not accepted: expected as many inputs as targets, and it has {shapes}")
        return TensorSamples(inputs, targets, dtype, device)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, dict, Tensor)):
        try:
            return DatasetSamples(data, dtype, device)
        except (TypeError, LookupError) as error:
            raise InputError(f"{name} is not accepted: expected (input, target) pairs: {error}") from error
    raise InputError(
        f"{name} is not accepted: expected a pair of tensors (inputs, targets) or a map-style Dataset, "
        f"not {type(data).__name__}"
    )


def _pixels_of(sample: Any) -> float:
    """The size of an image `[channels, height, width]`, infinite for anything else."""
    shape: tuple[int, ...] = tuple(getattr(sample, "shape", ()))
    return float(shape[1] * shape[2]) if len(shape) == 3 else math.inf
