"""What a client lets a server do: labels, models and methods of its own, and where models are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.deployed import Clients, Serve, deployed, same_bits, session_of, simulated, small, tensors
from support.ports import free_port

MINE = """
import torch
from torch import nn
import smofi

def network(input_shape, classes, **_):
    torch.manual_seed(3)
    hidden = lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh())
    first = nn.Sequential(nn.Flatten(), *hidden(torch.Size(input_shape).numel()))
    return nn.Sequential(first, hidden(8), hidden(8), nn.Linear(8, classes)).double()

def fixed():
    return smofi.methods.parse_method("fedprox(mu=0.2)+smofi")
"""
FEW = {"clients": 2, "participation": 1.0, "rounds": 2}


def test_labels_leave_only_if_they_may(tmp_path: Path) -> None:
    """Without them, a run with two parts is not joined; the client says why, and ends."""
    port = free_port()
    with Clients(port, 1, allow_labels=False) as clients, Serve(small(**FEW), tmp_path / "run", port) as server:
        assert clients.ended("site-0") == 2
        assert "they leave this machine only with --allow-labels" in clients.said("site-0")
        assert server.server is not None
        assert not server.server.hub.present()


def test_a_model_and_a_method_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, the numbers are those of the model that is not split."""
    (tmp_path / "of_this_client.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    names = {"model": "python:of_this_client:network", "method": "python:of_this_client:fixed"}
    config = small(**FEW, **names)
    results = deployed(config, tmp_path / "run", {"own": names, "paths": [str(tmp_path)]})
    same_bits(results, simulated(config))
    whole = session_of(config, wire=None)
    for name, tensor in tensors(whole.train().model).items():
        assert abs(tensors(results[0].model)[name] - tensor).max() < 1e-10, name


def test_judged_by_the_clients(tmp_path: Path) -> None:
    """Together, they hold out all that the server would judge by."""
    config = small(**FEW, max_test=None, method=["smofi", "sflv2"])
    results = deployed(config, tmp_path / "run", evaluate="clients")
    for result, session in zip(results, simulated(config), strict=True):
        assert [one.accuracy for one in result.history] == [one.accuracy for one in session.run.history]
        assert [one.loss for one in result.history] == [None, None]


@pytest.mark.slow
def test_judged_by_nobody(tmp_path: Path) -> None:
    config = small(**FEW)
    (result,) = deployed(config, tmp_path / "run", evaluate="none")
    assert [(one.accuracy, one.loss) for one in result.history] == [(None, None)] * 2
    (session,) = simulated(config)
    assert [one.train_loss for one in result.history] == [one.train_loss for one in session.run.history]


def test_a_client_with_less_than_a_batch(tmp_path: Path) -> None:
    """It could never take a step: it is refused, and does not count as one of those that a round waits for."""
    config = small(clients=2, participation=1.0, rounds=1, batch_size=64)
    port = free_port()
    with Clients(port, 0) as clients, Serve(config, tmp_path / "run", port) as server:
        clients.start(0)
        clients.start(1, data=f"npz:{few_digits(tmp_path)}", part=None)
        assert clients.ended("site-1") == 2
        assert (
            "a batch has 64 samples, and with 32 training samples here this client could never take part"
            in clients.said("site-1")
        )
        assert not server.history
        clients.start(2, part=1)
        server.result()
        joined = "samples to train cnn with smofi, cut 1; a round begins when enough clients are there"
        assert joined in clients.said("site-0")
        assert "round 1 of 1 done; " in clients.said("site-0")
        assert clients.all_ended() == [0, 0]
    assert server.history[0].selected == [0, 1]


def few_digits(folder: Path) -> Path:
    import numpy as np

    from smofi import data

    source = data.load("digits", max_train=40)
    pixels = source.train.store.inputs[:40]
    path = folder / "few.npz"
    np.savez(path, x=pixels.numpy(), y=source.train.labels[:40].numpy())
    return path
