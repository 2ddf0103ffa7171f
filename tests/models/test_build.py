"""What holds for every model of the table."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import smofi
from smofi.cli import main
from smofi.errors import InputError
from smofi.flat import Layout, blocks_of
from smofi.memory import limited
from smofi.models import MODELS, build, options_of
from smofi.models.architectures import groups_for
from smofi.models.costing import takes_tokens

# Small, so that they are quick; densenet's width is twice its growth, the transformer's a multiple of its heads.
WIDTHS = dict.fromkeys(MODELS, 4) | {"transformer": 8}
ONCE = [name for name in MODELS if name not in ("resnet34", "vgg16", "densenet169")]
"""Without those that have only more of the same blocks than others."""


def small(name: str, seed: int = 0, **options: Any) -> nn.Sequential:
    entry = MODELS.get(name, MODELS["cnn"])
    settings = {"input_shape": entry.input_shape, "classes": entry.classes, "width": WIDTHS.get(name), **options}
    return build(name, seed=seed, **settings)


def batch(name: str, size: int = 3) -> Tensor:
    entry, generator = MODELS[name], torch.Generator().manual_seed(0)
    if name == "transformer":
        return torch.randint(entry.classes, (size, *entry.input_shape), generator=generator)
    return torch.randn(size, *entry.input_shape, generator=generator)


@pytest.mark.parametrize("name", MODELS)
def test_it_splits_at_every_block_and_one_step_trains_every_parameter(name: str) -> None:
    model, x = small(name).eval(), batch(name)
    first, *core, last = [block for block, _ in model.named_children()]
    assert (first, last) == ("input", "output")
    assert core == [f"core{number}" for number in range(1, len(core) + 1)]
    assert len(core) >= 2
    assert takes_tokens(model) == (name == "transformer")
    with torch.no_grad():
        whole = y = model(x)
        y = x
        for cut in range(1, len(model)):
            y = blocks_of(model, cut - 1, cut)(y)
            if len(model) < 30 or cut % 20 == 0 or cut == len(model) - 1:  # the deepest would take long
                assert torch.equal(blocks_of(model, cut, len(model))(y), whole)
    sizes = [sum(p.numel() for p in block.parameters()) for block in model]
    assert [high - low for low, high in pairwise(Layout.of(model).parameter_edges)] == sizes
    assert whole.shape == (3, MODELS[name].classes)

    cross_entropy(model.train()(x), torch.tensor([1, 0, 2])).backward()
    before = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    # A bias in front of a BatchNorm changes nothing, so that its gradient is 0 but for rounding.
    idle = {f"{key}.conv.bias" for key, block in model.named_children() if hasattr(block, "norm")}
    assert [key for key, p in model.named_parameters() if torch.equal(p, before[key]) and key not in idle] == []
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())


@pytest.mark.parametrize("name", ONCE)
def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone(name: str) -> None:
    def weights(seed: int) -> Tensor:
        return torch.cat([p.detach().flatten() for p in small(name, seed=seed).parameters()])

    before = torch.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert torch.equal(weights(1), first)
    assert not torch.equal(weights(2), first)


@pytest.mark.parametrize("name", [name for name in ONCE if "norm" in options_of(name)])
def test_group_normalisation_keeps_samples_apart_and_has_no_statistics(name: str) -> None:
    model, x = small(name, norm="group").train(), batch(name)
    assert list(model.buffers()) == []
    with torch.no_grad():
        torch.testing.assert_close(model(x)[:1], model(x[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "resnet8", "vgg11", "mobilenetv2", "densenet121"])
def test_any_number_of_groups_that_divides_the_channels(name: str) -> None:
    """Every layer has as many groups as asked for, and a number that does not divide its channels is refused."""
    width = 32 if name == "mobilenetv2" else 8

    def groups(norm: str) -> list[int]:
        model = small(name, width=width, norm=norm)
        return [one.num_groups for one in model.modules() if isinstance(one, nn.GroupNorm)]

    batch_norms = small(name, width=width, norm="batch").modules()
    channels = [one.num_features for one in batch_norms if isinstance(one, nn.BatchNorm2d)]
    assert groups("group(2)") == [2] * len(channels)
    assert groups("group") == [groups_for(count) for count in channels]
    odd = next(count for count in channels if count % 5)
    wanted = "a number of groups that divides the channels of every layer, but one has"
    with pytest.raises(InputError, match=rf"norm='group\(5\)' is not accepted: expected {wanted} {odd}"):
        groups("group(5)")
    assert [groups_for(c) for c in (1, 2, 3, 4, 6, 8, 10, 12, 16, 17, 64)] == [1, 1, 1, 2, 3, 4, 5, 6, 8, 1, 8]


@pytest.mark.parametrize(
    ("name", "norm", "shape"),
    [("mlp", None, (12,)), ("mobilenetv2", None, (3, 8, 8)), ("densenet121", "group", (3, 8, 8))],
)
def test_a_round_of_smofi(name: str, norm: str | None, shape: tuple[int, ...]) -> None:
    def samples(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, *shape, generator=torch.Generator().manual_seed(size)), torch.arange(size) % 3

    model = build(name, seed=0, input_shape=shape, classes=3, width=4, norm=norm)
    result = smofi.train(
        model, [samples(2), samples(4)], samples(3), optimizer="sgd(lr=0.01, momentum=0.9)", cut=2, rounds=1,
        participation=1.0, local_epochs=1, batch_size=2,
    )  # fmt: skip
    assert result.history[0].steps == [1, 2]
    assert all(bool(tensor.isfinite().all()) for tensor in result.model.state_dict().values())


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("resnet9", {}, "did you mean 'resnet8'"),
        ("python:a:b:c", {}, "model='python:a:b:c' is not accepted"),
        ("resnet8", {"norm": "layer"}, "norm='layer' is not accepted: expected one of batch, group"),
        ("resnet8", {"norm": 2}, 'norm=2 is not accepted: expected a string such as "group'),
        ("resnet8", {"norm": "group(0)"}, r"norm='group\(0\)': n=0 is not accepted: expected a whole number >= 1"),
        ("resnet8", {"norm": "batch(2)"}, r"it is written batch\(\)"),
        ("resnet8", {"width": 0}, "width=0"),
        ("resnet8", {"input_shape": (1, 4, 4)}, "height and width >= 8"),
        ("resnet8", {"input_shape": (1, 8.0, 8)}, "input_shape"),
        ("resnet8", {"seed": -1}, "seed=-1"),
        ("cnn", {"input_shape": (1, 3, 3)}, r"input_shape=\(1, 3, 3\).*>= 4"),
        ("vgg11", {"input_shape": (3, 31, 64)}, r"input_shape=\(3, 31, 64\).*height and width >= 32"),
        ("densenet121", {"width": 1}, "width=1 .* >= 2"),
        ("mobilenetv2", {"classes": 1}, "classes=1"),
        ("transformer", {"width": 6}, "width=6 .* multiple of 4"),
        ("transformer", {"norm": "batch"}, "transformer has no such option"),
        ("transformer", {"input_shape": (1, 8, 8)}, r"\(tokens,\)"),
        ("mlp", {"input_shape": (0,)}, r"input_shape=\(0,\).*>= 1"),
        ("mlp", {"input_shape": 4}, r"input_shape=4 .*\(features,\)"),
    ],
)
def test_bad_settings_are_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        small(name, **options)


@pytest.mark.parametrize(
    ("width", "said"),
    [
        ("200000", "4 copies of 3,280,020,000,010 parameters x 4 bytes = 52,480.3 GB"),
        (str(2**63 - 1), "it would have more than 2^60 parameters"),
    ],
)
def test_a_model_larger_than_memory_is_refused_before_it_is_built(
    width: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--model", "cnn", "--width", width]) == 2
    printed = capsys.readouterr().err
    assert f"width={width} is not accepted: expected a model that fits into the " in printed
    assert printed.endswith(f"but {said}\n")
    with limited("1MB"), pytest.raises(InputError, match=r"^model='mlp' is not accepted: .* memory_limit=1MB leaves"):
        build("mlp", seed=0, input_shape=(10**7,), classes=10)
