"""The split executed for real: gradients of the unsplit model, what crosses the cut, and fewer bits on the way."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import smofi
from reference import convnet, federation, perceptron
from smofi.config import Config
from smofi.engine.cohort.wire import COMPRESSIONS
from smofi.models.dropout import Dropout, step_keys
from smofi.seeds import generator

Crossing = tuple[str, int, Tensor]


def unchanged(tensor: Tensor, direction: str, client: int) -> Tensor:
    return tensor


def settings(**changes: Any) -> dict[str, Any]:
    return {"rounds": 2, "participation": 1.0, "local_epochs": 1, "batch_size": 4, "seed": 1, "cut": 1, **changes}


def weights_of(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# ------------------------------------------------------------------------------------------------------- the gradients

CUTS = [(first, last) for first in range(4) for last in range(4 - first)]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_one_clients_gradients_are_those_of_the_unsplit_model(cut: tuple[int, int]) -> None:
    """One step without momentum, with lr = 1, takes the gradient from the weights."""
    model, ((x, y),) = convnet().train(), federation([1, 4, 4], sizes=(6,))
    how = settings(rounds=1, batch_size=6, cut=cut, method="fedavg", optimizer="sgd(lr=1)")
    found = smofi.train(model, [(x, y)], wire=unchanged, **how).model
    loss = cross_entropy(model(x), y)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    for one, before, gradient in zip(found.parameters(), model.parameters(), gradients, strict=True):
        assert (before - one - gradient).abs().max() < 1e-14
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            assert (found.get_buffer(name) - buffer).abs().max() < 1e-14, f"{name} saw the batch not exactly once"


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(inputs, outputs))


def with_frozen_client() -> nn.Sequential:
    model = perceptron()
    model[0].requires_grad_(False)
    return model


def with_shared_module() -> nn.Sequential:
    model, tanh = perceptron(), nn.Tanh()
    return nn.Sequential(model[0][0], tanh, model[1][0], tanh, model[2][0], tanh, model[3])


def with_dropout() -> nn.Sequential:
    blocks = [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3)) for _ in range(3)]
    return nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.3), *blocks, nn.Linear(6, 3)).double()


CARELESS: dict[str, tuple[Callable[[], nn.Sequential], list[Any]]] = {
    "nothing to train on the client": (lambda: nn.Sequential(nn.Flatten(), *perceptron()), [0, 1, (0, 1)]),
    "a client part that is frozen": (with_frozen_client, [0, (0, 1)]),
    "nothing to train on the server": (
        lambda: nn.Sequential(perceptron()[0], nn.Identity(), *perceptron()[1:]), [(0, 3)],
    ),
    "in place": (
        lambda: nn.Sequential(nn.Linear(3, 6), block(6, 6), block(6, 6), block(6, 3)).double(),
        [0, 1, 2, (0, 1), (1, 1)],
    ),
    "a module in several blocks": (with_shared_module, [0, 1, 2, 3, 4, (2, 3)]),
    "dropout on both sides": (with_dropout, [0, 2, 3, (1, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CARELESS)
def test_models_that_a_careless_split_would_break(case: str) -> None:
    """One client, so that every method is a plain training loop, split or not."""
    make, cuts = CARELESS[case]
    torch.manual_seed(0)
    model, clients = make(), federation([3], sizes=(12,))
    unsplit = smofi.train(copy.deepcopy(model), clients, method="fedavg", **settings(cut=cuts[0])).model
    assert (weights_of(unsplit) - weights_of(model)).abs().max() > 1e-3
    for cut in cuts:
        for method in ("fedavg", "mergesfl", "smofi(global_momentum=0)"):
            split = smofi.train(model, clients, method=method, wire=unchanged, **settings(cut=cut)).model
            for name, value in split.state_dict().items():
                assert (value - unsplit.state_dict()[name]).abs().max() < 1e-12, (cut, method, name)


# ------------------------------------------------------------------------------------------------ what crosses the cut


class Scale(nn.Module):
    """Multiplies by one number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(value, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x


def half_square(output: Tensor, target: Tensor) -> Tensor:
    return 0.5 * (output - target).square().mean()


def crossings(method: str, values: tuple[float, ...], cut: Any) -> tuple[list[Crossing], list[Tensor], list[Tensor]]:
    """What crosses in the first step of two clients with batches of 1 and 3 samples, and these samples, in order. The
    prediction is the product of the sample and of a number in each block."""
    calls: list[Crossing] = []

    def listen(tensor: Tensor, direction: str, client: int) -> Tensor:
        assert not tensor.requires_grad, "a graph would pass the cut"
        calls.append((direction, client, tensor.clone()))
        return tensor

    xs = [torch.tensor([1.0] * 3), torch.tensor([2.0, -1.0, 3.0])]
    ys = [torch.tensor([5.0] * 3), torch.tensor([1.0, 0.0, 2.0])]
    data = [(x.double(), y.double()) for x, y in zip(xs, ys, strict=True)]
    smofi.train(
        nn.Sequential(*map(Scale, values)), data, method=f"{method}", speeds=[1, 3], wire=listen, loss=half_square,
        metrics=(), **settings(rounds=1, batch_size=3, cut=cut),
    )  # fmt: skip
    own = [one[2] / values[0] for client in (0, 1) for one in calls if one[0] == "up" and one[1] == client]
    x = [own[0], own[len(own) // 2]]
    y = [torch.full((1,), 5.0).double(), torch.stack([data[1][1][data[1][0].isclose(one)][0] for one in x[1]])]
    return calls, x, y


def test_two_parts_send_activations_up_and_cut_gradients_down() -> None:
    calls, x, y = crossings("mergesfl(steps=1)", (2.0, 0.5), 0)
    assert [(direction, client, len(one)) for direction, client, one in calls] == [
        ("up", 0, 1), ("up", 1, 3), ("down", 0, 1), ("down", 1, 3),
    ]  # fmt: skip
    for i in (0, 1):
        # of the mean over the client's own samples, whatever its share of the merged batch is
        gradient = (0.5 * 2.0 * x[i] - y[i]) * 0.5 / len(x[i])
        assert (calls[2 + i][2] - gradient).abs().max() < 1e-15


def test_the_u_shape_sends_activations_and_gradients_both_ways() -> None:
    a, s, b = 2.0, 0.5, 1.5
    calls, x, y = crossings("mergesfl(steps=1)", (a, s, b), (0, 1))
    for i in (0, 1):
        directions, tensors = zip(*[(way, one) for way, client, one in calls if client == i], strict=True)
        assert directions == ("up", "down", "up", "down")
        error = b * s * a * x[i] - y[i]
        of_output = error * b / 4  # its share B_i / ΣB of the mean over its B_i samples
        of_activation = error * b * s / len(x[i])
        for tensor, expected in zip(tensors, (a * x[i], s * a * x[i], of_output, of_activation), strict=True):
            assert (tensor - expected).abs().max() < 1e-15


@pytest.mark.parametrize("cut", [1, (0, 1), (1, 1)], ids=str)
def test_labels_never_pass_the_wire(cut: Any) -> None:
    """What crosses before the loss is the same whatever the labels are; and nothing that crosses is a label."""
    ((x, y),) = federation([3], sizes=(5,))
    crossed: list[list[Crossing]] = []
    for labels in (y, (y + 1) % 3):
        calls: list[Crossing] = []
        listen = lambda tensor, way, client, calls=calls: calls.append((way, client, tensor.clone())) or tensor  # noqa: E731
        smofi.train(perceptron(), [(x, labels)], wire=listen, **settings(rounds=1, batch_size=5, cut=cut))
        assert [way for way, *_ in calls] == ["up", "down"] * (1 if cut == 1 else 2)
        assert all(tensor.is_floating_point() and tensor.shape == (5, 6) for *_, tensor in calls)
        crossed.append(calls)
    same = [torch.equal(one[2], other[2]) for one, other in zip(*crossed, strict=True)]
    assert same == ([True, False] if cut == 1 else [True, True, False, False])


# ---------------------------------------------------------------------------------------------------------- fewer bits


def own_wire(name: str) -> smofi.Wire:
    """The formula, sample by sample."""

    def wire(tensor: Tensor, direction: str, client: int) -> Tensor:
        if name != "int8":
            return tensor.to({"float16": torch.float16, "bf16": torch.bfloat16}[name]).to(tensor.dtype)
        samples = []
        for sample in tensor:
            step = (sample.abs().amax() / 127).clamp_min(torch.finfo(tensor.dtype).tiny)
            samples.append(torch.round(sample / step).clamp(-127, 127) * step)
        return torch.stack(samples)

    return wire


@pytest.mark.parametrize("cut", [1, (1, 1)], ids=str)
@pytest.mark.parametrize("name", ["float16", "bf16", "int8"])
def test_training_sees_what_arrives(name: str, cut: Any) -> None:
    clients, model = federation([1, 4, 4]), convnet().float()

    def trained(wire: Any, **changes: Any) -> smofi.Result:
        return smofi.train(model, clients, wire=wire, **settings(participation=0.5, seed=3, cut=cut) | changes)

    compressed, plain = trained(name), trained(None)
    assert (weights_of(compressed.model) - weights_of(trained(own_wire(name)).model)).abs().max() < 1e-6
    assert 0 < (weights_of(compressed.model) - weights_of(plain.model)).abs().max() < 0.1
    timing = smofi.Timing("paper", devices=[smofi.Device(1e-3, 1e5, 1e5)] * 6)
    bytes_up, whole = (trained(wire, clock=timing).history[0].bytes_up for wire in (name, None))
    if name == "int8":  # with a float32 for each of the four samples that a message has
        messages = plain.history[0].steps if cut == 1 else [2 * steps for steps in plain.history[0].steps]
        assert bytes_up == [count // 4 + 4 * 4 * sent for count, sent in zip(whole, messages, strict=True)]
    else:
        assert bytes_up == [count // 2 for count in whole]


@pytest.mark.parametrize("method", ["smofi", "sflv2", "mergesfl"])
def test_a_wire_of_ones_own_changes_what_is_learned(method: str) -> None:
    clients = federation([3], sizes=(8, 5))
    plain, same, coarse = (
        weights_of(smofi.train(perceptron(), clients, method=method, wire=wire, **settings()).model)
        for wire in (None, unchanged, lambda tensor, direction, client: (10 * tensor).round() / 10)
    )
    assert (coarse - plain).abs().max() > 1e-3
    assert (same - plain).abs().max() < 1e-12


@pytest.mark.parametrize(("other", "name"), [("fp16", "float16"), ("fp32", None)])
def test_other_names_are_the_same_wire(other: str, name: str | None) -> None:
    assert Config(wire=other).wire == name


FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(), (5,), (0,), (4, 0, 2), (0, 3), (6, 7), (5, 3, 8, 8), (2, 3, 2, 2)]
LIMITS = [65_504.0, 65_519.9, 65_520.0, 3.3895e38, 3.39e38, 3.4e38, 4.3e40, 4.4e40, torch.inf, torch.nan]
"""Where numbers stop to be finite: in float16, in bfloat16, and in float32 with a step of a 127th."""


@given(
    name=st.sampled_from(list(COMPRESSIONS)),
    dtype=st.sampled_from(FLOATS),
    shape=st.sampled_from(SHAPES),
    odd=st.lists(st.tuples(st.integers(0, 500), st.sampled_from(LIMITS) | st.floats()), max_size=3),
    turned=st.booleans(),
)
def test_what_is_packed_is_as_announced_and_what_cannot_be_carried_is_known(
    name: str, dtype: torch.dtype, shape: tuple[int, ...], odd: list[tuple[int, float]], turned: bool
) -> None:
    """Types, shapes, bytes and the order in memory; whether all that is sent is finite; and nothing else is changed."""
    compression = COMPRESSIONS[name]
    scales = torch.logspace(-12, 4, shape[0]) if shape and shape[0] else torch.ones(shape[:1])
    sent = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sent = sent * scales.view(shape[:1] + (1,) * len(shape[1:]))
    for place, number in odd if sent.numel() else []:
        sent.view(-1)[place % sent.numel()] = number
    sent = sent.to(dtype)
    if turned and sent.dim() == 4:
        sent = sent.to(memory_format=torch.channels_last)
    before, parts = sent.clone(), compression.pack(sent)
    assert tuple((part.dtype, tuple(part.shape)) for part in parts) == compression.parts(shape)
    samples = shape[0] if shape else 1
    assert sum(part.nbytes for part in parts) == sent.numel() * compression.width + samples * compression.overhead
    finite = all(bool(torch.isfinite(part).all()) for part in parts if part.is_floating_point())
    assert compression.carries(sent) == finite
    arrived = compression.unpack(parts, dtype)
    assert (arrived.dtype, arrived.shape, arrived.stride()) == (dtype, sent.shape, sent.stride())
    assert arrived.allclose(compression(sent, "down", 0), rtol=0, atol=0, equal_nan=True)
    assert sent.allclose(before, rtol=0, atol=0, equal_nan=True)


# ------------------------------------------------------------------------------------------------------------- dropout


WIDTH, BATCH = 24, 4


class Watch(nn.Module):
    """Passes on what it gets, and keeps which of it is zero."""

    seen: list[tuple[int, Tensor]] = []  # noqa: RUF012  # shared on purpose: models are copied

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.seen.append((self.place, x.detach() == 0))
        return x


def expected_mask(layer: int, client: int, round: int, step: int) -> Tensor:
    """The zeros that dropout leaves, from what its mask is said to depend on and nothing else."""
    noise = int(generator(5, "noise", round, client).integers(2**63, size=2)[step])
    alone = Dropout(0.5)
    alone.layer, alone.keys = layer, step_keys(noise, BATCH)
    return alone(torch.ones(BATCH, WIDTH)) == 0


@pytest.mark.parametrize(
    ("method", "cut", "wire"), [("smofi", 1, None), ("smofi", (0, 1), unchanged), ("mergesfl", 0, None)]
)
def test_masks_follow_from_seed_round_client_step_and_layer(method: str, cut: Any, wire: Any) -> None:
    torch.manual_seed(0)
    layers = [[nn.Linear(size, WIDTH), nn.Dropout(0.5), Watch(place)] for place, size in enumerate((3, WIDTH, WIDTH))]
    model = nn.Sequential(*(nn.Sequential(*one) for one in layers[:2]), nn.Sequential(*layers[2], nn.Linear(WIDTH, 3)))
    data = [(torch.randn(2 * BATCH, 3), torch.arange(2 * BATCH) % 3) for _ in range(3)]
    session = smofi.prepare(model, data, method=method, wire=wire, **settings(batch_size=BATCH, seed=5, cut=cut))
    Watch.seen.clear()
    result = session.train()
    assert type(result.model[0][1]) is nn.Dropout, "users get their own layers"  # type: ignore[index]
    drawn = {layer: torch.cat([zeros for place, zeros in Watch.seen if place == layer]) for layer in range(3)}
    for layer in range(3):
        expected = [
            expected_mask(layer, client, round, step) for round in range(2) for step in range(2) for client in range(3)
        ]
        assert torch.equal(drawn[layer], torch.cat(expected))
