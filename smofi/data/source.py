"""A data set as the rest of the library has it: samples to train on, samples to test on, and what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smofi.data.cache import kept_images
from smofi.data.decoded import Array, Decoded, Split
from smofi.data.samples import Keep, Store, TensorSamples


@dataclass(frozen=True, eq=False)
class Source:
    """Samples ready to train on. `owner` and `test_owner` say whose each sample is, where the data tells.

    `inputs, targets = source.train.tensors()` are its samples as two plain tensors, inputs as a model sees them;
    `source.train.labels` are the targets alone, and `source.train[indices]` some of the samples, without a copy.

    `preparation` says in JSON values how the user's files became inputs, so that a trained model can be used elsewhere;
    docs/export.md lists its fields. None if it is not known.

    >>> blank = TensorSamples.of(torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64))
    >>> Source("blank", blank, blank, ("cat", "dog")).input_shape
    (1, 8, 8)
    """

    name: str
    train: TensorSamples
    test: TensorSamples
    class_names: tuple[str, ...]
    kind: str = "image"
    owner: Array | None = None
    test_owner: Array | None = None
    owners: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    preparation: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return (
            f"Source({self.name!r}: {len(self.train):,} training and {len(self.test):,} test samples, each {self.kind} "
            f"of shape {self.input_shape}, {self.classes} classes; inputs, targets = source.train.tensors())"
        )

    @property
    def classes(self) -> int:
        """The number of classes; of text, of characters."""
        return len(self.class_names)

    def limited(self, max_train: int | None = None, max_test: int | None = None) -> Source:
        """Return the same with fewer samples: the first ones."""
        return replace(
            self,
            train=self.train[:max_train],
            test=self.test[:max_test],
            owner=None if self.owner is None else self.owner[:max_train],
            test_owner=None if self.test_owner is None else self.test_owner[:max_test],
        )

    def resized(self, side: int) -> Source:
        """Return the same with square images of another size; those to test on are resized when they are first used."""
        preparation = self.preparation and {
            **self.preparation,
            "resize_by_area": [*self.preparation.get("resize_by_area", ()), side],
        }
        return replace(
            self,
            train=self.train.resized(side),
            test=self.test.resized_when_used(side),
            preparation=preparation,
        )

    def task(self) -> dict[str, Any]:
        """Describe what a model for this data takes and gives, as plain values."""
        moments = {"mean": self.train.store.mean, "deviation": self.train.store.deviation}
        known: dict[str, Any] = {name: moment.tolist() for name, moment in moments.items() if moment is not None}
        if self.preparation is not None:
            known["preparation"] = dict(self.preparation)
        return {"kind": self.kind, "input_shape": self.input_shape, "classes": self.class_names, **known}

    def fingerprint(self) -> str:
        """Hash what the samples are: all labels, and the inputs of up to a thousand of each split; computed once."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.kind} {self.input_shape} {self.class_names}".encode())
        for samples in (self.train, self.test):
            digest.update(samples.labels.numpy().tobytes())
            chosen = torch.linspace(0, len(samples) - 1, min(len(samples), 1000)).long()
            digest.update(samples.stored(chosen).contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.train.shape


def as_source(name: str, decoded: Decoded) -> Source:
    """Make what was read ready to be used."""
    train = _samples("train", decoded)
    return Source(
        name=name,
        train=train,
        test=_samples("test", decoded),
        class_names=decoded.classes,
        kind=decoded.kind,
        owner=decoded.train.owner,
        test_owner=decoded.test.owner,
        owners=decoded.owners,
        remarks=tuple(_remarks(decoded)),
        preparation=_preparation(decoded.raw_input, train.store) if decoded.raw_input else None,
    )


def _preparation(raw_input: Mapping[str, Any], store: Store) -> dict[str, Any]:
    """Describe how raw input becomes what a model sees: read, resized, brought to mean 0 and deviation 1."""
    facts = dict(raw_input)
    moments = {name: facts.pop(name, None) for name in ("mean", "deviation")}
    if store.mean is not None and store.deviation is not None:
        moments = {"mean": store.mean.tolist(), "deviation": store.deviation.tolist()}
    return {
        "raw_input": facts,
        "resize_by_area": [],
        "standardise": moments if moments["mean"] is not None else None,
    }


def _remarks(decoded: Decoded) -> Iterator[str]:
    """Say what the reader found worth saying."""
    for key, sentence in (("features", "features: {}"), ("test", "tested on: {}"), ("left_out", "left out: {}")):
        if key in decoded.about:
            said = decoded.about[key]
            yield sentence.format(said if isinstance(said, str) else ", ".join(said))
    if "remark" in decoded.about:
        yield str(decoded.about["remark"])
    if decoded.kind != "text":
        untested = np.setdiff1d(np.arange(len(decoded.classes)), decoded.test.targets)
        if len(untested):
            names = ", ".join(repr(decoded.classes[number]) for number in untested[:5])
            more = f" and {len(untested) - 5:,} more" if len(untested) > 5 else ""
            yield f"not tested: {names}{more}, of which the test set has no sample; add some to it"


def _samples(name: str, decoded: Decoded) -> TensorSamples:
    split: Split = getattr(decoded, name)
    inputs, targets = torch.from_numpy(split.inputs), torch.from_numpy(split.targets)
    if split.rows is None:
        rows = torch.arange(len(targets))
    else:
        # every excerpt of the text, overlapping, in the memory of the text itself; its target is what follows it
        inputs, targets = inputs.unfold(0, decoded.length, 1)[:-1], inputs[decoded.length :].to(torch.int64)
        rows = torch.from_numpy(split.rows)
    mean, deviation = (
        torch.tensor(decoded.about[name], dtype=torch.float32) if name in decoded.about else None
        for name in ("mean", "deviation")
    )
    image, keep = decoded.kind == "image", _keep(name, decoded)
    return TensorSamples(Store(inputs, targets, image=image, mean=mean, deviation=deviation, keep=keep), rows)


def _keep(name: str, decoded: Decoded) -> Keep | None:
    """Keep resized images of a split beside the file that it came from."""
    if decoded.file is None:
        return None

    def keep(side: int, rows: Tensor, resized: Callable[[], Tensor]) -> Tensor:
        device = rows.device
        kept = kept_images(decoded, name, side, rows.cpu().numpy(), lambda: resized().cpu().numpy())
        return torch.from_numpy(kept).to(device)

    return keep
