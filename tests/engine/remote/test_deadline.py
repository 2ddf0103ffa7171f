"""A client that does not answer in time is left out, and the others' numbers are those of a loss at that step."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import smofi
from smofi.engine.remote import row, stepper
from smofi.engine.remote.messages import Activation, Returned
from support.local_links import LocalLinks, remotely
from support.remote_sessions import exact

PATIENCE = 15.0


def trained(method: str, cut: Any, patience: float | None = None, **options: Any) -> tuple[smofi.Session, LocalLinks]:
    """With the clock of the links: on a machine that is busy, nobody is late but who never answers."""
    session = exact(method, sizes=(8, 13, 21, 16), rounds=1, participation=1.0, cut=cut)
    links = remotely(session, patience, **options)
    with pytest.MonkeyPatch.context() as patched:
        for module in (row, stepper):
            patched.setattr(module, "time", SimpleNamespace(monotonic=lambda: links.now))
        session.train()
    return session, links


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", ["smofi", "sflv2", "mergesfl", "fednar(max_norm=0.4)"])
def test_a_client_that_never_answers(method: str, cut: Any) -> None:
    kind = Activation if cut == 1 else Returned

    def misses(client: int, message: Any) -> bool:
        return client == 1 and isinstance(message, kind) and message.step == 3

    late, links = trained(method, cut, PATIENCE, silent=misses)
    assert links.now == PATIENCE
    lost, _ = trained(method, cut, loses=misses)
    assert links.rested == [(1, "it did not answer within 15 s")]
    for name, tensor in late.run.state.tensors().items():
        assert torch.equal(tensor, lost.run.state.tensors()[name]), name
