"""Fashion-MNIST in eighty classes, a task whose clients are as alike in size as those of CIFAR-100."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from smofi.data import load


def fashion_80() -> dict[str, npt.NDArray[np.generic]]:
    """Turn every image by 0, 90, 180 or 270 degrees, and make a negative of half of them; each way is a class.

    Class 8 y + 2 t + n is article y, turned t times, negative if n is 1.
    """
    source = load("fashion-mnist")
    found: dict[str, npt.NDArray[np.generic]] = {}
    for part, end in ((source.train, ""), (source.test, "_test")):
        labels = part.labels.numpy()
        way = np.random.default_rng(0).permutation(len(labels)) % 8
        images = part.store.inputs.numpy()[..., 0].copy()
        for turns in range(4):
            mine = way // 2 == turns
            images[mine] = np.rot90(images[mine], turns, axes=(1, 2))
        images[way % 2 == 1] = 255 - images[way % 2 == 1]
        found[f"x{end}"], found[f"y{end}"] = images, 8 * labels + way
    return found
