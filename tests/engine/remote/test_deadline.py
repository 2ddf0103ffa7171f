"""A client that does not answer in time is left out, and the others' numbers are those of a loss at that step."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import smofi
from smofi.engine.remote.messages import Activation, Returned
from support.local_links import LocalLinks, remotely
from support.remote_sessions import exact

PATIENCE = 0.3


def trained(method: str, cut: Any, patience: float | None = None, **options: Any) -> tuple[smofi.Session, LocalLinks]:
    session = exact(method, sizes=(8, 13, 21, 16), rounds=1, participation=1.0, cut=cut)
    links = remotely(session, patience, **options)
    session.train()
    return session, links


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", ["smofi", "sflv2", "mergesfl", "fednar(max_norm=0.4)"])
def test_a_client_that_never_answers(method: str, cut: Any) -> None:
    kind = Activation if cut == 1 else Returned

    def misses(client: int, message: Any) -> bool:
        return client == 1 and isinstance(message, kind) and message.step == 3

    began = time.monotonic()
    late, links = trained(method, cut, PATIENCE, silent=misses)
    assert time.monotonic() - began >= PATIENCE
    lost, _ = trained(method, cut, loses=misses)
    assert links.rested == [(1, "it did not answer within 0.3 s")]
    for name, tensor in late.run.state.tensors().items():
        assert torch.equal(tensor, lost.run.state.tensors()[name]), name
