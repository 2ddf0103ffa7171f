"""Costs at the cut against sums by hand, the paper's equation, and the bytes that a wire really sees."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import smofi
from smofi.clock.clock import SentBytes, StepCosts, client_bytes
from smofi.clock.replay import SERVER
from smofi.cut import Cut, CutSpec, parse_cut
from smofi.flat import Layout
from smofi.models import build
from smofi.models.costing import Costs, costs, takes_tokens

DEVICE = smofi.Device(seconds=0.1, up=1000.0, down=4000.0)
SHAPES: dict[str, tuple[int, ...]] = {"cnn": (1, 8, 8), "resnet8": (1, 8, 8), "transformer": (6,)}


def built(name: str) -> nn.Sequential:
    return build(name, seed=0, input_shape=SHAPES[name], classes=5, width=4)


@cache
def whole(name: str) -> Costs:
    model = built(name)
    return costs(model, SHAPES[name], takes_tokens(model))


def at(name: str, cut: CutSpec, per_number: int = 4) -> StepCosts:
    return StepCosts.of(whole(name), one_cut(cut, Layout.of(built(name))), SentBytes(per_number))


def one_cut(cut: CutSpec, layout: Layout) -> Cut:
    (one,) = parse_cut(cut, layout, clients=1).options
    return one


# ------------------------------------------------------------------------------------------------------------ by hand


def test_a_convolutional_network_by_hand() -> None:
    """Of 4 and 8 channels on 8 x 8 pixels, halved by each block, then a layer from 32 to 32 numbers and one to 5."""
    macs = [9 * 4 * 64, 9 * 4 * 8 * 16, 32 * 32, 32 * 5]
    two_parts = at("cnn", 1)
    assert two_parts.front == pytest.approx(sum(macs[:2]) / sum(macs), rel=1e-15)
    assert two_parts.server == pytest.approx(sum(macs[2:]) / sum(macs), rel=1e-15)
    assert (two_parts.back, two_parts.activation, two_parts.output) == (0, 4 * 8 * 2 * 2, 0)
    assert two_parts.crossing == 128
    u_shape = at("cnn", (0, 1), per_number=2)
    assert [u_shape.front, u_shape.server, u_shape.back] == pytest.approx(
        [macs[0] / sum(macs), sum(macs[1:3]) / sum(macs), macs[3] / sum(macs)], rel=1e-15
    )
    assert (u_shape.activation, u_shape.output) == (2 * 4 * 4 * 4, 2 * 32)
    assert u_shape.crossing == 128 + 64


def test_the_legs_of_a_step_in_their_order() -> None:
    """B = 10 samples; a backward pass takes twice as long as a forward pass. A message takes half a round trip longer,
    however short it is; without round trips, there is no such leg."""
    trip = ("latency", 0.04)
    one = StepCosts(front=0.2, server=0.8, back=0.0, activation=40, output=0)
    bent = StepCosts(front=0.2, server=0.5, back=0.3, activation=40, output=20)
    for cut, expected in (
        (one, [("compute", 0.2), ("up", 0.4), trip, (SERVER, 0.24), trip, ("down", 0.1), ("compute", 0.4)]),
        (
            bent,
            [
                *[("compute", 0.2), ("up", 0.4), trip, (SERVER, 0.05), trip, ("down", 0.05)],
                *[("compute", 0.9), ("up", 0.2), trip, (SERVER, 0.1), trip, ("down", 0.1), ("compute", 0.4)],
            ],
        ),
    ):
        for device, legs in ((replace(DEVICE, rtt=0.08), expected), (DEVICE, [leg for leg in expected if leg != trip])):
            found = cut.step(10, device, server=0.01)
            assert [(leg.kind, round(leg.seconds, 12)) for leg in found] == legs


@pytest.mark.parametrize(("name", "cut"), [("cnn", 0), ("resnet8", 1), ("transformer", 2)])
@given(batch=st.integers(1, 512), p=st.floats(1e-4, 10), b=st.floats(1e2, 1e8), fast=st.floats(1, 1000))
@settings(max_examples=10)
def test_a_step_is_the_papers_equation(name: str, cut: int, batch: int, p: float, b: float, fast: float) -> None:
    """t_j = 3 B p_j O(L) + 3 B p_s (1 - O(L)) + 2 B S(L) / b_j"""
    share, server = whole(name).at(cut), p / fast
    expected = 3 * batch * p * share.macs + 3 * batch * server * (1 - share.macs) + 2 * batch * share.bytes / b
    found = sum(leg.seconds for leg in at(name, cut).step(batch, smofi.Device(p, up=b, down=b), server))
    assert found == pytest.approx(expected, rel=1e-12)


# ----------------------------------------------------------------------------------------- bytes that are really sent


def data_for(name: str, dtype: torch.dtype) -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(0)

    def inputs(count: int) -> Tensor:
        if name == "transformer":
            return torch.randint(5, (count, *SHAPES[name]), generator=draw)
        return torch.randn(count, *SHAPES[name], generator=draw, dtype=dtype)

    return [(inputs(count), torch.randint(5, (count,), generator=draw)) for count in (4, 11, 7)]


Bytes = list[list[int]]


def sent(name: str, dtype: torch.dtype = torch.float32, clock: str = "paper", **changes: Any) -> tuple[Bytes, Bytes]:
    """The bytes up and down of each client in a round: as the clock has them, and as the wire saw them."""
    seen: Counter[tuple[int, str]] = Counter()

    def wire(tensor: Tensor, direction: str, client: int) -> Tensor:
        seen[client, direction] += tensor.numel() * tensor.element_size()
        return tensor

    devices = [smofi.Device(0.1, 1e4, 1e4), smofi.Device(0.2, 1e4, 1e4), smofi.Device(0.4, 1e4, 1e4)]
    how: dict[str, Any] = {"rounds": 1, "participation": 1.0, "local_epochs": 2, "batch_size": 4, "cut": 1, **changes}
    timing = smofi.Timing(clock, devices=devices)
    (record,) = smofi.train(built(name).to(dtype), data_for(name, dtype), clock=timing, wire=wire, **how).history
    real = [[seen[client, way] for client in range(3)] for way in ("up", "down")]
    return [record.bytes_up, record.bytes_down], real


@pytest.mark.parametrize(
    ("method", "name", "cut", "precision"),
    [
        ("smofi", "resnet8", (1, 1), "bf16"),
        ("smofi", "transformer", 2, "float32"),
        ("fedavg", "cnn", 0, "float32"),
        ("sflv2", "cnn", (0, 1), "float32"),
        ("mergesfl", "cnn", (0, 1), "float32"),
    ],
)
def test_the_clock_charges_what_crosses_the_cut(method: str, name: str, cut: CutSpec, precision: str) -> None:
    charged, real = sent(name, method=method, cut=cut, precision=precision)
    assert charged == real
    assert min(charged[0]) > 0


def test_numbers_of_another_size_are_charged_as_such() -> None:
    charged, real = sent("cnn", torch.float64)
    assert charged == real == [[2 * n for n in way] for way in sent("cnn")[0]]


# ------------------------------------------------------------------------------------------------------- whole rounds


def floats_of(model: nn.Sequential, blocks: list[int]) -> int:
    """The bytes of the floating-point numbers in some blocks' state."""
    tensors = [tensor for block in blocks for tensor in model[block].state_dict().values()]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.is_floating_point())


@pytest.mark.parametrize(("name", "dtype"), [("resnet8", torch.float32), ("transformer", torch.float64)])
def test_a_client_fetches_and_gives_back_its_part_of_the_model(name: str, dtype: torch.dtype) -> None:
    model = built(name).to(dtype)
    layout, last = Layout.of(model), len(model) - 1
    cases: list[tuple[CutSpec, list[int]]] = [(0, [0]), (1, [0, 1]), ((1, 1), [0, 1, last])]
    for spec, blocks in cases:
        cut = one_cut(spec, layout)
        assert client_bytes(layout, cut) == floats_of(model, blocks)
        parameters = sum(p.numel() * p.element_size() for block in blocks for p in model[block].parameters())
        assert client_bytes(layout, cut, moments=2) == floats_of(model, blocks) + 2 * parameters


@pytest.mark.parametrize(
    ("method", "optimizer", "moments"),
    [
        ("smofi", "sgd(lr=0.01, momentum=0.9)", 0),
        ("fednag", "sgd(lr=0.01, momentum=0.9)", 1),
        ("fednag", "adam(lr=0.01)", 2),
        ("slowmo(1, 0.5)", "adam(lr=0.01)", 0),
    ],
)
def test_the_full_clock_adds_the_clients_part_and_its_carried_momenta(
    method: str, optimizer: str, moments: int
) -> None:
    paper, full = (sent("resnet8", clock=clock, method=method, optimizer=optimizer)[0] for clock in ("paper", "full"))
    model = built("resnet8")
    parameters = sum(4 * p.numel() for block in (0, 1) for p in model[block].parameters())
    weights = floats_of(model, [0, 1]) + moments * parameters
    assert full == [[n + weights for n in way] for way in paper]
