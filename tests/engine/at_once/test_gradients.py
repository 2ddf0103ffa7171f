"""Many clients at once: the numbers of the plain loop over the clients, whatever the model is made of."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, mse_loss

from smofi import models
from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.trial import why_not
from smofi.engine.cpu.kernels import convolutions
from smofi.engine.cpu.quicken import quicken
from smofi.flat import Layout, shell
from smofi.models.dropout import Dropout, dropouts, step_keys

CLIENTS, STEPS, LR = 3, 3, 0.02
Loss = Callable[[Tensor, Tensor], Tensor]
Batch = tuple[Tensor, Tensor, Tensor]


@dataclass
class Outcome:
    """Everything that steps of all clients leave behind."""

    weights: Tensor
    statistics: Tensor
    gradients: Tensor
    losses: Tensor

    def gap(self, other: Outcome) -> float:
        """The largest difference, of each of the four relative to its largest number."""
        pairs = [(mine, theirs) for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)]
        return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs if b.numel())


def begin(model: nn.Sequential, clients: int) -> tuple[Layout, Tensor, Tensor]:
    """Rows that differ from client to client."""
    layout = Layout.of(model)
    weights, statistics = layout.pack(model)
    spread = 1 + 0.05 * torch.randn((clients, layout.size), generator=torch.Generator().manual_seed(1))
    return layout, weights * spread.to(weights), statistics.repeat(clients, 1)


def loop(model: nn.Sequential, loss: Loss, batches: list[Batch]) -> Outcome:
    """Each client's own forward and backward pass, one after the other, without oneDNN."""
    clients = len(batches[0][0])
    layout, weights, statistics = begin(model, clients)
    gradients, losses = torch.zeros_like(weights), []
    shells = [shell(model).train() for _ in range(clients)]
    for row, one in enumerate(shells):
        layout.bind(one, weights[row].__getitem__, statistics[row].__getitem__, gradients[row].__getitem__)
    for inputs, targets, keys in batches:
        gradients.zero_()
        for row, one in enumerate(shells):
            for layer in dropouts(one):
                layer.keys = keys[row]
            with convolutions(onednn=False):
                value = loss(one(inputs[row]), targets[row])
                value.backward()
            losses.append(value.detach())
        weights -= LR * gradients
    return Outcome(weights, statistics, gradients, torch.stack(losses))


def at_once(model: nn.Sequential, loss: Loss, batches: list[Batch]) -> Outcome:
    layout, weights, statistics = begin(model, len(batches[0][0]))
    gradients, losses = torch.full_like(weights, torch.nan), []
    many = ClientsAtOnce(model, layout, loss)
    for inputs, targets, keys in batches:
        losses.append(many.backward(weights, statistics, gradients, inputs, targets, keys if dropouts(model) else None))
        weights -= LR * gradients
    return Outcome(weights, statistics, gradients, torch.cat(losses))


def draw(shape: tuple[int, ...], batch: int, classes: int, dtype: torch.dtype = torch.float64) -> list[Batch]:
    """A batch of each client for each step: images channels-last, tokens where there are many classes."""
    generator = torch.Generator().manual_seed(2)
    batches = []
    for step in range(STEPS):
        if len(shape) == 3:
            channels, height, width = shape
            images = torch.randn((CLIENTS, batch, height, width, channels), generator=generator, dtype=dtype)
            inputs = images.permute(0, 1, 4, 2, 3)
        elif classes > 10:
            inputs = torch.randint(classes, (CLIENTS, batch, *shape), generator=generator)
        else:
            inputs = torch.randn((CLIENTS, batch, *shape), generator=generator, dtype=dtype)
        targets = torch.randint(classes, (CLIENTS, batch), generator=generator)
        keys = torch.stack([step_keys(100 * step + client, batch) for client in range(CLIENTS)])
        batches.append((inputs, targets, keys))
    return batches


@pytest.mark.parametrize(
    ("name", "shape", "classes", "options"),
    [
        ("mlp", (6,), 3, {"width": 8}),
        ("cnn", (1, 8, 8), 10, {"width": 4}),
        ("resnet8", (1, 8, 8), 10, {"width": 4}),
        ("resnet8", (3, 8, 8), 10, {"width": 4, "norm": "group"}),
        ("cnn", (1, 8, 8), 10, {"width": 4, "norm": "group(4)"}),
        ("vgg11", (1, 32, 32), 10, {"width": 2}),
        ("mobilenetv2", (1, 16, 16), 10, {"width": 8}),
        ("densenet121", (1, 16, 16), 10, {"width": 4}),
        ("transformer", (6,), 12, {"width": 8}),
    ],
)
def test_every_model_is_as_in_the_loop(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]
) -> None:
    model = models.build(name, seed=0, input_shape=shape, classes=classes, **options).double()
    batches = draw(shape, batch=8, classes=classes)
    dropouts(model)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


def test_odd_numbers_of_channels_are_as_in_the_loop() -> None:
    """Its products of matrices get columns of zeros. A single step: each of the 50 normalised layers magnifies what is
    rounded, and the next step starts from that."""
    model = models.build("mobilenetv2", seed=0, input_shape=(1, 16, 16), classes=10, width=4).double()
    batches = draw((1, 16, 16), batch=7, classes=10)[:1]
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-12


@pytest.mark.parametrize("side", [4, 8])
def test_a_batch_may_be_a_single_sample(side: int) -> None:
    model = models.build("cnn", seed=0, input_shape=(2, side, side), classes=10, width=4).double()
    batches = draw((2, side, side), batch=1, classes=10)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


def test_a_single_client_is_many_enough() -> None:
    model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=4).double()
    batches = [(inputs[:1], targets[:1], keys[:1]) for inputs, targets, keys in draw((1, 8, 8), batch=4, classes=10)]
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


@pytest.mark.parametrize("width", [4, 8])
def test_single_precision_is_as_in_the_loop_and_repeats_in_every_bit(width: int) -> None:
    """Of width 4 the shortcuts are convolutions on which oneDNN would overrun its memory."""
    model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=width)
    batches = draw((1, 8, 8), batch=8, classes=10, dtype=torch.float32)
    first, again = at_once(model, cross_entropy, batches), at_once(model, cross_entropy, batches)
    assert first.gap(loop(model, cross_entropy, batches)) < 1e-4
    for one, other in zip(vars(first).values(), vars(again).values(), strict=True):
        assert torch.equal(one, other)


class Residual(nn.Module):
    """An operation that is no layer: x + F(x), with features joined behind it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x + self.inner(x), x], dim=1)


class Unbatched(nn.Module):
    """Sample by sample, without a dimension of the batch."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.inner(sample) for sample in x])


IMAGE_LAYERS = {
    "bias": nn.Conv2d(4, 4, 3, padding=1),
    "stride, padding and dilation by direction": nn.Conv2d(4, 6, (3, 2), (2, 1), (2, 0), (1, 2), bias=False),
    "groups": nn.Conv2d(4, 8, 3, groups=2),
    "depthwise": nn.Conv2d(4, 4, 3, groups=4),
    "same": nn.Conv2d(4, 4, 3, padding="same"),
    "padding not of zeros": nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
    "pointwise": nn.Conv2d(4, 6, 1),
    "pointwise with strides": nn.Conv2d(4, 6, 1, stride=(2, 3), bias=False),
    "pointwise with padding": nn.Conv2d(4, 6, 1, padding=1),
    "pointwise with groups": nn.Conv2d(4, 4, 1, groups=2),
    "sample by sample": Unbatched(nn.Conv2d(4, 4, 3)),
    "pointwise, sample by sample": Unbatched(nn.Conv2d(4, 4, 1, stride=2)),
    "batch norm": nn.BatchNorm2d(4, momentum=0.3, eps=0.1),
    "batch norm, not affine": nn.BatchNorm2d(4, affine=False),
    "batch norm without statistics": nn.BatchNorm2d(4, track_running_stats=False),
    "group norm": nn.GroupNorm(2, 4, eps=0.1),
    "group norm, not affine": nn.GroupNorm(2, 4, affine=False),
    "instance norm": nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
    "max pool": nn.MaxPool2d(3, 2, padding=1, ceil_mode=True),
    "average pool": nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False),
    "adaptive pool": nn.AdaptiveAvgPool2d((2, 1)),
    "in place": nn.ReLU(inplace=True),
    "residual": Residual(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))),
    "transposed": nn.ConvTranspose2d(4, 3, 2),
    "keyed dropout": Dropout(0.4),
}


@pytest.mark.parametrize("layer", IMAGE_LAYERS.values(), ids=IMAGE_LAYERS)
def test_every_layer_for_images_is_as_in_the_loop(layer: nn.Module) -> None:
    layers = [nn.Conv2d(2, 4, 3, padding=1), layer, nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(3)]
    model = nn.Sequential(*layers).double()
    model(torch.zeros(2, 2, 7, 7, dtype=torch.float64))
    batches = draw((2, 7, 7), batch=5, classes=3)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(6, 4),
        nn.Linear(6, 4, bias=False),
        nn.BatchNorm1d(6),
        nn.LayerNorm(6),
        nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Linear(3, 2), nn.Flatten()),
        Unbatched(nn.Linear(6, 4)),
        nn.Sequential(nn.Unflatten(1, (2, 3)), nn.BatchNorm1d(2), nn.Conv1d(2, 2, 2), nn.Flatten()),
    ],
)
def test_every_layer_for_vectors_is_as_in_the_loop(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(6, 6), layer, nn.LazyLinear(3)).double()
    model(torch.zeros(2, 6, dtype=torch.float64))
    batches = draw((6,), batch=5, classes=3)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


def soft_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Targets that are probabilities."""
    return cross_entropy(outputs, functional.one_hot(targets, 3) * 0.8 + 0.1)


def along_a_sequence(outputs: Tensor, targets: Tensor) -> Tensor:
    """Classes in the second dimension, places in the third."""
    return cross_entropy(torch.stack([outputs, -outputs], dim=2), torch.stack([targets, targets], dim=1))


def ignoring(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets.masked_fill(targets == 1, -100))


@pytest.mark.parametrize(
    "loss",
    [
        soft_cross_entropy,
        along_a_sequence,
        ignoring,
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double()),
        nn.CrossEntropyLoss(label_smoothing=0.1),
        lambda outputs, targets: mse_loss(outputs, targets[:, None].expand(-1, 3).double()),
    ],
)
def test_every_loss_is_as_in_the_loop(loss: Loss) -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    batches = draw((6,), batch=5, classes=3)
    assert at_once(model, loss, batches).gap(loop(model, loss, batches)) < 1e-10


def test_targets_left_out_by_cross_entropy_do_not_count() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3)).double()
    batches = [(x, y.masked_fill(y == 1, -100), keys) for x, y, keys in draw((6,), batch=5, classes=3)]
    assert (batches[0][1] == -100).any()
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


class Scaled(nn.Module):
    """Scaled by a constant, with a parameter that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]), persistent=False)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf, 0.0]))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x * self.scale + self.mask.clamp(min=-1)
        return out


def test_frozen_parameters_constants_and_what_is_not_used() -> None:
    frozen = nn.Sequential(nn.Conv2d(2, 4, 1, stride=2), nn.BatchNorm2d(4), nn.ReLU()).requires_grad_(False)
    layers = [nn.Conv2d(2, 2, 3), frozen, nn.Flatten(), nn.LazyLinear(3), Scaled()]
    model = nn.Sequential(*layers).double()
    model(torch.zeros(2, 2, 7, 7, dtype=torch.float64))
    batches = draw((2, 7, 7), batch=5, classes=3)
    found, expected = at_once(model, cross_entropy, batches), loop(model, cross_entropy, batches)
    finite = expected.statistics.isfinite()
    assert torch.equal(found.statistics[~finite], expected.statistics[~finite])
    found.statistics, expected.statistics = found.statistics[finite], expected.statistics[finite]
    assert found.gap(expected) < 1e-10
    assert (found.gradients[:, -2:] == 0).all()  # `unused`, the last columns


@pytest.mark.parametrize("frozen", ["weight", "bias"])
@pytest.mark.parametrize(
    "layer", [nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 1, stride=2), nn.BatchNorm2d(2), nn.Linear(7, 4)]
)
def test_half_of_a_layer_may_be_frozen(layer: nn.Module, frozen: str) -> None:
    layer = copy.deepcopy(layer)
    getattr(layer, frozen).requires_grad_(False).normal_()
    model = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), layer, nn.Flatten(), nn.LazyLinear(3)).double()
    model(torch.zeros(2, 2, 7, 7, dtype=torch.float64))
    batches = draw((2, 7, 7), batch=5, classes=3)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


class Constant(nn.Module):
    """Adds what a layer makes of an image that is the same for all clients."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("image", torch.arange(98.0).reshape(1, 2, 7, 7).sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x.mean() + self.layer(self.image)
        return out.expand(len(x), *out.shape[1:])


@pytest.mark.parametrize("layer", [nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 1, stride=2), nn.Linear(7, 2), nn.MaxPool2d(2)])
def test_inputs_of_a_layer_may_be_the_same_for_all_clients(layer: nn.Module) -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 3), Constant(layer), nn.Flatten(), nn.LazyLinear(3)).double()
    model(torch.zeros(2, 2, 7, 7, dtype=torch.float64))
    batches = draw((2, 7, 7), batch=5, classes=3)
    assert at_once(model, cross_entropy, batches).gap(loop(model, cross_entropy, batches)) < 1e-10


def test_running_statistics_follow_the_textbook() -> None:
    norm = nn.BatchNorm2d(2, momentum=0.25)
    model = nn.Sequential(norm, nn.Flatten(), nn.Linear(8, 3)).double()
    layout, weights, statistics = begin(model, CLIENTS)
    inputs, targets, _ = draw((2, 2, 2), batch=5, classes=3)[0]
    ClientsAtOnce(model, layout, cross_entropy).backward(
        weights, statistics, torch.empty_like(weights), inputs, targets
    )
    # mean <- 0.75 * 0 + 0.25 * mean; variance <- 0.75 * 1 + 0.25 * the unbiased one
    pixels = inputs.transpose(1, 2).flatten(2)
    expected = torch.cat([0.25 * pixels.mean(2), 0.75 + 0.25 * pixels.var(2)], dim=1)
    assert (statistics - expected).abs().max() < 1e-12


def test_active_clients_are_the_first_rows_and_the_others_stay() -> None:
    model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=4).double()
    layout, weights, statistics = begin(model, CLIENTS)
    inputs, targets, _ = draw((1, 8, 8), batch=4, classes=10)[0]
    many = ClientsAtOnce(model, layout, cross_entropy)
    gradients, changed = torch.zeros_like(weights), statistics.clone()
    losses = many.backward(weights, changed, gradients, inputs, targets)
    some, some_changed = torch.full_like(weights, 7.0), statistics.clone()
    some_losses = many.backward(weights[:2], some_changed[:2], some[:2], inputs[:2], targets[:2])
    assert (some_losses - losses[:2]).abs().max() < 1e-12
    assert (some[:2] - gradients[:2]).abs().max() < 1e-12
    assert (some_changed[:2] - changed[:2]).abs().max() < 1e-12
    assert (some[2] == 7).all()
    assert torch.equal(some_changed[2], statistics[2])


def test_weights_and_the_template_are_left_alone() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3)).double().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    layout, weights, statistics = begin(model, CLIENTS)
    kept = weights.clone()
    inputs, targets, _ = draw((1, 4, 4), batch=4, classes=3)[0]
    ClientsAtOnce(model, layout, cross_entropy).backward(
        weights, statistics, torch.empty_like(weights), inputs, targets
    )
    assert torch.equal(weights, kept)
    assert not weights.requires_grad
    assert not model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model(inputs[0]).shape == (4, 3)
    assert type(model[0]).forward is nn.Conv2d.forward
    assert "forward" not in vars(model[0])


def test_quick_layers_work_in_place_one_by_one_but_not_at_once() -> None:
    model = quicken(nn.Sequential(nn.Sequential(nn.Linear(6, 4), nn.ReLU()), nn.Linear(4, 3)))
    many = ClientsAtOnce(model, Layout.of(model), cross_entropy)
    assert [block.in_place for block in (model[0], many.model[0])] == [True, False]


def test_onednn_is_as_the_caller_had_it() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 3)).double()
    layout, weights, statistics = begin(model, CLIENTS)
    inputs, targets, _ = draw((1, 4, 4), batch=4, classes=3)[0]
    before = torch.backends.mkldnn.enabled
    ClientsAtOnce(model, layout, cross_entropy).backward(
        weights, statistics, torch.empty_like(weights), inputs, targets
    )
    assert torch.backends.mkldnn.enabled == before


class Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Double(torch.autograd.Function):
    """A derivative of one's own, of the kind that knows nothing of vmap."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * gradient


class Remembers(nn.Module):
    """A buffer that is no statistic, as no state dict holds it, and changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.AlphaDropout(0.5), "random operation"),
        (Function(lambda x: x + torch.randn(x.shape)), "random operation"),
        (Function(lambda x: x if x.sum() > 0 else -x), "data-dependent control flow"),
        (Function(lambda x: x * x.max().item()), "item"),
        (Function(Double.apply), "autograd.Function"),
        (Remembers(), "its buffer 1.calls changes"),
        (Function(lambda x: x * random.random()), "the losses of this model's clients are off by"),
        (Function(lambda x: x.float()), "cannot be tried in double precision"),
    ],
)
def test_models_that_cannot_be_computed_at_once_are_told_so(layer: nn.Module, reason: str) -> None:
    model = nn.Sequential(nn.Linear(6, 4), layer, nn.Linear(4, 3))
    sentence = why_not(model, cross_entropy, (torch.randn(8, 6), torch.arange(8) % 3))
    assert sentence is not None
    assert reason in sentence


def test_a_loss_that_cannot_be_computed_at_once_is_told_so() -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]), label_smoothing=0.1)
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    sentence = why_not(model, loss, (torch.randn(8, 6), torch.arange(8) % 3))
    assert sentence is not None
    assert "masked_select" in sentence


def test_models_that_can_be_are_not_and_nothing_is_changed_by_trying() -> None:
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), Dropout(0.5), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)]
    model = nn.Sequential(*layers).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(3)
    sample, state = (torch.randn(8, 1, 8, 8), torch.arange(8) % 3), torch.get_rng_state()
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    assert why_not(model, loss, sample) is None
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert loss.weight is not None
    assert loss.weight.dtype == torch.float32
    assert layers[2].keys is None


def test_dropout_without_keys_is_noticed() -> None:
    model = nn.Sequential(nn.Linear(6, 4), Dropout(0.5), nn.Linear(4, 3)).double()
    layout, weights, statistics = begin(model, CLIENTS)
    inputs, targets, _ = draw((6,), batch=4, classes=3)[0]
    with pytest.raises(RuntimeError, match="random operation"):
        ClientsAtOnce(model, layout, cross_entropy).backward(
            weights, statistics, torch.empty_like(weights), inputs, targets
        )
