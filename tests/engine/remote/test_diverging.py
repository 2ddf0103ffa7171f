"""A run whose numbers are no longer finite stops, as a simulation does; a single client that sends such is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import smofi
from smofi.data.samples import TensorSamples
from support.local_links import remotely
from support.remote_sessions import exact

WILD = "sgd(lr=1e200, momentum=0.9, weight_decay=1)"


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", ["smofi", "sflv2", "mergesfl"])
def test_it_stops_and_keeps_the_last_good_model(method: str, cut: Any) -> None:
    session = exact(method, optimizer=WILD, cut=cut)
    remotely(session)
    before = session.run.state.weights.clone()
    with pytest.warns(smofi.TrainingWarning, match=r"most clients have failed \(.*\), the last one in round 1, step"):
        result = session.train()
    assert result.diverged
    assert torch.equal(session.run.state.weights, before)


def test_one_client_has_samples_that_are_no_numbers() -> None:
    session = exact("smofi", participation=1.0, rounds=2)
    links = remotely(session)
    samples = links.clients[1].agreed.device.samples
    assert isinstance(samples, TensorSamples)
    samples.store.inputs[:] = torch.nan
    result = session.train()
    assert not result.diverged
    assert [client for client, _ in links.rested] == [1, 1]
    assert bool(torch.isfinite(session.run.state.weights).all())
