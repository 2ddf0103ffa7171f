"""A model that its clients judge, when something goes wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from smofi import data
from smofi.engine.events import Event, RoundStarted
from smofi.engine.remote.links import Expected
from smofi.engine.remote.messages import Evaluate, Evaluated
from smofi.net.frames import read
from smofi.net.messages import pack, read_up
from smofi.serving.offer import Offer
from smofi.serving.participation import Agreed, Participation
from smofi.serving.run import FederatedEvaluator
from smofi.serving.setups import layout_hash, setup_of
from support.deployed import Clients, Serve, small
from support.ports import free_port


def test_a_loss_that_is_not_finite_does_not_end_its_client() -> None:
    """Any client's weights may have brought the model there, as long as they were finite."""
    source, config = data.load("digits", max_train=40), small()
    layout = setup_of(config, config.build_model(source), torch.device("cpu")).layout
    offer = Offer.read(read(Offer.of(config, source, layout_hash(layout), "clients", 8).pack()))
    client = Participation(Agreed.of(offer, config, source.train, source.test, torch.device("cpu")))
    huge = Evaluate(0, torch.full((layout.size,), 1e30), torch.ones(layout.statistics_size))
    (answer,) = client.answers(read(b"".join(pack(huge))))
    assert isinstance(answer, Evaluated)
    assert answer.loss is None
    expected = Expected(Evaluated, 0, most=len(source.test))
    assert read_up(read(b"".join(pack(answer))), expected) == answer


def test_losses_are_added_in_the_order_of_clients() -> None:
    """0.1 + 0.2 + 0.3 is another number than 0.3 + 0.2 + 0.1."""
    losses = {0: 0.1, 1: 0.2, 2: 0.3}

    class Backwards:
        roster = SimpleNamespace(tests=[1, 1, 1])

        def __init__(self) -> None:
            self.answers = [(client, Evaluated(0, 1, 1, loss)) for client, loss in losses.items()]

        def present(self) -> list[int]:
            return [0, 1, 2]

        def send(self, *_: Any) -> None: ...

        def receive(self, timeout: float | None) -> Any:
            return self.answers.pop()

    judge: Any = FederatedEvaluator.__new__(FederatedEvaluator)
    judge.hub, judge.rounds, judge.patience, judge.model = Backwards(), 0, None, None
    judge.setup = SimpleNamespace(layout=SimpleNamespace(pack=lambda model: (torch.zeros(1), torch.zeros(1))))
    assert judge.evaluate() == ((0.1 + 0.2 + 0.3) / 3, {"top1": 1.0})
    assert 0.1 + 0.2 + 0.3 != 0.3 + 0.2 + 0.1


@pytest.mark.filterwarnings("ignore::smofi.errors.TrainingWarning")
def test_the_last_good_round_of_a_run_that_diverges(tmp_path: Path) -> None:
    """Clients owe answers of the round that is void, which are none about the model."""
    config = small(clients=3, participation=1.0, rounds=4, eval_every=2, method="sflv2", local_epochs=2)
    port = free_port()
    with Clients(port, 3) as clients, Serve(config, tmp_path / "run", port, evaluate="clients") as server:

        def break_the_servers_part(event: Event) -> None:
            if isinstance(event, RoundStarted) and event.round == 2 and len(event.selected) == 3:  # not again
                assert server.server
                weights = server.server.runs[0].session.run.state.weights
                weights[len(weights) // 2 :] *= 1e35

        server.on_event = break_the_servers_part
        (result,) = server.result()
        assert clients.all_ended() == [0, 0, 0]
    assert result.diverged
    assert "client 2 (site-2)" in (result.stopped or "")
    assert [one.round for one in result.history] == [1]
    assert result.history[0].accuracy is not None
