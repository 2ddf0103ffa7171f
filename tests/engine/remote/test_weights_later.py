"""Weight gradients that are computed after the answer: the same bits, later; and never any that are no numbers."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import smofi
from smofi.engine.cpu.kernels import convolutions
from smofi.engine.cpu.quicken import quicken
from smofi.engine.remote.messages import CutGradient, Down
from smofi.engine.remote.row import RemoteRow
from smofi.engine.remote.weights_later import WeightsLater
from smofi.models import build
from support.local_links import LocalLinks, remotely
from support.remote_sessions import exact

IMAGES = ["cnn", "resnet8", "vgg11", "mobilenetv2", "densenet121"]


def gradients(model: nn.Module, x: Tensor, later: WeightsLater | None) -> tuple[list[Tensor], list[Tensor]]:
    """Of the input and all weights: right after the backward pass, and in the end."""
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    inputs = x.clone().requires_grad_()
    context: AbstractContextManager[Any] = later or nullcontext()
    torch.manual_seed(0)  # of dropout
    with context:
        y = model(inputs)
    y.backward(torch.randn_like(y))
    assert inputs.grad is not None
    found = [inputs.grad, *(weight.grad for weight in model.parameters() if weight.grad is not None)]
    before = [one.clone() for one in found]
    if later:
        later.compute()
    return before, found


def compare(model: nn.Module, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Both ways, to the bit; what was there before the weights' turn, and all."""
    _, expected = gradients(copy.deepcopy(model), x, None)
    before, found = gradients(model, x, WeightsLater())
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
    assert torch.equal(before[0], found[0])
    return before[1:], found[1:]


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", IMAGES)
def test_all_models_get_the_same_bits_later(name: str, dtype: torch.dtype, onednn: bool) -> None:
    model = quicken(build(name, seed=0, input_shape=(3, 32, 32), classes=10)).to(dtype).train()
    with convolutions(onednn):
        x = torch.randn(4, 3, 32, 32, dtype=dtype, generator=torch.Generator().manual_seed(1))
        before, found = compare(model[1:], model[0](x).detach())
    waited = [not one.any() and bool(other.any()) for one, other in zip(before, found, strict=True)]
    weights = [one.dim() > 1 for one in found]
    assert [one for one, is_weight in zip(waited, weights, strict=True) if is_weight] == [True] * sum(weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_transformer_gets_the_same_bits_later(dtype: torch.dtype) -> None:
    model = quicken(build("transformer", seed=0, input_shape=(20,), classes=30)).to(dtype).train()
    tokens = torch.arange(80).reshape(4, 20) % 30
    compare(model[1:], model[0](tokens).detach())


class Odd(nn.Module):
    """A weight used three times, padding in words, strides by name, a weight that is computed, one that is fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.often, self.named = nn.Linear(6, 6), nn.Conv1d(2, 2, 3, padding="same")
        self.strided = nn.Conv1d(2, 2, 3, bias=False)
        self.scale, self.fixed = nn.Parameter(torch.ones(1, 6)), nn.Linear(6, 6)
        self.fixed.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.often(self.often(self.often(x)))
        x = functional.conv1d(self.named(x), weight=self.strided.weight, stride=1, padding=(1,))
        return functional.linear(self.fixed(x), self.scale * torch.eye(6))


def test_layers_used_in_unusual_ways_get_the_same_bits() -> None:
    torch.manual_seed(0)
    model = Odd()
    _, found = compare(model, torch.randn(5, 2, 6))
    assert sum(not one.any() for one in found) == 1  # the fixed one


class Unforeseen(nn.Module):
    """Sequences, and a layer without gradients, as in smofi's models there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence, self.image, self.still = nn.Linear(6, 6), nn.Conv2d(1, 1, 3), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.image(self.sequence(x).relu_()[0].unsqueeze(0)).relu_()
        with torch.no_grad():
            offset = self.still(x[0])
        return x + offset


def test_what_is_not_foreseen_is_computed_as_ever() -> None:
    """What an operation in place follows may be a view, whose hooks it would take away."""
    torch.manual_seed(0)
    model = Unforeseen()
    _, found = compare(model, torch.randn(1, 6, 6))
    assert all(one.any() for one in found[:4])


def test_weights_without_room_for_a_gradient_are_not_deferred() -> None:
    layer, later = nn.Linear(2, 2), WeightsLater()
    with later:
        y = layer(torch.ones(1, 2, requires_grad=True))
    y.sum().backward()
    assert layer.weight.grad is not None
    with later, torch.autocast("cpu", torch.bfloat16):
        y = layer(torch.ones(1, 2, requires_grad=True))
    assert y.dtype == torch.bfloat16


def test_what_is_discarded_is_not_computed() -> None:
    layer, later = nn.Linear(2, 2), WeightsLater()
    layer.weight.grad, layer.bias.grad = torch.zeros(2, 2), torch.zeros(2)
    with later:
        y = layer(torch.ones(1, 2, requires_grad=True))
    y.sum().backward()
    later.discard()
    later.compute()
    assert not layer.weight.grad.any()


def watched(links: LocalLinks, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answers, and weight gradients that wait, in order."""
    happened: list[str] = []
    compute, send = RemoteRow.compute_weights, links.send

    def computing(row: RemoteRow) -> bool:
        if row.later._waiting:
            happened.append("weights")
        return compute(row)

    def sending(client: int, message: Down, expected: Any = None) -> None:
        if isinstance(message, CutGradient):
            happened.append("answer")
        send(client, message, expected)

    monkeypatch.setattr(RemoteRow, "compute_weights", computing)
    monkeypatch.setattr(links, "send", sending)
    return happened


def test_a_client_is_answered_first_when_nobody_else_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether somebody waits is random here. While somebody does, no weights come later."""
    session = exact("smofi", rounds=1)
    happened = watched(remotely(session), monkeypatch)
    session.train()
    text = " ".join(happened)
    assert text.startswith("answer")
    assert "answer weights answer" in text
    assert "answer answer" in text
    assert "weights weights" not in text


@pytest.mark.parametrize("method", ["sflv2", "mergesfl"])
def test_clients_of_one_server_model_are_answered_first_always(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = exact(method, rounds=1)
    happened = watched(remotely(session), monkeypatch)
    session.train()
    assert happened[0] == "answer"
    assert happened.count("weights") == "".join(one[0] for one in happened).count("aw")
    assert happened[-1] == "weights"


def test_nothing_comes_later_where_the_norm_goes_with_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    session = exact("fednar(max_norm=0.3)+smofi", rounds=1)
    happened = watched(remotely(session), monkeypatch)
    session.train()
    assert set(happened) == {"answer"}


def test_a_client_whose_weights_gradient_is_no_number_leaves_before_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cut gradient is finite, and sent; the others go on without it."""
    session = exact("smofi", participation=1.0, rounds=1)
    links = remotely(session)
    compute = RemoteRow.compute_weights

    def overflowing(row: RemoteRow) -> bool:
        if row.client == 1 and row.updates == 2:
            row.later._waiting.append(lambda: row.server.columns[0].gradient.fill_(torch.inf))
        return compute(row)

    monkeypatch.setattr(RemoteRow, "compute_weights", overflowing)
    result = session.train()
    assert not result.diverged
    assert links.rested == [(1, "the gradient became larger than 1e+06, or non-finite")]
    assert bool(torch.isfinite(session.run.state.weights).all())


def test_a_client_whose_loss_is_no_number_is_left_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradients are no numbers either; counted twice, it would be most of three clients, and end the run."""
    session = exact("smofi", participation=1.0, rounds=1)
    links = remotely(session)
    count = len(links.clients)
    bad = list(range((count - 1) // 2))
    take = RemoteRow.take_activation

    def overflowing(row: RemoteRow) -> tuple[Tensor, Tensor | None]:
        activation, targets = take(row)
        return (activation * torch.inf if row.client in bad else activation), targets

    monkeypatch.setattr(RemoteRow, "take_activation", overflowing)
    result = session.train()
    assert not result.diverged
    assert sorted(client for client, _ in links.rested) == bad
    assert count // 4 < len(bad)


def test_a_shared_model_whose_gradients_are_no_numbers_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    session = exact("sflv2", rounds=1)
    remotely(session)
    monkeypatch.setattr(RemoteRow, "compute_weights", lambda row: False)
    with pytest.warns(
        smofi.TrainingWarning,
        match=r"most clients have failed \(the gradient became larger than .*the last one in round 1, step",
    ):
        assert session.train().diverged
