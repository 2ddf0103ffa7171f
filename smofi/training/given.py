"""A caller's data as samples that the engine reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from smofi.data.samples import DatasetSamples, Samples, TensorSamples
from smofi.errors import InputError


def as_samples(data: Any, name: str, dtype: torch.dtype, device: torch.device) -> Samples:
    """Wrap a pair of tensors or a map-style Dataset, or leave samples as they are; `name` is what an error calls them.

    >>> len(as_samples((torch.zeros(3, 2), torch.zeros(3)), "clients[0]", torch.float32, torch.device("cpu")))
    3
    """
    if isinstance(data, TensorSamples):
        return data.to(dtype, device)
    if isinstance(data, DatasetSamples):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2 and all(isinstance(p, (Tensor, np.ndarray)) for p in data):
        inputs, targets = _as_tensors(data, name)
        if not inputs.dim() or not targets.dim() or len(inputs) != len(targets):
            shapes = f"inputs of shape {tuple(inputs.shape)} and targets of shape {tuple(targets.shape)}"
            raise InputError(f"{name} is not accepted: expected as many inputs as targets, but it has {shapes}")
        return TensorSamples.of(inputs, targets).to(dtype, device)
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(values, list) for values in data):
        raise InputError(
            f"{name} is not accepted: expected a pair of tensors, not of lists (torch.tensor makes one of each)"
        )
    if isinstance(getattr(data, "train", None), TensorSamples):  # a Source
        raise InputError(f"{name} is not accepted: expected samples, such as source.train or source.test, not a Source")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, dict, Tensor)):
        try:
            return DatasetSamples(data, dtype, device)
        except (TypeError, LookupError) as error:
            raise InputError(f"{name} is not accepted: expected (input, target) pairs: {error}") from error
    raise InputError(
        f"{name} is not accepted: expected a pair of tensors (inputs, targets) or a map-style Dataset, "
        f"not {type(data).__name__}"
    )


def _as_tensors(pair: Any, name: str) -> tuple[Tensor, Tensor]:
    """Both as tensors; classes of any type of whole number as torch's losses take them."""
    try:
        inputs, targets = (torch.as_tensor(values) for values in pair)
    except TypeError as error:  # an array of words or of objects
        raise InputError(f"{name} is not accepted: expected numbers in both tensors: {error}") from None
    whole = not targets.is_floating_point() and not targets.is_complex()
    return inputs, targets.long() if whole and targets.dtype not in (torch.uint8, torch.bool) else targets
