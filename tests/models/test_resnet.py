from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from smofi.cut import parse_cut
from smofi.errors import InputError
from smofi.flat import Layout
from smofi.models import build, resnet8, resnet18, resnet34
from smofi.models.layers import groups_for


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 9, 13)])
def test_every_block_has_the_shape_the_strides_give(norm: str, shape: tuple[int, int, int]) -> None:
    model = build("resnet8", seed=0, input_shape=shape, classes=10, width=4, norm=norm)
    x = torch.randn(2, *shape)
    _, height, width = shape
    quarter = (-(-height // 4), -(-width // 4))
    expected = [(4, height, width), (4, height, width), (8, -(-height // 2), -(-width // 2)), (16, *quarter), (10,)]
    assert [name for name, _ in model.named_children()] == ["input", "core1", "core2", "core3", "output"]
    for block, wanted in zip(model, expected, strict=True):
        x = block(x)
        assert tuple(x.shape) == (2, *wanted)


def test_the_number_of_parameters_by_hand() -> None:
    # width 16, one channel, ten classes; a convolution has no bias, a norm has a scale and a shift per channel.
    stem = 9 * 1 * 16 + 2 * 16
    first = 2 * (9 * 16 * 16) + 2 * 2 * 16
    second = 9 * 16 * 32 + 9 * 32 * 32 + 2 * 2 * 32 + (16 * 32 + 2 * 32)
    third = 9 * 32 * 64 + 9 * 64 * 64 + 2 * 2 * 64 + (32 * 64 + 2 * 64)
    output = 64 * 10 + 10
    model = resnet8(classes=10, channels=1)
    assert sum(p.numel() for p in model.parameters()) == stem + first + second + third + output == 77754


def test_the_shortcut_is_projected_only_where_shapes_change() -> None:
    model = resnet8(classes=10, channels=1)
    assert [isinstance(block.shortcut, nn.Identity) for block in list(model)[1:4]] == [True, False, False]


def test_a_block_adds_its_shortcut() -> None:
    block: Any = resnet8(classes=10, channels=1, width=4)[1].eval()
    nn.init.zeros_(block.residual.norm2.weight)
    x = torch.randn(2, 4, 8, 8)
    torch.testing.assert_close(block(x), x.relu())


def test_groups_divide_any_width() -> None:
    assert [groups_for(c) for c in (1, 2, 3, 4, 6, 8, 10, 12, 16, 17, 64)] == [1, 1, 1, 2, 3, 4, 5, 6, 8, 1, 8]
    for width in range(1, 40):
        resnet8(classes=2, channels=1, width=width, norm="group")(torch.zeros(1, 1, 8, 8))


def test_he_initialisation() -> None:
    model: Any = build("resnet8", seed=3, input_shape=(3, 8, 8), classes=10, width=64)
    conv = model[1].residual.conv2.weight  # 64 outputs, 9 places each: std = sqrt(2 / 576)
    assert conv.std().item() == pytest.approx((2 / 576) ** 0.5, rel=0.02)
    linear = model[-1].linear  # 256 features, no ReLU behind it: std = sqrt(1 / 256)
    assert linear.weight.std().item() == pytest.approx(1 / 16, rel=0.05)
    assert linear.bias.abs().max() == 0
    assert all((m.weight == 1).all() and (m.bias == 0).all() for m in model.modules() if isinstance(m, nn.BatchNorm2d))


def test_blocks_and_strides_of_the_paper() -> None:
    # He et al., table 1: 2 and 2, 2, 2 blocks, or 3, 4, 6 and 3; stages after the first begin with stride 2.
    for make, stages in ((resnet18, [2, 2, 2, 2]), (resnet34, [3, 4, 6, 3])):
        strides = [block.residual.conv1.stride[0] for block in list(make(classes=10, channels=3, width=2))[1:-1]]
        assert strides == [1] * stages[0] + [stride for count in stages[1:] for stride in [2] + [1] * (count - 1)]


def test_at_its_deepest_cut_resnet18_leaves_only_the_output_block_on_the_server() -> None:
    layout = Layout.of(resnet18(classes=10, channels=3, width=2))
    (cut,) = parse_cut(8, layout, clients=1).options
    assert layout.blocks[cut.first : cut.last] == ("output",)
    with pytest.raises(InputError, match="0 <= L <= 8"):
        parse_cut(9, layout, clients=1)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"name": "resnet9"}, "did you mean 'resnet8'"),
        ({"norm": "layer"}, "norm='layer' is not accepted: expected one of batch, group"),
        ({"norm": 2}, 'norm=2 is not accepted: expected a string such as "group'),
        ({"norm": "group(0)"}, r"norm='group\(0\)': n=0 is not accepted: expected a whole number >= 1"),
        ({"norm": "group(2, 3)"}, r"it is written group\(n=None\)"),
        ({"norm": "batch(2)"}, r"it is written batch\(\)"),
        ({"width": 0}, "width=0"),
        ({"classes": 1}, "classes=1"),
        ({"input_shape": (1, 4, 4)}, "height and width >= 8"),
        ({"input_shape": (64,)}, r"input_shape=\(64,\)"),
        ({"input_shape": (1, 8.0, 8)}, "input_shape"),
        ({"seed": -1}, "seed=-1"),
        ({"name": "mlp", "norm": "batch"}, "mlp has no such option"),
    ],
)
def test_bad_settings_are_refused(changed: dict[str, object], sentence: str) -> None:
    settings = {"name": "resnet8", "seed": 0, "input_shape": (1, 8, 8), "classes": 10, **changed}
    with pytest.raises(InputError, match=sentence):
        build(**settings)  # type: ignore[arg-type]
