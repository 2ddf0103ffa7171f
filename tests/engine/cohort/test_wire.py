"""Numbers that cross the cut with fewer bits: what arrives, and what a run makes of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from reference import convnet, federation
from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.errors import InputError

SETTINGS: dict[str, Any] = {"rounds": 2, "participation": 0.5, "local_epochs": 1, "batch_size": 4, "seed": 3}


def trained(wire: Any, cut: Any = 1, **changes: Any) -> smofi.Result:
    clients = federation([1, 4, 4])
    return smofi.train(convnet().float(), clients, wire=wire, cut=cut, **SETTINGS | changes)


def distance(a: nn.Module, b: nn.Module) -> float:
    return max(float((p - q).detach().abs().max()) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(("name", "error"), [("float16", 2**-11), ("bf16", 2**-8), ("int8", 1 / 254)])
def test_what_arrives_is_near_what_was_sent(name: str, error: float) -> None:
    sent = torch.randn(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    arrived = COMPRESSIONS[name](sent, "up", 0)
    largest = sent.flatten(1).abs().amax(1)[:, None, None, None]
    scale = largest if name == "int8" else sent.abs()
    assert arrived.dtype == sent.dtype
    assert ((arrived - sent).abs() <= scale * error * 1.001 + 1e-7).all()
    assert not torch.equal(arrived, sent)


def test_a_sample_of_zeros_stays_zero() -> None:
    for compression in COMPRESSIONS.values():
        assert torch.equal(compression(torch.zeros(2, 7), "down", 0), torch.zeros(2, 7))


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_training_sees_what_arrives(name: str, cut: Any) -> None:
    """The same as a wire of one's own that does it; near the run without, and not the same."""

    def own(tensor: Tensor, direction: str, client: int) -> Tensor:
        if name != "int8":
            return tensor.to({"float16": torch.float16, "bf16": torch.bfloat16}[name]).to(tensor.dtype)
        samples = []
        for sample in tensor:
            step = sample.abs().max() / 127
            samples.append((sample / step).round() * step if step > 0 else sample)
        return torch.stack(samples)

    compressed = trained(name, cut).model
    assert distance(compressed, trained(own, cut).model) < 1e-6
    assert 0 < distance(compressed, trained(None, cut).model) < 0.1


def test_the_clock_charges_fewer_bytes() -> None:
    timing = smofi.Timing("paper", devices=[smofi.Device(1e-3, 1e5, 1e5)] * 6)
    whole, half, also_half, quarter = (
        trained(wire, clock=timing).history[0] for wire in (None, "bf16", "float16", "int8")
    )
    assert half.bytes_up == also_half.bytes_up == [count // 2 for count in whole.bytes_up]
    # int8 sends a float32 with each of the four samples of a step
    own = [count // 4 + 4 * 4 * steps for count, steps in zip(whole.bytes_up, whole.steps, strict=True)]
    assert quarter.bytes_up == quarter.bytes_down == own


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="wire='fp16' is not accepted: expected one of float16, bf16, int8"):
        trained("fp16")
