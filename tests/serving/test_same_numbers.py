"""Served over real sockets to client processes, the numbers are those of a simulation, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support.certificates import make_pki
from support.deployed import deployed, same_bits, session_of, simulated, small, tensors

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
ONE_SERVER = ("sflv2", "mergesfl")
"""Clients that share a server model have the same cut: other cuts are refused, in a simulation as well."""


def methods_with(cut: str) -> list[str]:
    """All methods that there are with this cut."""
    return [one for one in METHODS if cut != CUTS["own cuts"] or not one.startswith(ONE_SERVER)]


def test_every_method(tmp_path: Path) -> None:
    config = small(method=METHODS, rounds=1)
    same_bits(deployed(config, tmp_path / "run"), simulated(config))


def test_the_u_shape(tmp_path: Path) -> None:
    config = small(method=FEW, cut="1,1", clients=4, participation=0.75, rounds=1)
    same_bits(deployed(config, tmp_path / "run", {"allow_labels": False}), simulated(config))


def test_clients_selected_by_their_classes(tmp_path: Path) -> None:
    """The bandwidth has room for three batches of 8 samples of 64 bytes; whose they are is decided by classes."""
    config = small(method=f"mergesfl(bandwidth={3 * 8 * 64})", clients=6, participation=1.0, rounds=3)
    sessions = simulated(config)
    assert {len(one.selected) for one in sessions[0].run.history} == {3}
    same_bits(deployed(config, tmp_path / "run"), sessions)


def test_adam_where_each_client_has_its_own_cut(tmp_path: Path) -> None:
    config = small(
        method=["smofi", "fednag"],
        optimizer=OPTIMIZERS["adam"],
        cut="[0, 2, 1]",
        clients=3,
        participation=1.0,
        rounds=1,
    )
    same_bits(deployed(config, tmp_path / "run"), simulated(config))


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_method_with_every_optimizer_and_cut(tmp_path: Path, optimizer: str, cut: str) -> None:
    config = small(method=methods_with(cut), optimizer=OPTIMIZERS[optimizer], cut=cut)
    same_bits(deployed(config, tmp_path / "run", {"allow_labels": cut != CUTS["U shape"]}), simulated(config))


DOUBLE = """
import torch
from torch import nn

def network(input_shape, classes, **_):
    torch.manual_seed(3)
    hidden = lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.Tanh())
    first = nn.Sequential(nn.Flatten(), *hidden(torch.Size(input_shape).numel()))
    return nn.Sequential(first, hidden(8), hidden(8), hidden(8), nn.Linear(8, classes)).double()
"""


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_in_double_precision_as_if_not_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, cut: str
) -> None:
    """In float64, to 1e-10: without a wire, the model runs as a whole wherever splitting changes nothing."""
    (tmp_path / "double_precision.py").write_text(DOUBLE)
    monkeypatch.syspath_prepend(tmp_path)
    own = {"model": "python:double_precision:network"}
    config = small(method=methods_with(cut), optimizer=OPTIMIZERS[optimizer], cut=cut, **own)
    joining = {"own": own, "paths": [str(tmp_path)], "allow_labels": cut != CUTS["U shape"]}
    for result, method in zip(deployed(config, tmp_path / "run", joining), config.method, strict=True):
        whole = tensors(session_of(config.model_copy(update={"method": (method,)}), wire=None).train().model)
        found = tensors(result.model)
        assert all(tensor.dtype == torch.float64 for tensor in found.values())
        for name, tensor in whole.items():
            assert abs(found[name] - tensor).max() < 1e-10, f"{method}: {name}"


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"cut": "0-2"}, {"wire": "int8"}, {"wire": "bf16", "cut": "1,1"}], ids=str)
def test_cuts_and_wires(tmp_path: Path, changes: dict[str, str]) -> None:
    config = small(method=FEW, **changes)
    same_bits(deployed(config, tmp_path / "run"), simulated(config))


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["1", "1,1"])
def test_every_method_for_longer(tmp_path: Path, cut: str) -> None:
    config = small(method=METHODS, model="resnet8", width=4, rounds=3, local_epochs=2, cut=cut, augment="crop(1)+flip")
    same_bits(deployed(config, tmp_path / "run"), simulated(config))


def test_with_certificates(tmp_path: Path) -> None:
    config = small(clients=3, participation=1.0, rounds=1)
    pki = make_pki(tmp_path / "pki", *(f"site-{number}" for number in range(3)))
    joining = {"certs": lambda number: pki / f"site-{number}"}
    same_bits(deployed(config, tmp_path / "run", joining, certs=pki / "server"), simulated(config))
