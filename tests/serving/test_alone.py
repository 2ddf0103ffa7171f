"""A client alone in its round has numbers that are not finite: the round begins anew with another. The run ends only if
that happens to several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from smofi.config import Config
from smofi.engine.events import Warned
from support.deployed import Clients, Serve, small
from support.ports import free_port

CLASSES = "ab"


def samples(path: Path, scale: float) -> str:
    """A table with 20 samples of each class."""
    draw = np.random.default_rng(0)
    lines = [",".join([*map(str, scale * draw.normal(size=3)), name]) for name in CLASSES * 20]
    path.write_text("\n".join(["one,two,three,label", *lines]) + "\n")
    return f"csv:{path}"


def config_with(data: str) -> Config:
    """One client a round."""
    return small(
        data=data, model="mlp", width=4, cut="0", clients=4, participation=0.25, rounds=6, max_train=None, max_test=None
    )


def run(tmp_path: Path, broken: int) -> tuple[Serve, list[str]]:
    """Of four clients, so many have samples that no float can be computed with."""
    good, bad = samples(tmp_path / "good.csv", 1.0), samples(tmp_path / "bad.csv", 1e37)
    port = free_port()
    with Clients(port, 0) as clients, Serve(config_with(good), tmp_path / "run", port) as server:
        for number in range(4):
            clients.start(number, data=bad if number < broken else good, part=None)
        server.result()
        assert clients.all_ended() == [0] * 4
    return server, [event.message for event in server.events if isinstance(event, Warned)]


def test_another_takes_its_place(tmp_path: Path) -> None:
    server, warnings = run(tmp_path, broken=1)
    assert [record.round for record in server.history] == [1, 2, 3, 4, 5, 6]
    assert not server.results[0].diverged
    selected = {client for record in server.history for client in record.selected}
    assert 0 not in selected
    assert any("client 0 (site-0); the round begins anew with others" in text for text in warnings)


@pytest.mark.filterwarnings("ignore::smofi.errors.TrainingWarning")
def test_a_run_in_which_most_have_diverged_stops(tmp_path: Path) -> None:
    server, warnings = run(tmp_path, broken=4)
    assert server.results[0].diverged
    assert server.history == []
    assert sum("begins anew with others" in text for text in warnings) == 2
    assert "the model is the one after round 0" in str(server.results[0].stopped)
