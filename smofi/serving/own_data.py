"""A client's own samples, as the server's model takes them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smofi import data
from smofi.config import Config
from smofi.config.federation import divide
from smofi.data import Source
from smofi.data.decoded import ReadProgress, silent
from smofi.data.loading import check_found
from smofi.data.samples import Store, TensorSamples
from smofi.data.tables import one_class_will_do
from smofi.errors import check_count, refuse
from smofi.serving.offer import Offer
from smofi.serving.setups import refuse_offer


@dataclass(frozen=True)
class OwnData:
    """Where a client's samples are. `part` is for trials: the number of the client whose part of the data this one has,
    divided as the server's configuration says."""

    name: str
    folder: str | os.PathLike[str] | None = None
    part: int | None = None
    label_column: str | None = None
    memory_limit: str | None = None

    def check(self) -> None:
        """Refuse data of which there is nothing here, before a server is asked what it wants."""
        if self.part is not None:
            check_count("part", self.part, low=0)
        with one_class_will_do():
            check_found(self.name, folder=self.folder, label_column=self.label_column)

    def load(
        self, offer: Offer, config: Config, progress: ReadProgress = silent
    ) -> tuple[TensorSamples, TensorSamples]:
        """Samples to train on and samples held out; refuses data that does not fit the server's task."""
        with one_class_will_do():
            source = data.load(
                self.name,
                folder=None if self.folder is None else Path(self.folder),
                image_size=config.image_size if offer.task["kind"] == "image" else None,
                max_train=config.max_train if self.part is not None else None,
                label_column=self.label_column,
                progress=progress,
                memory_limit=self.memory_limit,
            )
        _check_fits(source, offer)
        train, test = (_as_asked(samples, source, offer) for samples in (source.train, source.test))
        if self.part is None:
            return train, test
        if config.clients is None or not 0 <= self.part < config.clients:
            refuse("part", self.part, f"a client's number from 0 to {(config.clients or 1) - 1}")
        mine = divide(config, source).indices[self.part]
        return train[mine], test[np.arange(self.part, len(test), config.clients)]


def _check_fits(source: Source, offer: Offer) -> None:
    task = offer.task
    if source.kind != task["kind"]:
        raise refuse_offer(f"it is for {task['kind']}s, and your data has {source.kind}s")
    if list(source.input_shape) != task["input_shape"]:
        raise refuse_offer(f"its samples have the shape {task['input_shape']}, yours {list(source.input_shape)}")
    if unknown := sorted(set(source.class_names) - set(task["classes"])):
        raise refuse_offer(
            f"your data has the class {unknown[0]!r}, which it does not know; its classes are "
            f"{', '.join(task['classes'][:20])}"
        )
    if source.kind == "text" and list(source.class_names) != task["classes"]:
        raise refuse_offer("its alphabet is another one than that of your texts")
    if (source.train.store.mean is None) != (task.get("mean") is None):
        raise refuse_offer("its inputs are brought to mean 0 and deviation 1, and yours cannot be, or the other way")


def _as_asked(samples: TensorSamples, source: Source, offer: Offer) -> TensorSamples:
    """With the server's numbers for classes, and its mean and deviation of inputs: all clients must use the same."""
    store, task = samples.store, offer.task
    mean, deviation = (None if task.get(n) is None else torch.tensor(task[n]) for n in ("mean", "deviation"))
    targets = store.targets
    if list(source.class_names) != task["classes"]:
        numbers = torch.tensor([task["classes"].index(name) for name in source.class_names])
        targets = numbers[targets]
    same = (mean is None and store.mean is None) or (
        mean is not None and store.mean is not None and mean.shape == store.mean.shape
    )
    if not same:
        raise refuse_offer("the mean of its inputs has another shape than that of yours")
    known = Store(store.inputs, targets, store.dtype, image=store.image, mean=mean, deviation=deviation)
    return TensorSamples(known, samples.rows)
