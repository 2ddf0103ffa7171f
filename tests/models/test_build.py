"""What holds for every model of the table."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from smofi.errors import InputError
from smofi.flat import Layout, blocks_of
from smofi.models import MODELS, build, check_model_name, options_of
from smofi.models.costs import takes_tokens
from smofi.models.layers import groups_for, normalisation

# Small, so that they are quick; densenet's width is twice its growth, the transformer's a multiple of its heads.
WIDTHS = dict.fromkeys(MODELS, 4) | {"transformer": 8}
NORMED = [name for name in MODELS if "norm" in options_of(name)]

# For 3 channels and 10 classes, as published for these forms on CIFAR-10; MobileNetV2's is torchvision's for 1,000
# classes with the last layer, 1,281 parameters for a class, cut down to 10.
PUBLISHED = {
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "vgg11": 9_231_114,
    "vgg16": 14_728_266,
    "mobilenetv2": 3_504_872 - 990 * 1_281,
    "densenet121": 6_956_298,
    "densenet169": 12_493_322,
}


def small(name: str, seed: int = 0, **options: Any) -> nn.Sequential:
    entry = MODELS[name]
    settings = {"input_shape": entry.input_shape, "classes": entry.classes, "width": WIDTHS[name], **options}
    return build(name, seed=seed, **settings)


def batch(name: str, size: int = 3) -> Tensor:
    entry, generator = MODELS[name], torch.Generator().manual_seed(0)
    if takes_tokens(small(name)):
        return torch.randint(entry.classes, (size, *entry.input_shape), generator=generator)
    return torch.randn(size, *entry.input_shape, generator=generator)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_number_of_parameters_is_the_published_one(name: str) -> None:
    with torch.device("meta"):
        model = build(name, seed=0, input_shape=(3, 32, 32), classes=10)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]


@pytest.mark.parametrize("name", MODELS)
def test_blocks_are_named_by_their_place(name: str) -> None:
    first, *core, last = [block for block, _ in small(name).named_children()]
    assert (first, last) == ("input", "output")
    assert core == [f"core{number}" for number in range(1, len(core) + 1)]
    assert len(core) >= 2


@pytest.mark.parametrize("name", MODELS)
def test_one_step_trains_every_parameter(name: str) -> None:
    model = small(name).train()
    x, y = batch(name), torch.tensor([1, 0, 2])
    cross_entropy(model(x), y).backward()
    before = {key: parameter.detach().clone() for key, parameter in model.named_parameters()}
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    # A bias in front of a BatchNorm changes nothing, so that its gradient is 0 but for rounding.
    idle = {f"{key}.conv.bias" for key, block in model.named_children() if hasattr(block, "norm")}
    assert [key for key, p in model.named_parameters() if torch.equal(p, before[key]) and key not in idle] == []
    loss = cross_entropy(model(x), y)
    assert bool(loss.isfinite())


@pytest.mark.parametrize("name", MODELS)
def test_it_splits_at_every_block(name: str) -> None:
    model, x = small(name).eval(), batch(name)
    with torch.no_grad():
        whole = model(x)
        for cut in range(1, len(model)):
            x = blocks_of(model, cut - 1, cut)(x)
            if len(model) < 30 or cut % 20 == 0 or cut == len(model) - 1:  # the deepest would take long
                assert torch.equal(blocks_of(model, cut, len(model))(x), whole)
    layout = Layout.of(model)
    sizes = [sum(p.numel() for p in block.parameters()) for block in model]
    assert [high - low for low, high in pairwise(layout.parameter_edges)] == sizes
    assert whole.shape == (3, MODELS[name].classes)


@pytest.mark.parametrize("name", NORMED)
def test_group_normalisation_has_no_running_statistics(name: str) -> None:
    assert list(small(name, norm="group").buffers()) == []
    running = [key for key, _ in small(name, norm="batch").named_buffers()]
    normed = small(name, norm="batch").modules()
    assert len(running) == 3 * sum(isinstance(module, nn.BatchNorm2d) for module in normed) > 0


@pytest.mark.parametrize("name", NORMED)
def test_group_normalisation_keeps_samples_apart(name: str) -> None:
    model, x = small(name, norm="group").train(), batch(name)
    with torch.no_grad():
        torch.testing.assert_close(model(x)[:1], model(x[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cnn", "resnet8", "vgg11", "mobilenetv2", "densenet121"])
def test_any_number_of_groups_that_divides_the_channels(name: str) -> None:
    """Every layer has as many groups as asked for, and a number that does not divide its channels is refused."""
    width = 32 if name == "mobilenetv2" else 8
    with torch.device("meta"):
        groups = [one.num_groups for one in small(name, width=width, norm="group(2)").modules() if _is_group(one)]
        expected = [one for one in small(name, width=width, norm="batch").modules() if isinstance(one, nn.BatchNorm2d)]
        assert groups == [2] * len(expected)
        own = [one.num_groups for one in small(name, width=width, norm="group").modules() if _is_group(one)]
        assert own == [groups_for(one.num_features) for one in expected]
        odd = next(one.num_features for one in expected if one.num_features % 5)
        wanted = "a number of groups that divides the channels of every layer, but one has"
        with pytest.raises(InputError, match=rf"norm='group\(5\)' is not accepted: expected {wanted} {odd}"):
            small(name, width=width, norm="group(5)")


def test_groups_are_normalised_each_by_itself() -> None:
    """(x - mean) / sqrt(variance + eps), over the channels of a group and the whole image."""
    x = torch.randn(3, 6, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    out = normalisation("group(3)", 6).double()(x)
    for group in (slice(0, 2), slice(2, 4), slice(4, 6)):
        for sample in range(3):
            part = x[sample, group]
            expected = (part - part.mean()) / (part.var(unbiased=False) + 1e-5).sqrt()
            torch.testing.assert_close(out[sample, group], expected)


def _is_group(module: Any) -> bool:
    return isinstance(module, nn.GroupNorm)


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_fixes_the_weights_and_leaves_the_global_generator_alone(name: str) -> None:
    def weights(seed: int) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in small(name, seed=seed).parameters()])

    before = torch.get_rng_state()
    first = weights(1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    assert torch.equal(weights(1), first)
    assert not torch.equal(weights(2), first)


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if len(entry.input_shape) == 3])
@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 49, 40), (2, 33, 47)])
def test_images_may_have_any_sensible_size(name: str, shape: tuple[int, int, int]) -> None:
    model = small(name, input_shape=shape, classes=7).eval()
    with torch.no_grad():
        outputs = model(torch.randn(2, *shape))
    assert outputs.shape == (2, 7)
    assert bool(outputs.isfinite().all())


@pytest.mark.parametrize("name", [name for name, entry in MODELS.items() if len(entry.input_shape) == 3])
def test_channels_last_images_give_the_same(name: str) -> None:
    model, x = small(name).eval(), batch(name)
    with torch.no_grad():
        plain = model(x)
        last = model.to(memory_format=torch.channels_last)(x.contiguous(memory_format=torch.channels_last))
    torch.testing.assert_close(last, plain, rtol=1e-4, atol=1e-5)


def test_names_and_options() -> None:
    assert [check_model_name(name) for name in ("vgg11", "python:a.b:c")] == ["vgg11", "python:a.b:c"]
    assert options_of("transformer") == ("width",)
    assert options_of("python:a:b") == options_of("vgg11") == ("width", "norm")
    for wrong in ("vgg12", "python:", "python:a", "python:a:b:c", "python:a b:c", "python:.a:b", "python:a:1", None, 3):
        with pytest.raises(InputError, match="model="):
            check_model_name(wrong)
    with pytest.raises(InputError, match="did you mean 'mobilenetv2'"):
        check_model_name("mobilenet")


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("vgg11", {"input_shape": (3, 31, 64)}, r"input_shape=\(3, 31, 64\).*height and width >= 32"),
        ("vgg16", {"input_shape": (3, 64, 16)}, "height and width >= 32"),
        ("densenet121", {"input_shape": (3, 7, 8)}, "height and width >= 8"),
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
