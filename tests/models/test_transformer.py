"""The transformer against an independent one that is built from torch's own layers, as FedNAR's program is."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import smofi
from smofi.cut import CutSpec
from smofi.models import build, transformer
from smofi.models.architectures import EncoderLayer
from smofi.models.dropout import Dropout


class Plain(nn.Module):
    """The same network, of torch's own layers."""

    def __init__(self, vocabulary: int, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, activation="relu", norm_first=False, batch_first=True)
            for _ in range(6)
        )
        self.last = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        vectors = math.sqrt(self.tokens.embedding_dim) * self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for layer in self.layers:
            vectors = layer(vectors)
        logits: Tensor = self.last(vectors[:, -1, :])
        return logits


def copy_layer(ours: EncoderLayer, theirs: nn.Module) -> None:
    """Give torch's layer the weights of ours."""
    attention = ours.attention
    projections = (attention.query, attention.key, attention.value)
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat([one.weight for one in projections]),
            "self_attn.in_proj_bias": torch.cat([one.bias for one in projections]),
            **{f"self_attn.out_proj.{name}": one for name, one in attention.output.state_dict().items()},
            **{f"linear1.{name}": one for name, one in ours.forward1.state_dict().items()},
            **{f"linear2.{name}": one for name, one in ours.forward2.state_dict().items()},
            **{f"norm1.{name}": one for name, one in ours.norm1.state_dict().items()},
            **{f"norm2.{name}": one for name, one in ours.norm2.state_dict().items()},
        }
    )


def test_it_is_the_plain_network() -> None:
    vocabulary, length, width = 11, 6, 8
    ours: nn.Sequential = build("transformer", seed=3, input_shape=(length,), classes=vocabulary, width=width).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in ours.parameters():  # normalisations and biases, too, so that none is left out
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    plain = Plain(vocabulary, length, width).double()
    plain.tokens.load_state_dict(ours[0].tokens.state_dict())
    plain.positions.load_state_dict(ours[0].positions.state_dict())
    for mine, theirs in zip(list(ours)[1:-1], plain.layers, strict=True):
        assert isinstance(mine, EncoderLayer)
        copy_layer(mine, theirs)
    plain.last.load_state_dict(ours[-1].linear.state_dict())
    x = torch.randint(vocabulary, (3, length), generator=generator)
    for tokens in (x, x[:, :4]):  # shorter texts have fewer positions
        torch.testing.assert_close(ours.eval()(tokens), plain.eval()(tokens), rtol=1e-10, atol=1e-10)
    published = build("transformer", seed=0, input_shape=(80,), classes=80)
    assert sum(parameter.numel() for parameter in published.parameters()) == 1_220_432


def test_dropout_is_where_torchs_layer_has_it() -> None:
    model = transformer(classes=10, input_shape=(6,), width=8)
    layers = [(name, module.p) for name, module in model.named_modules() if isinstance(module, Dropout)]
    places = ("attention.dropout", "dropout", "dropout1", "dropout2")
    assert layers == [(f"core{n}.{place}", 0.1) for n in range(1, 7) for place in places]


def test_initial_weights_are_torchs() -> None:
    torch.manual_seed(0)
    ours, theirs = EncoderLayer(128), nn.TransformerEncoderLayer(128, 4, 512)
    model = build("transformer", seed=0, input_shape=(80,), classes=80)
    ours.load_state_dict(model[1].state_dict())
    rows: Tensor = theirs.self_attn.in_proj_weight
    for linear in (ours.attention.query, ours.attention.key, ours.attention.value):
        assert linear.weight.std().item() == pytest.approx(rows.std().item(), rel=0.03)
        assert linear.weight.abs().max().item() == pytest.approx(rows.abs().max().item(), rel=0.01)
        assert not linear.bias.any()
    assert not ours.attention.output.bias.any()
    assert ours.forward1.weight.std().item() == pytest.approx(theirs.linear1.weight.std().item(), rel=0.03)
    assert model[0].tokens.weight.std().item() == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize("cut", [3, (2, 1)], ids=str)
def test_split_anywhere_it_trains_as_whole_and_at_once(cut: CutSpec) -> None:
    """Dropout included: executed in two or three parts, over a wire, and for all clients in one pass."""
    draw = torch.Generator().manual_seed(1)
    clients = [
        (torch.randint(7, (size, 5), generator=draw), torch.randint(7, (size,), generator=draw)) for size in (4, 9)
    ]

    def trained(**how: Any) -> Tensor:
        model = build("transformer", seed=0, input_shape=(5,), classes=7, width=8).double()
        how = {"cut": cut, "rounds": 1, "participation": 1.0, "local_epochs": 1, "batch_size": 4, **how}
        result = smofi.train(model, clients, method="smofi", optimizer="sgd(lr=0.1, momentum=0.9)", **how)
        return torch.cat([parameter.detach().flatten() for parameter in result.model.parameters()])

    split = trained(wire=lambda tensor, direction, client: tensor)
    for other in (trained(executor="loop"), trained(executor="vmap")):
        torch.testing.assert_close(split, other, rtol=1e-10, atol=1e-10)
