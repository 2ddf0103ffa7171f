from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from smofi.models import build, transformer
from smofi.models.dropout import Dropout
from smofi.models.transformer import EncoderLayer, sinusoids


def test_an_encoder_layer_is_torchs_with_the_norm_first() -> None:
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(16, 4, 64, batch_first=True, norm_first=True, dtype=torch.float64).eval()
    ours = EncoderLayer(16).double().eval()
    attention = theirs.self_attn
    assert attention.in_proj_weight is not None
    for index, linear in enumerate([ours.attention.query, ours.attention.key, ours.attention.value]):
        linear.weight.data = attention.in_proj_weight[16 * index : 16 * (index + 1)]
        linear.bias.data = attention.in_proj_bias[16 * index : 16 * (index + 1)]
    ours.attention.output.load_state_dict(attention.out_proj.state_dict())
    for mine, other in (("norm1", "norm1"), ("norm2", "norm2"), ("forward1", "linear1"), ("forward2", "linear2")):
        getattr(ours, mine).load_state_dict(getattr(theirs, other).state_dict())
    x = torch.randn(3, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-10, atol=1e-10)


def test_the_number_of_parameters_by_hand() -> None:
    attention, feed_forward = 4 * (128 * 128 + 128), (128 * 512 + 512) + (512 * 128 + 128)
    layer = attention + feed_forward + 2 * 2 * 128
    # Torch's own encoder layer has as many.
    assert layer == sum(p.numel() for p in nn.TransformerEncoderLayer(128, 4, 512).parameters())
    expected = 80 * 128 + 6 * layer + 2 * 128 + 128 * 80 + 80
    model = build("transformer", seed=0, input_shape=(80,), classes=80)
    assert sum(p.numel() for p in model.parameters()) == expected == 1_210_448


def test_positions_are_the_papers() -> None:
    waves = sinusoids(50, 8)
    for position in (0, 1, 17, 49):
        for pair in range(4):
            angle = position / 10000 ** (2 * pair / 8)
            assert waves[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert waves[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_the_positions_are_no_statistic() -> None:
    model = transformer(classes=10, input_shape=(6,), width=8)
    assert all("positions" not in key for key in model.state_dict())


def test_order_matters_and_the_last_position_is_read() -> None:
    model = build("transformer", seed=0, input_shape=(6,), classes=10, width=8).eval()
    with torch.no_grad():
        first, swapped = model(torch.tensor([[1, 2, 3, 4, 5, 6], [2, 1, 3, 4, 5, 6]]))
        hidden = torch.randn(2, 6, 8)
        read = model[-1](hidden)
        hidden[:, :-1] = 0
        assert torch.equal(model[-1](hidden), read)
    assert not torch.allclose(first, swapped)


def test_dropout_is_on_the_embeddings_and_on_every_sublayers_output() -> None:
    model = transformer(classes=10, input_shape=(6,), width=8)
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Dropout)]
    assert layers == ["input.dropout"] + [f"core{n}.dropout{sub}" for n in range(1, 7) for sub in (1, 2)]
    assert all(module.p == 0.1 for module in model.modules() if isinstance(module, Dropout))


def test_it_starts_close_to_knowing_nothing() -> None:
    # Embeddings of variance one behind sqrt(width), Glorot elsewhere: 2 / (in + out) is each weight's variance.
    model = build("transformer", seed=0, input_shape=(80,), classes=80)
    tokens = model[0].tokens.weight
    assert tokens.std().item() == pytest.approx(128**-0.5, rel=0.02)
    assert model[1].forward1.weight.std().item() == pytest.approx((2 / (128 + 512)) ** 0.5, rel=0.02)
    loss = nn.functional.cross_entropy(model.eval()(torch.randint(80, (40, 80))), torch.arange(40))
    assert loss.item() == pytest.approx(math.log(80), rel=0.25)
