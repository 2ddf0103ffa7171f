"""Served over real sockets to client processes, the numbers are those of a simulation, to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from support.certificates import make_pki
from support.chaos import Nursery
from support.network import Proxy
from support.served import Served, tensors_of

METHODS = [
    "fedavg",
    "fedprox(mu=0.1)",
    "fednar(max_norm=0.5)",
    "fedavgm(momentum=0.3)",
    "slowmo(lr=1, momentum=0.4, steps=3)",
    "fednag",
    "sflv1(period='step')",
    "sflv1(period='epoch')",
    "sflv2",
    "sflv2(turns='step')",
    "mergesfl",
    "smofi",
    "fednar(max_norm=0.5)+smofi",
    "fednar(max_norm=0.5,scope='part')",
    "smofi+clip(max_norm=0.5)",
]
FEW = ["smofi", "fednar(max_norm=0.5)", "fednag", "sflv2", "mergesfl"]
OPTIMIZERS = {
    "sgd": "sgd(lr=0.05)",
    "momentum": "sgd(lr=0.05, momentum=0.9)",
    "nag": "sgd(lr=0.05, momentum=0.9, nesterov=True)",
    "adam": "adam(lr=0.01)",
    "adamw": "adamw(lr=0.01, weight_decay=0.1)",
}
CUTS = {"two parts": "1", "U shape": "1,1", "own cuts": "[0, 1, 2, 1, 0, 2, 1, 0]"}
LARGER = {"clients": 8, "participation": 0.6, "max_train": 240}


def methods_with(cut: str) -> list[str]:
    """All methods that there are with this cut: clients that share a server model have the same."""
    return [one for one in METHODS if cut != CUTS["own cuts"] or not one.startswith(("sflv2", "mergesfl"))]


CASES: dict[str, dict[str, Any]] = {
    "every method": {"method": METHODS, "rounds": 1, **LARGER},
    "the U shape, without labels": {
        "method": FEW, "cut": "1,1", "participation": 0.75, "rounds": 1, "wire": "int8", "augment": "crop(1)+flip",
        "join": [],
    },
    # the bandwidth has room for three batches of 8 samples of 64 bytes; whose they are is decided by classes
    "clients selected by their classes": {"method": f"mergesfl(bandwidth={3 * 8 * 64})", "clients": 6, "rounds": 3},
    "own cuts with adam, passes in threads": {
        "method": ["smofi", "fednag"], "optimizer": OPTIMIZERS["adam"], "cut": "[0, 2, 1]", "clients": 3, "rounds": 1,
        "workers": 3, "precision": "bf16",
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_bits_of_a_simulation(case: str, nursery: Nursery, tmp_path: Path) -> None:
    with Served(nursery, tmp_path / "run", **CASES[case]) as run:
        run.finish().check_bits()
    if "bandwidth" in str(CASES[case]["method"]):
        assert {len(one["selected"]) for one in run.records()} == {3}


def test_with_certificates(nursery: Nursery, tmp_path: Path) -> None:
    pki = make_pki(tmp_path / "pki", "site-0", "site-1")
    with Served(nursery, tmp_path / "run", pki=pki, clients=2, rounds=1) as run:
        run.finish().check_bits()


def through_a_bad_network(nursery: Nursery, folder: Path, cut_after: int, **settings: Any) -> None:
    """Connections break again and again: nobody is lost for that."""
    with Proxy(0) as proxy:
        run = Served(nursery, folder, clients=4, **settings)
        proxy.target, proxy.cut_after = run.port, cut_after
        run.address = f"localhost:{proxy.port}"
        with run:
            assert run.server
            assert run.server.wait(240) == 0, run.server.text()
            assert proxy.accepted >= 12, "connections were not cut often enough"
            proxy.cut_after = 0
            run.finish().check_bits()


def test_connections_that_are_cut_after_some_bytes(nursery: Nursery, tmp_path: Path) -> None:
    through_a_bad_network(nursery, tmp_path / "run", 10_000)


@pytest.mark.slow
def test_all_kinds_of_methods_with_connections_that_are_cut(nursery: Nursery, tmp_path: Path) -> None:
    through_a_bad_network(nursery, tmp_path / "run", 60_000, method=FEW, cut="1,1")


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_method_with_every_optimizer_and_cut(nursery: Nursery, tmp_path: Path, optimizer: str, cut: str) -> None:
    settings = {"method": methods_with(cut), "optimizer": OPTIMIZERS[optimizer], "cut": cut, **LARGER}
    with Served(nursery, tmp_path / "run", **settings) as run:
        run.finish().check_bits()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"cut": "0-2", "method": FEW}, {"wire": "int8", "method": FEW}, {"wire": "bf16", "cut": "1,1", "method": FEW},
        {"model": "resnet8", "width": 4, "rounds": 3, "local_epochs": 2, "augment": "crop(1)+flip", "method": METHODS},
        {"model": "resnet8", "width": 4, "rounds": 3, "local_epochs": 2, "cut": "1,1", "method": METHODS},
        {"model": "resnet8", "width": 4, "norm": "group(2)", "method": ["smofi", "mergesfl"]},
    ],
    ids=str,
)  # fmt: skip
def test_cuts_wires_and_larger_models(nursery: Nursery, tmp_path: Path, changes: dict[str, Any]) -> None:
    with Served(nursery, tmp_path / "run", **LARGER | changes) as run:
        run.finish().check_bits()


# ------------------------------------------------------------------------------------- a model and method of one's own

MINE = """
import torch
from torch import nn
import smofi

def network(input_shape, classes, **_):
    torch.manual_seed(3)
    hidden = lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh())
    first = nn.Sequential(nn.Flatten(), *hidden(torch.Size(input_shape).numel()))
    return nn.Sequential(first, hidden(8), hidden(8), hidden(8), nn.Linear(8, classes)).double()

def fixed():
    return smofi.methods.parse_method("fedprox(mu=0.2)+smofi")
"""


def in_double_precision(nursery: Nursery, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """In float64, the numbers are also those of the model that is not split, to 1e-10."""
    (folder / "of_this_client.py").write_text(MINE)
    monkeypatch.syspath_prepend(folder)
    own: dict[str, Any] = {"model": "python:of_this_client:network", "environment": {"SMOFI_TESTS_PATH": str(folder)}}
    join = ["--model", own["model"], "--allow-labels"]
    join += ["--method", settings["method"]] if "python" in str(settings["method"]) else []
    with Served(nursery, folder / "run", join=join, **own, **settings) as run:
        run.finish().check_bits()
    for method in run.config().method:
        whole, found = tensors_of(run.simulated(method, split=False).model), run.tensors(method)
        assert {tensor.dtype for tensor in found.values()} == {torch.float64}
        assert [name for name, one in whole.items() if abs(found[name] - one).max() > 1e-10] == [], method


def test_a_model_and_a_method_of_ones_own(nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_double_precision(nursery, tmp_path, monkeypatch, method="python:of_this_client:fixed", clients=2)


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_in_double_precision_as_if_not_split(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, cut: str
) -> None:
    settings = {"method": methods_with(cut), "optimizer": OPTIMIZERS[optimizer], "cut": cut, **LARGER}
    in_double_precision(nursery, tmp_path, monkeypatch, **settings)
