"""Numbers that cross the cut with fewer bits: what arrives, and what a run makes of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import smofi
from reference import convnet, federation
from smofi.config import Config
from smofi.config.reading import changed_fields
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
    with pytest.raises(InputError, match="wire='fp8' is not accepted: expected one of fp32, fp16, bf16, int8, float16"):
        trained("fp8")


# ---------------------------------------------------------------------------------------------------- packed, unpacked

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(), (5,), (0,), (4, 0, 2), (0, 3), (6, 7), (5, 3, 8, 8)]


def drawn(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Samples of very different sizes; the first is zero."""
    generator = torch.Generator().manual_seed(len(shape))
    scales = torch.logspace(-12, 4, shape[0]) if shape and shape[0] else torch.ones(shape[:1])
    made = torch.randn(shape, generator=generator) * scales.view(shape[:1] + (1,) * len(shape[1:]))
    if made.dim() > 1 and len(made):
        made[0] = 0
    return made.to(dtype)


def by_formula(name: str, tensor: Tensor) -> Tensor:
    """What arrives, sample by sample."""
    if name != "int8":
        return tensor.to({"float16": torch.float16, "bf16": torch.bfloat16}[name]).to(tensor.dtype)
    samples = []
    for sample in tensor.flatten(1):
        step = (sample.abs().amax() / 127).clamp_min(torch.finfo(tensor.dtype).tiny)
        samples.append(torch.round(sample / step).clamp(-127, 127) * step)
    return torch.stack(samples).view_as(tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_what_arrives_follows_the_formula_to_the_bit(name: str, dtype: torch.dtype) -> None:
    for shape in [(6, 7), (5, 3, 8, 8), (1, 2, 3, 4, 5), (2, 1)]:
        sent = drawn(shape, dtype)
        assert torch.equal(COMPRESSIONS[name](sent, "up", 0), by_formula(name, sent))


def test_a_step_of_int8_is_a_float32_even_in_double_precision() -> None:
    """It costs four bytes; so rounded, it is what numbers are divided by, too."""
    sent = torch.randn(6, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    step = (sent.abs().amax(1, keepdim=True) / 127).float().double()
    assert torch.equal(COMPRESSIONS["int8"](sent, "up", 0), torch.round(sent / step) * step)


def test_the_largest_bfloat16_fits_into_a_byte() -> None:
    """Its step has eight bits, and there can be 128 of them in the largest number: of all such numbers."""
    sent = torch.arange(1, 0x7F80, dtype=torch.int16).view(torch.bfloat16)
    values, steps = COMPRESSIONS["int8"].pack(sent)
    assert (torch.round(sent / steps.bfloat16()) > 127).any()
    assert (values >= 0).all()
    large = sent > 1e-30
    assert ((COMPRESSIONS["int8"](sent, "up", 0) - sent).abs()[large] <= sent[large] / 90).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_what_is_packed_has_the_types_and_shapes_that_were_announced(
    name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    compression, sent = COMPRESSIONS[name], drawn(shape, dtype)
    parts = compression.pack(sent)
    assert tuple((part.dtype, tuple(part.shape)) for part in parts) == compression.parts(shape)
    samples = shape[0] if shape else 1
    assert sum(part.nbytes for part in parts) == sent.numel() * compression.width + samples * compression.overhead
    arrived = compression.unpack(parts, dtype)
    assert (arrived.dtype, arrived.shape) == (dtype, sent.shape)
    assert torch.equal(arrived, compression(sent, "down", 0))


LIMITS = [65_504.0, 65_519.9, 65_520.0, 3.3895e38, 3.39e38, 3.4e38, 4.3e40, 4.4e40, torch.inf, torch.nan]
"""Where numbers stop to be finite: in float16, in bfloat16, and in float32 with a step of a 127th."""


@given(
    name=st.sampled_from(list(COMPRESSIONS)),
    dtype=st.sampled_from(FLOATS),
    shape=st.sampled_from([*SHAPES, (2, 3, 2, 2)]),
    odd=st.lists(st.tuples(st.integers(0, 500), st.sampled_from(LIMITS) | st.floats(), st.booleans()), max_size=3),
    turned=st.booleans(),
)
def test_what_a_wire_carries(
    name: str, dtype: torch.dtype, shape: tuple[int, ...], odd: list[tuple[int, float, bool]], turned: bool
) -> None:
    """It is whether all that is sent is finite, whichever numbers of the batch are the large ones."""
    sent = drawn(shape, torch.float64)
    for place, number, negative in odd if sent.numel() else []:
        sent.view(-1)[place % sent.numel()] = -number if negative else number
    sent = sent.to(dtype)
    if turned and sent.dim() == 4:
        sent = sent.to(memory_format=torch.channels_last)
    parts = COMPRESSIONS[name].pack(sent)
    assert COMPRESSIONS[name].carries(sent) == all(
        bool(torch.isfinite(part).all()) for part in parts if part.is_floating_point()
    )


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_the_order_in_memory_stays(name: str) -> None:
    for sent in (
        torch.randn(4, 3, 5, 6).to(memory_format=torch.channels_last),
        torch.randn(2, 3, 1, 5).permute(3, 1, 2, 0),
    ):
        values, *_ = COMPRESSIONS[name].pack(sent)
        assert values.stride() == COMPRESSIONS[name](sent, "up", 0).stride() == sent.stride()
        assert torch.equal(COMPRESSIONS[name](sent, "up", 0), COMPRESSIONS[name](sent.contiguous(), "up", 0))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_number_that_is_not_finite_arrives_as_one(name: str, value: float) -> None:
    """With int8 its whole sample does, and no other."""
    sent = torch.ones(3, 4)
    sent[1, 2] = value
    arrived = COMPRESSIONS[name](sent, "up", 0)
    assert not arrived[1, 2].isfinite()
    assert arrived[[0, 2]].isfinite().all()
    assert name != "int8" or arrived[1].isnan().all()


def test_what_is_packed_does_not_change_what_was_sent() -> None:
    sent = torch.randn(3, 4, requires_grad=True)
    before = sent.detach().clone()
    for compression in COMPRESSIONS.values():
        assert not compression(sent, "up", 0).requires_grad
    assert torch.equal(sent, before)


@pytest.mark.parametrize(("other", "name"), [("fp16", "float16"), ("fp32", None)])
def test_other_names_are_the_same_wire(other: str, name: str | None) -> None:
    """In Python, in files and flags, and when a run is resumed."""
    assert distance(trained(other).model, trained(name).model) == 0
    assert Config(wire=other).wire == name
    assert changed_fields(Config(wire=name), Config(wire=other)) == []
