"""Mean and deviation of a data set, found as it is decoded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smofi.data.decoded import Array, Decoded

AT_ONCE = 2**20


def with_moments(decoded: Decoded) -> Decoded:
    """Mean and deviation of the training inputs, per channel or feature, added to what is known about the data."""
    if not decoded.standardise or decoded.kind == "text":
        return decoded
    inputs = decoded.train.inputs
    columns = inputs.reshape(-1, inputs.shape[-1])
    if inputs.dtype == np.uint8:
        # exact, from how often each of the 256 values occurs
        counts = sum(_counts(some) for some in np.array_split(columns, 1 + len(columns) // AT_ONCE)) / len(columns)
        mean = counts @ np.arange(256.0)
        deviation = np.sqrt(np.maximum(counts @ np.arange(256.0) ** 2 - mean**2, 0))
    else:
        mean, deviation = columns.mean(0, dtype=np.float64), columns.std(0, dtype=np.float64)
    deviation = np.where(deviation > 0, deviation, 1.0)  # a constant becomes 0
    return replace(decoded, about={**decoded.about, "mean": mean.tolist(), "deviation": deviation.tolist()})


def _counts(columns: Array) -> Array:
    return np.stack([np.bincount(column, minlength=256) for column in columns.T])
