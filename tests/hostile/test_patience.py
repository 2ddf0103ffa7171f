"""Who is dead, and who only computes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from support.chaos import Fleet, Nursery, make_pki, rounds_in, until
from support.network import SERVER, Network, missing
from support.ports import free_port

SETTINGS = ["--data", "digits", "--clients", "2", "--max-train", "64", "--max-test", "20", "--partition", "iid"]
SETTINGS += ["--local-epochs", "1", "--batch-size", "16", "--participation", "1", "--method", "smofi", "--seed", "1"]
MODEL = ["--model", "python:support.sleepy:network"]


@pytest.mark.slow
def test_a_client_that_computes_for_many_keepalives_is_not_dropped(nursery: Nursery, tmp_path: Path) -> None:
    port, pki = free_port(), make_pki(tmp_path / "pki", 2)
    patience = ["--keepalive", "0.3", "--away", "0.5"]
    settings = [*SETTINGS, *MODEL, "--cut", "1", "--rounds", "1"]
    address = f"127.0.0.1:{port}"
    one = Fleet(nursery, pki, tmp_path / "run", settings, 2, address, address, patience=patience)
    one.serve()
    one.join_all(*MODEL, SLEEP="3")
    one.finish(300)
    (line,) = rounds_in(one.output)
    assert json.loads(line)["left_out"] == []
    assert json.loads(line)["seconds"] > 2 * 3  # two steps
    assert "trying again" not in one.joined[0].text()


@pytest.mark.slow
def test_a_client_that_is_gone_without_a_word_is_noticed_within_30_seconds(nursery: Nursery, tmp_path: Path) -> None:
    """Its cable is cut before it is killed, so that nothing tells the server; with all times as they are by default."""
    if why := missing():
        pytest.skip(why)
    port, pki = free_port(), make_pki(tmp_path / "pki", 2, SERVER)
    settings = [*SETTINGS, *MODEL, "--cut", "1", "--rounds", "1"]
    with Network(2) as network:
        place = f"{SERVER}:{port}", f"0.0.0.0:{port}"
        one = Fleet(nursery, pki, tmp_path / "dead", settings, 2, *place, network)
        one.serve()
        one.join_all(*MODEL, SLEEP="1")
        server = one.server
        assert server
        until(lambda: '"selected": [0, 1]' in server.text(), 120, "no round begins with both")
        network.cut(1)
        one.joined[1].kill()
        start = time.monotonic()
        until(lambda: "client-1 is not part of round" in server.text(), 60, "it is not missed")
        seconds = time.monotonic() - start
        del one.joined[1]
        one.finish(120)
    print(f"noticed after {seconds:.1f} s")
    assert seconds < 30
