"""Quicker layers: the numbers of the plain ones, with less work."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils._python_dispatch import TorchDispatchMode

from smofi import models, prepare
from smofi.engine.cpu.quicken import Quick, quicken
from smofi.flat import shell

IMAGES, SIGNALS, ROWS = (4, 3, 9, 9), (4, 3, 9), (4, 5)
BLOCKS: dict[str, tuple[tuple[int, ...], Callable[[], list[nn.Module]]]] = {
    "conv relu pool": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)]),
    "padded pool": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)]),
    "norm relu pool": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]),
    "circular": (IMAGES, lambda: [nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.BatchNorm2d(4)]),
    "no bias": (IMAGES, lambda: [nn.Conv2d(3, 4, 3, padding="same", bias=False), nn.BatchNorm2d(4), nn.ReLU()]),
    "in place after pool": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.SiLU(inplace=True)]),
    "pool relu": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 2, 1)]),
    "relu first": (IMAGES, lambda: [nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU()]),
    "two poolings": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.MaxPool2d(2)]),
    "one dimension": (SIGNALS, lambda: [nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2), nn.ReLU()]),
    "no batch": (IMAGES[1:], lambda: [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)]),
    "rows": (ROWS, lambda: [nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2), nn.LayerNorm(2), nn.ReLU()]),
    "rows of rows": (SIGNALS, lambda: [nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2)]),
    "nested": (IMAGES, lambda: [nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), nn.ReLU()]),
}


def pair(block: list[nn.Module]) -> tuple[nn.Sequential, nn.Sequential]:
    """A model whose first block this is, plain and quick, with running statistics that are not trivial."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Sequential(*block), nn.Flatten(0)).double()
    for name, buffer in plain.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 2.0)
    return plain, quicken(copy.deepcopy(plain))


def gradients(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    """The output, and the gradients of the input and of all parameters."""
    leaf = inputs.clone().requires_grad_()
    output = model(leaf * 1.0)
    weights = torch.randn(output.shape, dtype=output.dtype, generator=torch.Generator().manual_seed(1))
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), [leaf, *model.parameters()])]


class Seen(TorchDispatchMode):
    """The operations that are computed, and of how many numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations.append((func.overloadpacket.__name__, out.numel() if isinstance(out, Tensor) else 0))
        return out


@pytest.mark.parametrize("whole_numbers", [False, True], ids=["", "with ties"])
@pytest.mark.parametrize("name", BLOCKS)
def test_outputs_and_gradients_are_the_same_to_the_last_bit(name: str, whole_numbers: bool) -> None:
    shape, block = BLOCKS[name]
    plain, quick = pair(block())
    inputs = torch.randn(shape, dtype=torch.float64)
    if whole_numbers:  # many equal numbers, and zeros, in one window
        inputs = inputs.round()
        for parameter in [*plain.parameters(), *quick.parameters()]:
            parameter.data = (parameter.data * 3).round()
    for expected, found in zip(gradients(plain, inputs), gradients(quick, inputs), strict=True):
        assert torch.equal(expected, found)


@pytest.mark.parametrize("name", ["cnn", "vgg11", "resnet8", "mobilenetv2"])
def test_a_training_step_of_our_models_is_the_same_to_the_last_bit(name: str) -> None:
    plain = models.build(name, seed=0, input_shape=(3, 32, 32), classes=4, width=4).double().train()
    quick = quicken(copy.deepcopy(plain))
    inputs = torch.randn(4, 3, 32, 32, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    assert any(isinstance(module, Quick) for module in quick.modules())
    for expected, found in zip(gradients(plain, inputs), gradients(quick, inputs), strict=True):
        assert torch.equal(expected, found)
    statistics = {key: value for key, value in plain.state_dict().items() if "num_batches" not in key}
    assert quick.state_dict().keys() == statistics.keys()
    assert all(torch.equal(quick.state_dict()[key], value) for key, value in statistics.items())


@pytest.mark.parametrize("name", BLOCKS)
def test_evaluation_is_the_same_up_to_rounding(name: str) -> None:
    shape, block = BLOCKS[name]
    plain, quick = (model.eval() for model in pair(block()))
    inputs = torch.randn(shape, dtype=torch.float64)
    with torch.inference_mode():
        torch.testing.assert_close(quick(inputs), plain(inputs), rtol=1e-12, atol=1e-12)


def test_a_relu_before_a_pooling_is_computed_on_what_the_pooling_leaves() -> None:
    _, quick = pair([nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)])
    with Seen() as seen:
        quick(torch.randn(1, 3, 8, 8, dtype=torch.float64))
    assert ("threshold", 4 * 4 * 4) in seen.operations
    assert not any(name.startswith(("relu", "clamp")) for name, _ in seen.operations)


def test_a_relu_works_in_place_only_on_what_a_layer_has_just_written() -> None:
    _, quick = pair([nn.ReLU(), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ReLU()])
    inputs = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    before = inputs.clone()
    with Seen() as seen:
        quick(inputs)
    assert [name for name, _ in seen.operations if name.startswith("relu")] == ["relu", "relu_", "relu"]
    assert torch.equal(inputs, before)


def test_a_normalisation_is_part_of_its_convolution_in_evaluation_and_only_there() -> None:
    _, quick = pair([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()])
    inputs = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    with Seen() as training:
        quick(inputs)
    with Seen() as evaluation, torch.no_grad():
        quick.eval()(inputs)
    assert [any("batch_norm" in name for name, _ in seen.operations) for seen in (training, evaluation)] == [
        True,
        False,
    ]


def test_a_normalisation_without_running_statistics_stays_one_in_evaluation() -> None:
    plain, quick = (model.eval() for model in pair([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)]))
    inputs = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        assert torch.equal(quick(inputs), plain(inputs))


def test_a_window_of_padding_alone_stays_minus_infinity() -> None:
    plain, quick = pair([nn.ReLU(), nn.MaxPool2d(2, padding=1, dilation=3)])
    image = torch.ones(1, 1, 2, 2, dtype=torch.float64)  # the only window sees places -1 and 2
    assert plain(image).tolist() == quick(image).tolist() == [-torch.inf]


def test_a_layer_that_is_watched_gives_what_it_always_gave() -> None:
    plain, _ = pair([nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)])
    kept: list[Tensor] = []
    plain[0][0].register_forward_hook(lambda module, inputs, output: kept.append(output))
    quick = quicken(plain)
    quick(torch.randn(1, 3, 8, 8, dtype=torch.float64))
    assert type(quick[0]) is nn.Sequential
    assert bool((kept[0] < 0).any())


def test_a_model_that_walks_through_its_layers_finds_them_as_they_were() -> None:
    class Walker(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2))

        def forward(self, x: Tensor) -> Tensor:
            seen = [self.layers[:2](x)]
            for layer in self.layers:
                x = layer(x)
                seen.append(x)
            return torch.cat([part.flatten(1) for part in seen], 1)

    plain, quick = pair([Walker()])
    inputs = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    for expected, found in zip(gradients(plain, inputs), gradients(quick, inputs), strict=True):
        assert torch.equal(expected, found)


def test_what_passes_from_block_to_block_stays_as_it_is() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    quick = quicken(copy.deepcopy(plain))
    x = y = torch.randn(2, 3, 8, 8)
    for one, other in zip(plain, quick, strict=True):
        x, y = one(x), other(y)
        assert torch.equal(x, y)


def test_a_copy_of_a_quick_model_is_quick_and_has_layers_of_its_own() -> None:
    _, quick = pair([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()])
    copied = shell(quick)
    assert type(copied[0]) is Quick
    assert copied[0][0] is not quick[0][0]


@pytest.mark.parametrize("watch", [lambda block: block[0].register_forward_hook, register_module_forward_hook])
def test_a_hook_that_comes_later_sees_its_layer_as_long_as_it_is_there(watch: Any) -> None:
    plain, quick = pair([nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)])
    inputs = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    assert torch.equal(quick(inputs), plain(inputs))
    seen: list[nn.Module] = []
    register = watch if watch is register_module_forward_hook else watch(quick[0])
    handle = register(lambda module, inputs, output: seen.append(module))
    assert torch.equal(quick(inputs), plain(inputs))
    assert seen.count(quick[0][0]) == 1
    handle.remove()
    quick(inputs)
    assert seen.count(quick[0][0]) == 1


def test_layers_and_weights_exchanged_later_are_those_that_compute() -> None:
    plain, quick = pair([nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)])
    inputs = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    quick(inputs)
    for model in plain, quick:
        model[0][0].weight = nn.Parameter(torch.ones_like(plain[0][0].weight))
        model[0][2] = nn.AvgPool2d(3)
    assert torch.equal(quick(inputs), plain(inputs))


def test_a_copy_that_has_been_used_computes_with_its_own_weights() -> None:
    _, quick = pair([nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2)])
    inputs = torch.randn(1, 3, 8, 8, dtype=torch.float64)
    before = quick(inputs)
    copies = copy.deepcopy(quick), shell(quick)
    for one in copies:
        for parameter in one.parameters():
            parameter.data = torch.zeros_like(parameter)
        assert not one(inputs).any()
    assert torch.equal(quick(inputs), before)


def test_a_quick_model_compiles_in_one_piece() -> None:
    plain, quick = pair([nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)])
    inputs = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    compiled = torch.compile(quick, backend="eager", fullgraph=True)
    assert torch.equal(compiled(inputs), plain(inputs))


def test_a_round_computes_with_a_quick_model_and_returns_one_as_it_was_given() -> None:
    model = models.build("cnn", seed=0, input_shape=(1, 8, 8), classes=2, width=2)
    session = prepare(model, [(torch.randn(8, 1, 8, 8), torch.arange(8) % 2)], participation=1.0, batch_size=4)
    assert [type(block) for block in session.run.simulation.setup.template] == [Quick] * 4
    assert [type(block) for block in session.result().model] == [type(block) for block in model] == [nn.Sequential] * 4
