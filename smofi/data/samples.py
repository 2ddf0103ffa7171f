"""Samples as the engine reads them: batches of inputs and targets, wherever they lie and however compactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torch.utils.data import Dataset, default_collate

from smofi.seeds import draws, untouched_streams

PROBED = 8
"""About this many samples of a Dataset are read to find out whether reading draws random numbers."""

AT_ONCE, NUMBERS_AT_ONCE = 1000, 2**25
"""Images that are resized at once, and the numbers that they may have together, before or after."""

Keep: TypeAlias = Callable[[int, Tensor, Callable[[], Tensor]], Tensor]
"""Returns the images of these rows, resized to this side: what was kept of them, or what a function gives, kept."""


class Samples(Protocol):
    """Samples as the engine needs them, wherever they come from. `pixels` is the size of an image, infinite if unknown;
    `slow` tells that batches are worth reading ahead, and may be."""

    pixels: float
    slow: bool

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of these samples."""

    def targets(self, indices: Tensor) -> Tensor:
        """Return the targets of these samples alone."""


def resize(stored: Tensor, rows: Tensor, side: int) -> Tensor:
    """Return the images in these rows as squares `[samples, side, side, channels]`; average what falls together."""
    small = torch.empty((len(rows), side, side, stored.shape[3]), dtype=stored.dtype, device=stored.device)
    largest = max(small.shape[1:].numel(), stored.shape[1:].numel(), 1)
    step = max(1, min(AT_ONCE, NUMBERS_AT_ONCE // largest))
    for begin in range(0, len(rows), step):
        images = stored[rows[begin : begin + step]].permute(0, 3, 1, 2).to(torch.float32)
        planes = interpolate(images, size=(side, side), mode="area")
        whole = planes.round_() if stored.dtype == torch.uint8 else planes
        small[begin : begin + step] = whole.to(stored.dtype).permute(0, 2, 3, 1)
    return small


class Store:
    """All samples, once: as bytes where possible, images channels-last, so that a gathered batch is channels-last too.

    Many clients share one store; a batch is converted, and brought to mean 0 and deviation 1, when it is gathered.
    `keep` stores images that have been resized.
    """

    def __init__(
        self,
        inputs: Tensor,
        targets: Tensor,
        dtype: torch.dtype = torch.float32,
        *,
        image: bool = False,
        mean: Tensor | None = None,
        deviation: Tensor | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.inputs, self.targets, self.dtype, self.image, self.keep = inputs, targets, dtype, image, keep
        self.mean, self.deviation = mean, deviation
        self.shift, self.scale = self._spread(mean), self._spread(deviation)
        self.moved: dict[tuple[torch.dtype, torch.device], Store] = {}

    def to(self, dtype: torch.dtype, device: torch.device) -> Store:
        """Return the same samples for a model of this type on this device, moved once for all clients."""
        if (dtype, device) == (self.dtype, self.inputs.device):
            return self
        if (dtype, device) not in self.moved:
            floating = self.inputs.is_floating_point()
            self.moved[dtype, device] = Store(
                _moved(self.inputs, device, dtype if floating else None),
                self.targets.to(device, dtype if self.targets.is_floating_point() else None),
                dtype,
                image=self.image,
                mean=None if self.mean is None else self.mean.to(device, dtype),
                deviation=None if self.deviation is None else self.deviation.to(device, dtype),
            )
        return self.moved[dtype, device]

    def resized(self, rows: Tensor, side: int) -> Store:
        """Return the images in these rows, and only these, as squares of another size."""
        resized = partial(resize, self.inputs, rows, side)
        return Store(
            self.keep(side, rows, resized) if self.keep else resized(),
            self.targets[rows],
            self.dtype,
            image=True,
            mean=self.mean,
            deviation=self.deviation,
        )

    def _spread(self, moment: Tensor | None) -> Tensor | None:
        """Repeat a number per channel or feature for each element of a sample: much quicker to compute with."""
        return None if moment is None else moment.to(self.dtype).expand(self.inputs.shape[1:]).contiguous()

    def gather(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return these samples, as a model sees them."""
        inputs = self.inputs.index_select(0, rows)  # always a copy, so it may be changed in place
        if self.shift is not None and self.scale is not None:
            # (x - mean) / deviation
            inputs = inputs.to(self.dtype).sub_(self.shift).div_(self.scale)
        elif inputs.dtype == torch.uint8:
            inputs = inputs.to(self.dtype if self.image else torch.int64)
        return inputs.permute(0, 3, 1, 2) if self.image else inputs, self.targets.index_select(0, rows)


class TensorSamples:
    """Some samples of a store. `samples[indices]` are some of these, without a copy; `inputs, targets =
    samples.tensors()` are all of them as two plain tensors, and `samples.labels` the targets alone.

    >>> both = TensorSamples.of(torch.zeros(3, 1, 8, 8), torch.arange(3))
    >>> len(both[[0, 2]]), both[[0, 2]].labels.tolist(), both.shape
    (2, [0, 2], (1, 8, 8))
    """

    slow = False

    def __init__(self, store: Store, rows: Tensor, side: int | None = None) -> None:
        self._store, self._rows, self._side = store, rows, side  # the size that images are still to be brought to
        shape = tuple(store.inputs.shape[1:])
        if side is not None:
            shape = (side, side, shape[2])
        self.shape = (shape[2], *shape[:2]) if store.image else shape
        self.pixels = float(self.shape[1] * self.shape[2]) if store.image else math.inf

    @classmethod
    def of(cls, inputs: Tensor, targets: Tensor) -> TensorSamples:
        """Take all of these, images as `[samples, channels, height, width]`."""
        image = inputs.dim() == 4
        dtype = inputs.dtype if inputs.is_floating_point() else torch.float32
        stored = inputs.permute(0, 2, 3, 1).contiguous() if image else inputs.contiguous()
        return cls(Store(stored, targets, dtype, image=image), torch.arange(len(targets), device=targets.device))

    @property
    def store(self) -> Store:
        """The store that these samples, and perhaps others, are in."""
        self._resize()
        return self._store

    @property
    def rows(self) -> Tensor:
        """Where in the store these samples are."""
        self._resize()
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"TensorSamples({len(self):,} of shape {self.shape}; .tensors() gives inputs and targets)"

    def __getitem__(self, indices: Any) -> TensorSamples:
        return TensorSamples(self._store, self._rows[indices].reshape(-1), self._side)

    @property
    def labels(self) -> Tensor:
        """The targets of all these samples."""
        return self._store.targets[self._rows]

    def tensors(self) -> tuple[Tensor, Tensor]:
        """Return all these samples as two plain tensors, inputs as a model sees them."""
        return self.store.gather(self.rows)

    def stored(self, indices: Tensor) -> Tensor:
        """Return the inputs of these samples as they are stored; no others are resized for it."""
        if self._side is None:
            return self._store.inputs[self._rows[indices]]
        return resize(self._store.inputs, self._rows[indices], self._side)

    def resized(self, side: int) -> TensorSamples:
        """Return the same images as squares of another size, as compact as before, in a store of their own."""
        small = self.resized_when_used(side)
        small._resize()
        return small

    def resized_when_used(self, side: int) -> TensorSamples:
        """Return the same images, resized when they are first used: what is cut off before that is never resized."""
        return self if self.shape[1:] == (side, side) else TensorSamples(self.store, self.rows, side)

    def _resize(self) -> None:
        if self._side is not None:
            self._store = self._store.resized(self._rows, self._side)
            self._rows, self._side = torch.arange(len(self), device=self._rows.device), None

    def to(self, dtype: torch.dtype, device: torch.device) -> TensorSamples:
        """Return the same samples for a model of this type on this device."""
        return TensorSamples(self.store.to(dtype, device), self.rows.to(device))

    @property
    def bytes_of_sample(self) -> int:
        """Bytes that the inputs of one sample take when they have been gathered."""
        kept = self._store.inputs.dtype
        dtype = kept if kept.is_floating_point else self._store.dtype if self._store.image else torch.int64
        return math.prod(self.shape) * dtype.itemsize

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        return self.store.gather(self.rows[indices.reshape(-1)])

    def targets(self, indices: Tensor) -> Tensor:
        return self.store.targets[self.rows[indices]]


class DatasetSamples:
    """Samples of a map-style Dataset of (input, target) pairs, collated batch by batch."""

    def __init__(self, dataset: Dataset[Any], dtype: torch.dtype, device: torch.device) -> None:
        self.dataset, self.dtype, self.device = dataset, dtype, device
        with untouched_streams():
            self.pixels = _pixels_of(dataset[0][0]) if len(self) else math.inf
            self.slow = _may_be_read_ahead(dataset, len(self))

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]  # map-style datasets have a length, their base class does not

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = default_collate([self.dataset[int(index)] for index in indices])
        inputs = inputs.to(self.device, self.dtype if inputs.is_floating_point() else None)
        if inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, targets.to(self.device)

    def targets(self, indices: Tensor) -> Tensor:
        return self.batch(indices)[1]


def batches(samples: Sequence[Samples], indices: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return a batch of each of several clients, `[clients, batch, ...]`, in one go where they share a store."""
    first = samples[0]
    if isinstance(first, TensorSamples) and all(getattr(one, "store", None) is first.store for one in samples):
        rows = [one.rows[some] for one, some in zip(samples, indices, strict=True)]  # type: ignore[attr-defined]
        inputs, targets = first.store.gather(torch.cat(rows))
        shape = (len(samples), -1)
        return inputs.unflatten(0, shape), targets.unflatten(0, shape)
    read = [one.batch(some) for one, some in zip(samples, indices, strict=True)]
    return torch.stack([inputs for inputs, _ in read]), torch.stack([targets for _, targets in read])


def _may_be_read_ahead(dataset: Dataset[Any], size: int) -> bool:
    """Tell whether reading draws nothing at random; a data set that cannot be read fails later, when it is used."""
    some = range(0, size, max(1, size // PROBED))
    try:
        return size > 0 and not draws(lambda: [dataset[index] for index in some])
    except Exception:
        return False


def _moved(tensor: Tensor, device: torch.device, dtype: torch.dtype | None) -> Tensor:
    """Move a tensor; of excerpts that overlap in one long text, only the text is moved."""
    if tensor.dim() == 2 and tensor.stride() == (1, 1) and len(tensor):
        count, length = tensor.shape
        return tensor.as_strided((count + length - 1,), (1,)).to(device, dtype).unfold(0, length, 1)
    return tensor.to(device, dtype)


def _pixels_of(sample: Any) -> float:
    """Return the size of an image `[channels, height, width]`, infinite for anything else."""
    shape: tuple[int, ...] = tuple(getattr(sample, "shape", ()))
    return float(shape[1] * shape[2]) if len(shape) == 3 else math.inf
