from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from smofi.data import batch_order


@given(
    batch_size=st.integers(1, 8),
    extra=st.integers(0, 30),
    steps=st.integers(0, 20),
    seed=st.integers(0, 5),
)
def test_no_sample_twice_within_an_epoch(batch_size: int, extra: int, steps: int, seed: int) -> None:
    size = batch_size + extra
    order = batch_order(size, batch_size, steps, seed=seed, round=1, client=2)
    assert order.shape == (steps, batch_size)
    assert ((order >= 0) & (order < size)).all()
    per_epoch = size // batch_size
    for start in range(0, steps, per_epoch):
        epoch = order[start : start + per_epoch].ravel()
        assert len(np.unique(epoch)) == len(epoch)


@given(steps=st.integers(0, 12), more=st.integers(0, 12))
def test_more_steps_only_lengthen_the_stream(steps: int, more: int) -> None:
    short = batch_order(10, 3, steps, seed=0, round=0, client=0)
    long = batch_order(10, 3, steps + more, seed=0, round=0, client=0)
    assert np.array_equal(long[:steps], short)


def test_an_epoch_without_remainder_holds_every_sample() -> None:
    order = batch_order(12, 4, 6, seed=0, round=0, client=0)
    assert sorted(order[:3].ravel().tolist()) == sorted(order[3:].ravel().tolist()) == list(range(12))
    assert not np.array_equal(order[:3], order[3:])


def test_seed_round_and_client_each_change_the_order() -> None:
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)]
    orders = {batch_order(50, 50, 1, seed=s, round=r, client=c).tobytes() for s, r, c in keys}
    assert len(orders) == len(keys)
    first = batch_order(50, 50, 1, seed=0, round=0, client=0)
    assert np.array_equal(first, batch_order(50, 50, 1, seed=0, round=0, client=0))
