"""A client's bits, whichever clients share its pass, and how many."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi import models
from smofi.engine.at_once.gradients import ClientsAtOnce
from smofi.engine.at_once.independence import SIZES, first_padding, padding_of
from smofi.engine.at_once.padding import PADDINGS, Padding
from smofi.engine.passes import Cast
from smofi.flat import Layout
from smofi.models.dropout import Dropout, dropouts, step_keys

CLIENTS = 9
BFLOAT16: Cast = partial(torch.autocast, "cpu", torch.bfloat16)


class Clients:
    """Clients with weights, statistics and samples of their own."""

    def __init__(self, model: nn.Sequential, shape: tuple[int, ...], classes: int, batch: int) -> None:
        self.model, self.layout = model, Layout.of(model)
        generator = torch.Generator().manual_seed(1)
        dtype = self.layout.dtype
        weights, statistics = self.layout.pack(model)
        self.weights = weights * (1 + 0.05 * torch.randn((CLIENTS, len(weights)), generator=generator, dtype=dtype))
        spread = torch.rand((CLIENTS, len(statistics)), generator=generator, dtype=dtype)
        self.statistics = statistics + 0.1 * spread
        self.inputs = torch.randn((CLIENTS, batch, *shape), generator=generator, dtype=dtype)
        if classes > 10:
            self.inputs = torch.randint(classes, (CLIENTS, batch, *shape), generator=generator)
        elif len(shape) == 3:  # images are channels-last
            self.inputs = self.inputs.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
        self.targets = torch.randint(classes, (CLIENTS, batch), generator=generator)
        self.keys = torch.stack([step_keys(client, batch) for client in range(CLIENTS)]) if dropouts(model) else None

    @property
    def sample(self) -> tuple[Tensor, Tensor]:
        return self.inputs[0], self.targets[0]

    def together(self, some: slice, padding: Padding, cast: Cast = nullcontext) -> Tensor:
        """What a pass of some of them leaves behind: gradients, statistics and losses, a row per client."""
        many = ClientsAtOnce(self.model, self.layout, cross_entropy, cast, padding)
        statistics, gradients = self.statistics[some].clone(), torch.full_like(self.weights[some], torch.nan)
        keys = None if self.keys is None else self.keys[some]
        losses = many.backward(self.weights[some], statistics, gradients, self.inputs[some], self.targets[some], keys)
        return torch.cat([gradients, statistics, losses[:, None]], dim=1)

    def dependent(self, padding: Padding, cast: Cast = nullcontext) -> list[int]:
        """The sizes of passes in which a client's bits are not those of the pass of all, first and last among all."""
        every = self.together(slice(0, CLIENTS), padding, cast)
        found = []
        for size in range(1, CLIENTS):
            for start in {0, CLIENTS - size}:
                some = slice(start, start + size)
                if not torch.equal(self.together(some, padding, cast), every[some]):
                    found.append(size)
                    break
        return found


def check(clients: Clients, cast: Cast = nullcontext) -> None:
    padding = padding_of(clients.model, cross_entropy, clients.sample, CLIENTS, cast)
    assert padding is not None
    assert clients.dependent(padding, cast) == []


def built(name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any]) -> nn.Sequential:
    return models.build(name, seed=0, input_shape=shape, classes=classes, **options)


SMALL = [
    ("mlp", (6,), 3, {"width": 9}, 7),
    ("cnn", (1, 8, 8), 10, {"width": 5}, 7),
    ("resnet8", (1, 8, 8), 10, {"width": 3}, 5),
    ("resnet8", (1, 8, 8), 10, {"width": 4}, 1),
    ("resnet8", (1, 8, 8), 10, {"width": 4, "norm": "group"}, 3),
    ("transformer", (5,), 12, {"width": 8}, 3),
]


@pytest.mark.parametrize(("name", "shape", "classes", "options", "batch"), SMALL)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
def test_a_client_has_the_same_bits_in_passes_of_all_sizes(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], batch: int, dtype: torch.dtype
) -> None:
    check(Clients(built(name, shape, classes, options).to(dtype), shape, classes, batch))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("resnet18", (3, 8, 8), {"width": 8}),
        ("vgg11", (1, 32, 32), {"width": 2}),
        ("mobilenetv2", (1, 8, 8), {"width": 4}),
        ("densenet121", (1, 8, 8), {"width": 4}),
    ],
)
def test_a_client_of_a_deep_model_has_the_same_bits_in_passes_of_all_sizes(
    name: str, shape: tuple[int, ...], options: dict[str, Any], dtype: torch.dtype
) -> None:
    check(Clients(built(name, shape, 10, options).to(dtype), shape, 10, 3))


@pytest.mark.parametrize(("name", "shape", "classes", "options", "batch"), [SMALL[0], SMALL[1], SMALL[4]])
def test_a_client_has_the_same_bits_in_passes_of_all_sizes_in_bfloat16(
    name: str, shape: tuple[int, ...], classes: int, options: dict[str, Any], batch: int
) -> None:
    check(Clients(built(name, shape, classes, options), shape, classes, batch), BFLOAT16)


@pytest.mark.parametrize("seed", [0, 25, 142, 145])
def test_dropout_and_normalisation_too(seed: int) -> None:
    """With all seeds but the first, two clients round as one does on the first numbers that are tried, by chance."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), Dropout(0.4), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10)]
    clients = Clients(nn.Sequential(*layers), (1, 8, 8), 10, 7)
    assert clients.keys is not None
    check(clients)


def test_without_padding_the_bits_would_differ() -> None:
    """Else nothing above would be tested. Any processor has another kernel for one client, or a tail of a loop."""
    clients = Clients(built("resnet8", (1, 8, 8), 10, {"width": 3}), (1, 8, 8), 10, 5)
    if clients.dependent(PADDINGS[0]):
        assert padding_of(clients.model, cross_entropy, clients.sample, CLIENTS) != PADDINGS[0]
    else:
        pytest.skip("on this processor these bits depend on nothing")


class Shared(nn.Module):
    """Scaled by a number that depends on how many clients there are."""

    def forward(self, x: Tensor) -> Tensor:
        clients = torch._C._functorch._unwrap_batched(x, torch._C._functorch.maybe_current_level())[0].shape[0]
        return x * (1 + 1e-3 * clients)


def test_where_no_padding_helps_there_is_none() -> None:
    model = nn.Sequential(nn.Linear(6, 4), Shared(), nn.Linear(4, 3))
    clients = Clients(model, (6,), 3, 4)
    assert padding_of(model, cross_entropy, clients.sample, CLIENTS) is None
    assert clients.dependent(PADDINGS[-1]) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("expected", PADDINGS)
def test_the_cheapest_padding_is_found(expected: Padding) -> None:
    asked = []

    def bits(width: int) -> Tensor:
        asked.append(width)
        return torch.tensor(0 if width >= expected.least and width % expected.multiple == 0 else width)

    assert first_padding(PADDINGS, [bits], 16) == expected
    assert {expected.width(size) for size in (*SIZES, 16)} <= set(asked)


def test_equal_clients_that_come_out_differently_in_one_pass_rule_out_its_width() -> None:
    assert first_padding(PADDINGS, [lambda width: None if width % 4 else torch.zeros(1)], 16) == Padding(4, 4)
    assert first_padding(PADDINGS, [lambda width: None], 16) is None


def test_no_wider_pass_is_tried_than_there_will_be() -> None:
    asked = []
    first_padding(PADDINGS, [lambda width: asked.append(width) or torch.zeros(1)], 3)
    assert asked == [1, 2, 3]


def test_nothing_is_changed_by_trying() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), Dropout(0.5), nn.Flatten(), nn.Linear(144, 3)).eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    sample = torch.randn(7, 1, 8, 8), torch.arange(7) % 3
    kept, state = sample[0].clone(), torch.get_rng_state()
    assert padding_of(model, cross_entropy, sample) is not None
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(sample[0], kept)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not model.training
