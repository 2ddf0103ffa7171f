"""What torch tells about views, hooks and operations, and what happens where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smofi.engine.cpu import private
from smofi.engine.cpu.private import backward, is_view, is_watched, observing
from smofi.engine.cpu.quicken import Quick, quicken
from smofi.engine.cpu.widest import widest_of_batch

WATCHED: dict[str, Callable[[nn.Module], Any]] = {
    "forward": lambda layer: layer.register_forward_hook(print),
    "before forward": lambda layer: layer.register_forward_pre_hook(print),
    "backward": lambda layer: layer.register_full_backward_hook(print),
    "before backward": lambda layer: layer.register_full_backward_pre_hook(print),
}


def block() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Sequential(nn.Linear(5, 7), nn.ReLU()), nn.Linear(7, 2))


def without_views(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(tensor: Tensor) -> None:
        raise AttributeError("_is_view")

    monkeypatch.setattr(torch.Tensor, "_is_view", property(gone))  # deleted it cannot be, as a method of a type in C


def test_what_is_a_view() -> None:
    whole, convolution = torch.zeros(1, 2, 4, 4, requires_grad=True), nn.Conv2d(2, 2, 3)
    assert [is_view(x) for x in (whole, whole * 2, convolution(whole))] == [False, False, False]
    assert [is_view(x) for x in (whole[0], whole.flatten(), convolution(whole[0]))] == [True, True, True]


def test_without_it_no_layer_works_in_place_and_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = quicken(block()), torch.randn(3, 5)
    changed: list[Tensor] = []
    monkeypatch.setattr(torch.Tensor, "relu_", lambda x: changed.append(x) or x.clamp_(min=0))
    expected = model(inputs)
    assert len(changed) == 1
    without_views(monkeypatch)
    assert is_view(torch.zeros(1))
    assert torch.equal(model(inputs), expected)
    assert len(changed) == 1


@pytest.mark.parametrize("kind", WATCHED)
def test_every_kind_of_hook_is_seen(kind: str) -> None:
    layer = nn.Linear(2, 2)
    assert not is_watched(layer)
    handle = WATCHED[kind](layer)
    assert is_watched(layer)
    handle.remove()
    assert not is_watched(layer)


def test_where_hooks_cannot_be_seen_a_model_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(quicken(block())[0]) is Quick
    monkeypatch.setattr(private, "HOOKS", (*private.HOOKS, "_hooks_by_another_name"))
    assert type(quicken(block())[0]) is nn.Sequential


def test_operations_are_observed_even_inside_a_function_of_torchs() -> None:
    attention, x = nn.MultiheadAttention(4, 1, bias=False), torch.randn(9, 1, 4)
    shapes: list[tuple[int, ...]] = []
    with observing(lambda tensors: shapes.extend(tuple(tensor.shape) for tensor in tensors)):
        attention(x, x, x)
    assert (1, 9, 9) in shapes  # who looks at whom, nowhere to be seen from outside


@pytest.mark.parametrize("removed", [False, True], ids=["operations", "functions"])
def test_the_widest_operation_takes_and_gives_most(removed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if removed:
        monkeypatch.delattr("torch.utils._python_dispatch.TorchDispatchMode")
    # inputs 10 x 5, weights 5 x 7, a bias of 7, outputs 10 x 7: more than those of the ReLU and of the last layer
    assert widest_of_batch(block(), torch.zeros(2, 5), samples=10) == 4 * (50 + 35 + 7 + 70)


@pytest.mark.parametrize("removed", [False, True], ids=["directly", "through the tensor"])
def test_a_backward_pass_adds_the_same_gradients(removed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if removed:
        monkeypatch.setattr(private, "_run_backward", None)
    model, inputs = block(), torch.randn(3, 5)
    for _ in range(2):
        model(inputs).square().mean().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    for _ in range(2):
        backward(model(inputs).square().mean())
    assert all(torch.equal(parameter.grad, one) for parameter, one in zip(model.parameters(), expected, strict=True))  # type: ignore[arg-type]


def test_what_cannot_be_a_loss_is_refused_as_torch_does_it() -> None:
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        backward(torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="does not require grad"):
        backward(torch.zeros(()))
