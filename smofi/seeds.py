"""Randomness as a function of names: the same seed, purpose and keys give the same draws, in any order, anywhere."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from smofi.later import np, torch


def generator(seed: int, purpose: str, *keys: int) -> np.random.Generator:
    """Return the random generator for one purpose, for example the batches of client 7 in round 3.

    >>> int(generator(0, "batches", 3, 7).integers(1000)) == int(generator(0, "batches", 3, 7).integers(1000))
    True
    """
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *keys])


@contextmanager
def untouched_streams() -> Iterator[None]:
    """Restore the global random streams of torch (on the CPU), numpy and Python, whatever is drawn inside."""
    ours, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()  # global
    try:
        yield
    finally:
        torch.set_rng_state(ours)
        np.random.set_state(numpys)  # global
        random.setstate(pythons)


def draws(read: Callable[[], Any]) -> bool:
    """Tell whether reading draws from a global random stream: then its order matters, and it cannot be done ahead.

    >>> draws(lambda: 1), draws(lambda: random.random()), draws(lambda: torch.rand(1))
    (False, True, True)
    """
    before = _streams()
    read()
    return _streams() != before


def _streams() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state(legacy=True)  # that is the stream others draw from
    return torch.get_rng_state().numpy().tobytes(), kind, np.asarray(keys).tobytes(), *rest, random.getstate()
