"""Served over real sockets to client processes, the numbers are those of a simulation, to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.certificates import make_pki
from support.deployed import deployed, same_bits, simulated, small

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
]
FEW = ["smofi", "fednar(max_norm=0.5)", "fednag", "sflv2", "mergesfl"]
OPTIMIZERS = {
    "sgd": "sgd(lr=0.05)",
    "momentum": "sgd(lr=0.05, momentum=0.9)",
    "nag": "sgd(lr=0.05, momentum=0.9, nesterov=True)",
    "adam": "adam(lr=0.01)",
    "adamw": "adamw(lr=0.01, weight_decay=0.1)",
}
OWN_CUTS = "[0, 1, 2, 1, 0, 2, 1, 0]"
ONE_SERVER = ("sflv2", "mergesfl")
"""Clients that share a server model have the same cut: other cuts are refused, in a simulation as well."""


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
@pytest.mark.parametrize("cut", ["1", "1,1", OWN_CUTS], ids=["two parts", "U shape", "own cuts"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_method_with_every_optimizer_and_cut(tmp_path: Path, optimizer: str, cut: str) -> None:
    methods = [one for one in METHODS if cut != OWN_CUTS or not one.startswith(ONE_SERVER)]
    config = small(method=methods, optimizer=OPTIMIZERS[optimizer], cut=cut)
    same_bits(deployed(config, tmp_path / "run", {"allow_labels": cut != "1,1"}), simulated(config))


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
