"""What comes from the other side is on the CPU; each side computes on its own device. Here that is torch's "meta",
which computes shapes alone, and like any other device refuses tensors of the CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from smofi import data
from smofi.engine.plan import ClientPlan
from smofi.engine.remote.device import DeviceRound
from smofi.engine.remote.messages import Activation, Begin, CutGradient, Output, Returned
from smofi.engine.remote.row import RemoteRow
from smofi.serving.offer import Offer
from smofi.serving.participation import Agreed
from smofi.serving.setups import layout_hash, setup_of
from support.deployed import small

META = torch.device("meta")


def a_round(cut: str) -> tuple[DeviceRound, Any]:
    """The first round of a client on another device, and what crosses the cut."""
    source, config = data.load("digits", max_train=40), small(cut=cut)
    layout = setup_of(config, config.build_model(source), torch.device("cpu")).layout
    offer = Offer.of(config, source, layout_hash(layout), "server", 8)
    offer = Offer(offer.settings, offer.task | {"input_shape": list(source.input_shape)}, offer.layout, clients=8)
    agreed = Agreed.of(offer, config, source.train, source.test, META)
    (crossing,) = agreed.crossings.values()
    sizes = crossing.columns.size, crossing.columns.statistics_size, 0
    plan = ClientPlan(seed=0, round=0, client=0, steps=5, batch_size=8)
    return agreed.device.begin(Begin(plan, 0.1, crossing.cut, False, *map(torch.zeros, sizes), ())), crossing


@pytest.mark.parametrize("cut", ["1", "1,1"])
def test_of_a_client(cut: str) -> None:
    own, crossing = a_round(cut)
    assert own.forward().activation.device == META
    if crossing.cut.u_shaped:
        with pytest.raises(RuntimeError, match="meta tensors"):  # a loss without a value: all else has been computed
            own.finish(Output(0, 0, torch.zeros(8, *crossing.output.sizes)))
    own.backward(CutGradient(0, 0, torch.zeros(8, *crossing.activation.sizes)))
    assert own.steps.done == 1


def test_of_the_server() -> None:
    row = SimpleNamespace(device=META, activation=Activation(0, 0, torch.zeros(2, 3), torch.zeros(2)))
    assert [one.device for one in RemoteRow.take_activation(row)] == [META, META]  # type: ignore[arg-type,union-attr]
    output = SimpleNamespace(sizes=(3,), dtype=torch.float32)
    crossing = SimpleNamespace(output=output, setup=SimpleNamespace(layout=SimpleNamespace(dtype=torch.float32)))
    for returned in (Returned(0, 0, 1.5, torch.zeros(2, 3)), None):
        row = SimpleNamespace(device=META, returned=returned, crossing=crossing, plan=SimpleNamespace(batch_size=2))
        assert [one.device for one in RemoteRow.take_returned(row)] == [META, META]  # type: ignore[arg-type]
