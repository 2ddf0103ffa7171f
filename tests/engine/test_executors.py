"""Clients one by one and many at once: the numbers of a plain loop, whatever the model is made of, and who decides."""

from __future__ import annotations

import ast
import copy
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, one_hot

import smofi
from smofi import models
from smofi.data import batch_order
from smofi.files import sealed, unsealed
from support.processes import ENVIRONMENT, ROOT
from support.sharded import CASES, FAMILIES, family, federation, model, one_server
from support.without_privates import trained as without_privates

SETTINGS: dict[str, Any] = {"rounds": 2, "participation": 0.8, "local_epochs": 1, "batch_size": 4, "seed": 3}
LR, BATCH = 0.02, 5
Loss = Callable[[Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before is not known."""
    monkeypatch.setenv("SMOFI_DATA", str(tmp_path))


def state(net: nn.Module) -> Tensor:
    """Weights and statistics in one vector."""
    return torch.cat([tensor.flatten() for tensor in net.state_dict().values() if tensor.is_floating_point()])


def computed(executor: str, net: nn.Sequential, clients: list[Any], **how: Any) -> tuple[Tensor, str]:
    """What a run leaves behind, its losses too, and how it says that it computed clients."""
    said: list[str] = []
    callback = lambda event: said.append(event.computed) if isinstance(event, smofi.RunStarted) else None  # noqa: E731
    result = smofi.train(net, clients, executor=executor, callback=callback, **SETTINGS | how)
    losses = torch.tensor([record.train_loss for record in result.history], dtype=torch.float64)
    return torch.cat([state(result.model), losses]), said[0]


# ---------------------------------------------------------------------------------------------- layers, by a plain loop


def by_loop(net: nn.Sequential, clients: list[Any], loss: Loss, training: bool = True) -> Tensor:
    """A round of FedAvg: SGD without momentum by hand, client after client, and the mean of them all."""
    total, count = torch.zeros(()), sum(len(x) for x, _ in clients)
    for number, (x, y) in enumerate(clients):
        own = copy.deepcopy(net).train(training)
        steps = len(x) // BATCH
        for rows in batch_order(len(x), BATCH, steps, seed=3, round=0, client=number):
            images = x[torch.as_tensor(rows)]
            if images.dim() == 4:
                images = images.contiguous(memory_format=torch.channels_last)
            own.zero_grad()
            loss(own(images), y[torch.as_tensor(rows)]).backward()
            with torch.no_grad():
                for weight in own.parameters():
                    if weight.grad is not None:
                        weight -= LR * weight.grad
        total = total + len(x) / count * state(own)
    return total


def check(
    net: nn.Sequential, shape: tuple[int, ...], loss: Loss = cross_entropy, executors: Any = ("loop", "vmap")
) -> None:
    net = net.double()
    net(torch.zeros(2, *shape, dtype=torch.float64))  # lazy layers are made
    draw = torch.Generator().manual_seed(2)
    clients = [
        (torch.randn(size, *shape, generator=draw, dtype=torch.float64), torch.randint(3, (size,), generator=draw))
        for size in (10, 10, 15)
    ]
    expected = by_loop(net, clients, loss)
    how = {"optimizer": f"sgd(lr={LR})", "rounds": 1, "participation": 1.0, "batch_size": BATCH, "loss": loss, "cut": 0}
    for executor in executors:
        found, said = computed(executor, net, clients, method="fedavg", **how)
        assert said.startswith("up to 3 clients at once" if executor == "vmap" else "client by client"), said
        largest = expected[expected.isfinite()].abs().max()
        assert (found[:-1] - expected).nan_to_num().abs().max() < 1e-10 * largest
        assert found[:-1].isfinite().equal(expected.isfinite())


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


class Scaled(nn.Module):
    """Scaled by a constant, with a mask of infinities and a parameter that nothing depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None, None], persistent=False)
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf, 0.0, 0.0])[:, None, None])
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x * self.scale + self.mask.clamp(min=-1)
        return out


class Constant(nn.Module):
    """Adds what layers make of an image that is the same for all clients."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1), nn.Linear(7, 7))
        self.register_buffer("image", torch.arange(196.0).reshape(1, 4, 7, 7).sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.layers(self.image)
        return out


class Walker(nn.Module):
    """Walks through its layers one by one, and looks at what each gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.MaxPool2d(2))

    def forward(self, x: Tensor) -> Tensor:
        seen = [self.layers[:2](x)]
        for layer in self.layers:
            x = layer(x)
            seen.append(x)
        return torch.cat([part.flatten(1) for part in seen], 1)[:, :, None, None]


def half_frozen(layer: nn.Module, name: str) -> nn.Module:
    getattr(layer, name).requires_grad_(False).normal_()
    return layer


IMAGES: dict[str, list[nn.Module]] = {
    "convolutions": [
        nn.Conv2d(4, 6, (3, 2), (2, 1), (2, 0), (1, 2), bias=False), nn.Conv2d(6, 8, 3, groups=2, padding=1),
        nn.Conv2d(8, 8, 3, groups=8, padding="same"), nn.Conv2d(8, 4, 3, padding=1, padding_mode="circular"),
    ],
    "pointwise": [
        nn.Conv2d(4, 6, 1), nn.Conv2d(6, 6, 1, padding=1), nn.Conv2d(6, 6, 1, groups=2),
        nn.Conv2d(6, 4, 1, stride=(2, 3), bias=False), nn.ConvTranspose2d(4, 3, 2),
    ],
    "sample by sample": [Unbatched(nn.Conv2d(4, 4, 3)), Unbatched(nn.Conv2d(4, 4, 1, stride=2))],
    "normalisation": [
        nn.BatchNorm2d(4, momentum=0.3, eps=0.1), nn.BatchNorm2d(4, affine=False), nn.GroupNorm(2, 4, eps=0.1),
        nn.BatchNorm2d(4, track_running_stats=False), nn.GroupNorm(2, 4, affine=False),
    ],
    "instances": [nn.InstanceNorm2d(4, affine=True, track_running_stats=True)],
    "pools": [
        nn.MaxPool2d(3, 2, padding=1, ceil_mode=True), nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False),
        nn.AdaptiveAvgPool2d((2, 1)),
    ],
    "conv relu pool": [nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.SiLU(inplace=True)],
    "conv norm relu pool": [nn.Conv2d(4, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)],
    "conv pool relu": [nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.ReLU(inplace=True)],
    "relu first": [nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.ReLU()],
    "nested": [nn.Conv2d(4, 4, 3), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), nn.Sequential(nn.ReLU())],
    "residual": [Residual(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)))],
    "frozen": [nn.Sequential(nn.Conv2d(4, 4, 1, stride=2), nn.BatchNorm2d(4), nn.ReLU()).requires_grad_(False)],
    "half frozen": [
        half_frozen(nn.Conv2d(4, 4, 3), "weight"), half_frozen(nn.Conv2d(4, 4, 1, stride=2), "bias"),
        half_frozen(nn.BatchNorm2d(4), "weight"),
    ],
    "constants and what is not used": [Scaled(), Constant()],
    "a walk": [Walker()],
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_layers_for_images(name: str) -> None:
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
    check(nn.Sequential(first, nn.Sequential(*IMAGES[name]), nn.Flatten(), nn.LazyLinear(3)), (2, 7, 7))


VECTORS: dict[str, list[nn.Module]] = {
    "linear": [nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.BatchNorm1d(6)],
    "rows of rows": [
        nn.Unflatten(1, (2, 3)), nn.Linear(3, 2), nn.ReLU(), nn.BatchNorm1d(2), nn.Conv1d(2, 2, 2), nn.Flatten(),
    ],
    "one dimension": [
        nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(),
    ],
    "sample by sample": [Unbatched(nn.Linear(6, 4)), half_frozen(nn.Linear(4, 4), "weight")],
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_layers_for_vectors(name: str) -> None:
    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(6, 6), nn.Sequential(*VECTORS[name]), nn.LazyLinear(3)), (6,))


LOSSES: dict[str, Loss] = {
    "probabilities": lambda out, y: cross_entropy(out, one_hot(y, 3) * 0.8 + 0.1),
    "a sequence": lambda out, y: cross_entropy(torch.stack([out, -out], dim=2), torch.stack([y, y], dim=1)),
    "some ignored": lambda out, y: cross_entropy(out, y.masked_fill(y == 1, -100)),
    "weighted": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]).double()),
    "smoothed": nn.CrossEntropyLoss(label_smoothing=0.1),
    "squares": lambda out, y: mse_loss(out, y[:, None].expand(-1, 3).double()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    torch.manual_seed(0)
    check(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (6,), LOSSES[name])


def test_a_layer_that_is_watched_gives_what_it_always_gave_and_evaluation_too() -> None:
    """A ReLU neither works in place on it, nor is its normalisation part of a convolution where that would show."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.ReLU(), nn.Flatten()),
        nn.LazyLinear(3),
    ).double()
    x, y = torch.randn(20, 1, 8, 8).double(), torch.arange(20) % 3
    net(x)
    result = smofi.train(net, [(x, y)], (x, y), **SETTINGS | {"participation": 1.0})
    with torch.no_grad():
        assert result.history[-1].loss == pytest.approx(cross_entropy(result.model(x), y).item(), abs=1e-12)
    kept: list[Tensor] = []
    net[0][0].register_forward_hook(lambda module, inputs, output: kept.append(output))
    smofi.train(net, [(x, y)], **SETTINGS | {"participation": 1.0})
    assert bool((kept[-1] < 0).any())


# ---------------------------------------------------------------------------------------- methods, models, and the bits

SEPARATE = [name for name in CASES if not one_server(name)]
FEW_METHODS = ["fedavg", "fednag", 'sflv1("step")', "smofi(alpha=-1)", "fedprox(mu=0.1)+smofi", "smofi(alpha=-0.2)"]


@pytest.mark.parametrize(
    "method", [one if one in FEW_METHODS else pytest.param(one, marks=pytest.mark.slow) for one in SEPARATE]
)
def test_every_method(method: str) -> None:
    clients, _ = federation()
    (one_by_one, _), *others = (
        computed(executor, model(), clients, method=method, **CASES[method])
        for executor in ("loop", "vmap", "vmap(at_least=4)")
    )
    assert all((one_by_one - found).abs().max() < 1e-10 for found, _ in others)
    assert all(said.startswith("up to ") for _, said in others)


@pytest.mark.parametrize(
    "name",
    [one if one in ("resnet8", "transformer") else pytest.param(one, marks=pytest.mark.slow) for one in FAMILIES],
)
def test_every_family_of_models(name: str) -> None:
    net, clients = family(name)
    loop, vmap = (computed(one, net, clients, rounds=1, participation=1.0) for one in ("loop", "vmap"))
    assert vmap[1].startswith("up to 3 clients")
    assert (loop[0] - vmap[0]).abs().max() < 1e-10


def test_an_executor_repeats_its_bits_and_datasets_are_read_at_once_too() -> None:
    clients, _ = federation(torch.float32)
    net = model(torch.float32)
    first, again = (computed("vmap", net, clients)[0] for _ in range(2))
    assert torch.equal(first, again)
    datasets = [torch.utils.data.TensorDataset(*client) for client in clients]
    assert (computed("vmap", net, datasets)[0] - first).abs().max() < 1e-6


@pytest.mark.parametrize("way", ["loop", "vmap"])
def test_mixed_precision_keeps_weights_and_rounds_activations(way: str) -> None:
    clients, _ = federation(torch.float32)
    seen: set[torch.dtype] = set()
    watched = nn.ReLU()
    watched.register_forward_hook(lambda layer, inputs, output: seen.add(output.dtype))
    net = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(16, 8)), watched, nn.Linear(8, 3))
    plain, mixed = (
        smofi.train(net, clients, precision=precision, executor=way, **SETTINGS) for precision in ("float32", "bf16")
    )
    assert seen >= {torch.float32, torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in mixed.model.parameters())
    losses = [[record.train_loss for record in result.history] for result in (plain, mixed)]
    assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.03)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of its own insides
def test_a_compiled_model_gives_the_same_numbers() -> None:
    clients, _ = federation()
    plain, compiled = (computed("loop", model(), clients, compile=flag)[0] for flag in (False, True))
    assert (plain - compiled).abs().max() < 1e-10


def test_a_step_that_failed_leaves_no_gradient_behind() -> None:
    failing = {"once": False}

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        value = cross_entropy(outputs, targets)
        if failing["once"]:
            value.register_hook(fail)
        return value

    def fail(gradient: Tensor) -> Tensor:
        failing["once"] = False
        raise OSError("something went wrong")

    found = []
    for broken in (False, True):
        session = smofi.prepare(model(), federation()[0], loss=loss, **SETTINGS)
        failing["once"] = broken
        if broken:
            with pytest.raises(smofi.SmofiError, match="something went wrong"):
                session.train()
        found.append(state(session.train().model))
    assert torch.equal(*found)


# ------------------------------------------------------------------------------------------------------- who decides


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


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (nn.AlphaDropout(0.5), "random operation"),
        (Function(lambda x: x + torch.randn(x.shape)), "random operation"),
        (Function(lambda x: x if x.sum() > 0 else -x), "data-dependent control flow"),
        (Function(lambda x: x * x.max().item()), "item"),
        (Function(Double.apply), "autograd.Function"),
        (Function(lambda x: x * random.random()), "the losses of this model's clients are off by"),
        (Function(lambda x: x.float()), "cannot be tried in double precision"),
    ],
)
def test_a_model_that_cannot_be_computed_at_once_is_computed_client_by_client(layer: nn.Module, reason: str) -> None:
    clients = [(torch.randn(8, 6), torch.arange(8) % 3)] * 3
    net = nn.Sequential(nn.Linear(6, 4), layer, nn.Linear(4, 3))
    _, said = computed("vmap", net, clients, cut=0, rounds=1)
    assert re.match(rf"client by client \(.*{re.escape(reason)}", said), said


@pytest.mark.parametrize("executor", ["auto", "vmap"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"method": "sflv2"}, "sflv2 has a single server model"),
        ({"wire": lambda tensor, direction, client: tensor}, "a wire needs the split of each client to be executed"),
        ({"diagnose": True}, "diagnose looks at each client on its own"),
    ],
)
def test_what_is_never_computed_at_once_is_said(executor: str, changes: dict[str, Any], why: str) -> None:
    assert computed(executor, model(), federation()[0], rounds=1, **changes)[1] == f"client by client ({why})"


def measured(folder: Path, seconds: list[float]) -> None:
    """As if a client by itself, two at once and all at once had taken so long where this was measured before."""
    smofi.prepare(model(), federation()[0], executor="auto", **SETTINGS)
    (kept,) = (folder / "measured").glob("*.json")
    known = unsealed(kept.read_bytes())
    kept.write_bytes(sealed(known | {"measured": dict(zip(known["measured"], [*seconds, None], strict=True))}))


def test_auto_takes_what_was_faster_and_its_session_says_what_repeats_it(tmp_path: Path) -> None:
    """c clients at once take 3 + c ms, client by client 2 c: at once pays from 3 clients on."""
    clients, _ = federation()
    measured(tmp_path, [0.002, 0.005, 0.009])
    found, said = computed("auto", model(), clients)
    assert re.fullmatch(r"up to 6 clients at once.* \(about 1\.\d times as fast as client by client\)", said), said
    assert smofi.prepare(model(), clients, executor="auto", **SETTINGS).executor == "vmap(at_least=3)"
    assert torch.equal(computed("vmap(at_least=3)", model(), clients)[0], found)
    measured(tmp_path, [0.002, 0.004, 0.012])
    assert computed("auto", model(), clients)[1] == "client by client (many at once would hardly be faster)"
    measured(tmp_path, [0.5, 1e9, 1e9])
    assert "a step takes 500 ms, nearly all of it arithmetic" in computed("auto", model(), clients)[1]


def test_what_was_measured_is_kept_changes_nothing_and_is_measured_anew_if_damaged(tmp_path: Path) -> None:
    clients, _ = federation()
    torch.manual_seed(5)
    first = smofi.prepare(model(), clients, executor="auto", **SETTINGS)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    model()
    assert torch.equal(torch.rand(1), drawn)
    assert all(smofi.prepare(model(), clients, executor="auto", **SETTINGS).executor == first.executor for _ in "ab")
    (kept,) = (tmp_path / "measured").glob("*.json")
    for spoilt in ("{", '{"measured": {"one": 0.1}}'):
        kept.write_text(spoilt)
        smofi.prepare(model(), clients, executor="auto", **SETTINGS)
        assert len(kept.read_text()) > len(spoilt) + 50


# ---------------------------------------------------------------------------------------------- torch's private symbols

INNER = {name for one in (torch.empty(0), nn.Conv2d(1, 1, 1), nn.BatchNorm1d(1)) for name in dir(one)}
INNER -= {"_modules", "_parameters", "_buffers"}  # what every module is made of, in whatever torch


def private_names(source: str) -> Iterator[str]:
    """The names in a program that are private and torch's."""

    def private(name: str) -> bool:
        return name.startswith("_") and not name.startswith("__")

    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and private(node.attr):
            names = [ast.unparse(node)]
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr in INNER and not own:
                yield names[0]
        yield from (name for name in names if name.split(".")[0] == "torch" and any(map(private, name.split("."))))


def test_private_symbols_of_torch_stand_in_a_file_or_two_of_the_engine() -> None:
    source = "import torch._C\nfrom torch.nn import _reduction\ntorch._C._x()\nx._is_view()\nself._is_view\nx._mine"
    assert set(private_names(source)) == {"torch._C", "torch.nn._reduction", "torch._C._x", "x._is_view"}
    found = {path for path in (ROOT / "smofi").rglob("*.py") if any(private_names(path.read_text()))}
    assert 1 <= len(found) <= 2
    assert all(path.is_relative_to(ROOT / "smofi/engine") for path in found), found


@pytest.mark.slow
def test_smofi_trains_without_them_to_the_same_bits(tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "tests/support/without_privates.py")]
    environment = {**ENVIRONMENT, "SMOFI_DATA": str(tmp_path)}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    ways, bits = zip(*json.loads(done.stdout).values(), strict=True)
    assert bits == (without_privates("loop")[1],) * 3
    assert ways[0] == "client by client"
    assert re.match(r"client by client \(clients cannot be computed at once: torch .* has no torch\._C\._func", ways[1])
    assert without_privates("vmap")[0] == "up to 4 clients at once"


@pytest.mark.slow
def test_a_narrow_resnet_trains_without_corrupting_memory() -> None:
    """On some of its convolutions, oneDNN would overrun its memory."""
    code = """
import torch
torch.set_num_threads(1)
from smofi import data, models, train
x, y = data.load("digits").train.tensors()
model = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=10, width=4)
train(model, [(x[:320], y[:320])], rounds=20, participation=1.0, local_epochs=2, batch_size=16)
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_settings_of_torch_are_as_the_caller_had_them() -> None:
    """The kernels of convolutions are chosen for each pass, here those that oneDNN cannot compute safely."""
    net = models.build("resnet8", seed=0, input_shape=(1, 8, 8), classes=3, width=4)
    before = torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic, torch.get_num_threads()
    clients = [(torch.randn(8, 1, 8, 8), torch.arange(8) % 3)] * 2
    for executor in ("loop", "vmap"):
        smofi.train(net, clients, executor=executor, **SETTINGS)
    assert (torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic, torch.get_num_threads()) == before
