"""The peers do smofi's work: the same models, and a plain loop over what was prepared gives the weights of a run.

python -m pytest benchmarks/peers/test_peers.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import smofi
from smofi.config import Config, read_config

NAMES = ("agree", "models", "plain_loop", "prepare", "table", "watch", "workload")


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The modules of this folder, importable for one test only."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}

    def find(name: str) -> ModuleType:
        return __import__(name)

    yield find
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.mark.parametrize(("name", "shape"), [("cnn", (1, 28, 28)), ("cnn", (1, 8, 8)), ("resnet8", (3, 32, 32))])
def test_models_are_smofis(peers: Any, name: str, shape: tuple[int, ...]) -> None:
    ours = smofi.models.build(name, seed=0, input_shape=shape, classes=10, width=16)
    theirs = peers("models").build(name, shape, 10, 16)
    theirs.load_state_dict(ours.state_dict())
    assert list(theirs.state_dict()) == list(ours.state_dict())
    inputs = torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))
    for model in (ours, theirs):
        model(inputs).square().sum().backward()
    assert torch.equal(ours.eval()(inputs), theirs.eval()(inputs))
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    assert pairs
    assert all(one.grad is not None and one.grad.equal(other.grad) for one, other in pairs)


def test_plain_loop_gives_the_weights_of_a_run(peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**peers("prepare").COMMON, **peers("prepare").WORKLOADS["digits"], "local_epochs": 2, "rounds": 2}
    peers("prepare").write(tmp_path, Config(**settings, optimizer="sgd(lr=0.01, momentum=0.9)"), lr=0.01)
    weights = tmp_path / "plain.safetensors"
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path), "--rounds", "2", "--weights", str(weights)])
    peers("plain_loop").main()
    run = smofi.train(**read_config(tmp_path / "smofi.yaml").arguments(), method="fedavg")
    peers("workload").keep(tmp_path / "smofi.safetensors", run.model.state_dict())
    distance = peers("table").distance
    # one client's samples, or one batch, in another order changes this by 1e-2 and more
    assert distance(tmp_path / "smofi.safetensors", weights, tmp_path / "initial.safetensors") < 1e-4
    assert distance(tmp_path / "initial.safetensors", weights, tmp_path / "initial.safetensors") == 1


def test_what_is_stated_over_seeds(peers: Any, tmp_path: Path) -> None:
    config = peers("prepare").prepare(tmp_path, "digits", None, rounds=2)
    found = peers("agree").compare(tmp_path, config, rounds=2)
    assert found.pop("smofi from plain, float64") < 1e-12
    weights = [value for name, value in found.items() if not name.startswith("points")]
    assert len(weights) == 5
    assert all(0 < value < 0.1 for value in weights)


def test_family_and_memory_of_a_process(peers: Any) -> None:
    said = "print('{\"first_round_at\":', time.time(), '}', flush=True)"
    child = f"import time; held = bytearray(b'x') * 2**26; {said}; time.sleep(1)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    found = peers("watch").run([sys.executable, "-c", parent], {}, memory=True, timeout=60)
    assert 2**26 < found["memory"] < 2**27
    assert found["total"] > found["first_round"] + 1


def test_table_of_two(peers: Any) -> None:
    Measured, table = peers("table").Measured, peers("table").table
    slow, fast = Measured("slow", peer=True, memory=2**21), Measured("fast", peer=False, memory=2**20, distance=1e-6)
    for one, seconds in ((slow, (2.0, 4.0, 6.0)), (fast, (1.0, 1.0, 2.0))):
        for each in seconds:
            one.add(dict(accuracies=[0.1, 0.5], seconds=[9.0, each], memory=None, first_round=3.0, total=10.0))
    assert table([slow, fast]).splitlines()[2:] == [
        "| slow | 4.000 (2.000 to 6.000) | 1.00 | 3.0 | 10.0 | 2 | 0.5000 | 0e+00 |",
        "| fast | 1.000 (1.000 to 2.000) | 3.00 (2.00 to 4.00) | 3.0 | 10.0 | 1 | 0.5000 | 1e-06 |",
    ]
