"""Whatever order answers come in, the numbers are the same; and nobody waits longer than it must."""

from __future__ import annotations

import pytest
import torch

from support.local_links import remotely
from support.remote_sessions import exact

METHODS = ["smofi", "fedavg", "fednar(max_norm=0.3)+smofi", "sflv1(period='step')", "sflv2", "mergesfl", "fednag"]


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_answers_changes_nothing(method: str, cut: int | tuple[int, int]) -> None:
    found = []
    for seed in range(3):
        session = exact(method, rounds=2, cut=cut)
        remotely(session, seed=seed)
        session.train()
        found.append(torch.cat([one.flatten() for one in session.run.state.tensors().values()]))
    assert all(torch.equal(found[0], other) for other in found)


@pytest.mark.parametrize(
    ("method", "least", "most"),
    [
        ("smofi", 1, 2),  # an activation is ready as well, and waits
        ("fednar(max_norm=0.3)+smofi", 1, 2),
        ("fedavg", 4, 100),
        ("fednag", 4, 100),
        ("sflv1(period='step')", 1, 1),
        ("mergesfl", 1, 1),
    ],
)
def test_how_far_a_client_may_be_ahead(method: str, least: int, most: int) -> None:
    """Clients with equally many steps, so that all are there to the end."""
    ahead = []
    for seed in range(4):
        session = exact(method, sizes=(24,) * 6, rounds=1)
        links = remotely(session, seed=seed)
        session.train()
        ahead.append(links.most_ahead)
    assert least <= max(ahead) <= most


def test_one_server_model_sees_one_client_at_a_time() -> None:
    """The others have sent their first activation, and wait."""
    session = exact("sflv2", sizes=(40,) * 6, rounds=1)
    came: list[int] = []

    def hears(client: int, message: object) -> bool:
        came.append(client)
        return False

    links = remotely(session, silent=hears)
    session.train()
    first, turns = came[:3], came[3:]
    assert sorted(first) == session.run.history[0].selected
    assert [turns[start : start + 20] for start in (0, 20, 40)] == [[turns[start]] * 20 for start in (0, 20, 40)]
    assert not links.waiting
