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
from smofi.net.frames import BadFrame, Frame, encode, read
from smofi.net.messages import pack, read_up
from smofi.serving.offer import Offer
from smofi.serving.participation import Agreed, Participation
from smofi.serving.run import FederatedEvaluator
from smofi.serving.setups import layout_hash, setup_of
from support.deployed import Clients, Serve, small
from support.ports import free_port


def test_nothing_but_counts_is_sent() -> None:
    """Whatever the model, also one whose outputs are not finite: any client's weights may have brought it there."""
    source, config = data.load("digits", max_train=40), small()
    layout = setup_of(config, config.build_model(source), torch.device("cpu")).layout
    offer = Offer.read(read(Offer.of(config, source, layout_hash(layout), "clients", 8).pack()))
    client = Participation(Agreed.of(offer, config, source.train, source.test, torch.device("cpu")))
    huge = Evaluate(0, torch.full((layout.size,), 1e30), torch.ones(layout.statistics_size))
    (answer,) = client.answers(read(b"".join(pack(huge))))
    assert isinstance(answer, Evaluated)
    sent = read(b"".join(pack(answer)))
    assert sent.fields.keys() == {"round", "samples", "correct"}
    assert not sent.tensors
    expected = Expected(Evaluated, 0, most=len(source.test))
    assert read_up(sent, expected) == answer


def test_a_loss_is_not_taken_either() -> None:
    told = Frame("evaluated", {"round": 0, "samples": 10, "correct": 5, "loss": 1.5})
    with pytest.raises(BadFrame, match=r"fields.loss is 1.5: expected no such field"):
        read_up(read(encode(told)), Expected(Evaluated, 0, most=10))


def test_the_share_of_all_samples_is_told_and_no_loss() -> None:
    """5 of 10 and 9 of 20: not the mean of the shares."""

    class Answering:
        roster = SimpleNamespace(tests=[10, 20])

        def __init__(self) -> None:
            self.answers = [(0, Evaluated(0, 10, 5)), (1, Evaluated(0, 20, 9))]

        def present(self) -> list[int]:
            return [0, 1]

        def send(self, *_: Any) -> None: ...

        def receive(self, timeout: float | None) -> Any:
            return self.answers.pop()

    judge: Any = FederatedEvaluator.__new__(FederatedEvaluator)
    judge.hub, judge.rounds, judge.patience, judge.model = Answering(), 0, None, None
    judge.setup = SimpleNamespace(layout=SimpleNamespace(pack=lambda model: (torch.zeros(1), torch.zeros(1))))
    assert judge.evaluate() == (None, {"top1": 14 / 30})


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
