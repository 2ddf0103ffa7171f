"""A transformer that predicts the next character: Vaswani et al., "Attention is all you need", NeurIPS 2017.

Normalisation stands in front of each sublayer and once more behind the last layer, not behind each sublayer as in the
paper: so gradients reach every layer at their full size, and plain SGD trains it without a warm-up of the learning rate
(Xiong et al., "On layer normalization in the transformer architecture", ICML 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from smofi.errors import check_count, refuse
from smofi.models.dropout import Dropout
from smofi.models.layers import chain
from smofi.models.shape import check_vector_shape

HEADS, LAYERS, DROPOUT = 4, 6, 0.1


def sinusoids(length: int, width: int) -> Tensor:
    """The position of each token as waves of many lengths, `[length, width]`.

    PE[t, 2i] = sin(t / 10000^(2i / width)), PE[t, 2i + 1] = cos(t / 10000^(2i / width))

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


class Embedding(nn.Module):
    """The input block: each token's vector, times sqrt(width), plus its position.

    >>> Embedding(80, length=5, width=8)(torch.zeros(2, 5, dtype=torch.int64)).shape
    torch.Size([2, 5, 8])
    """

    positions: Tensor

    def __init__(self, vocabulary: int, *, length: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.register_buffer("positions", sinusoids(length, width), persistent=False)
        self.dropout = Dropout(DROPOUT)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors = self.tokens(tokens) * math.sqrt(self.positions.shape[1])
        out: Tensor = self.dropout(vectors + self.positions[: tokens.shape[1]])
        return out


class Attention(nn.Module):
    """Every position looks at all others: softmax(Q K^T / sqrt(d)) V in each of the heads.

    Written out as products of matrices, which are counted in a model's costs on every device.

    >>> Attention(8)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(2, 3)
        out: Tensor = self.output((scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(2))
        return out


class EncoderLayer(nn.Module):
    """A core block: x += attention(norm(x)), then x += feed-forward(norm(x)).

    >>> EncoderLayer(8)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.forward1, self.forward2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout1, self.dropout2 = Dropout(DROPOUT), Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout1(self.attention(self.norm1(x)))
        out: Tensor = x + self.dropout2(self.forward2(self.forward1(self.norm2(x)).relu()))
        return out


class NextToken(nn.Module):
    """The output block: the logits of the token that follows, read at the last position.

    >>> NextToken(8, vocabulary=80)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 80])
    """

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(self.norm(x[:, -1]))
        return out


def transformer(classes: int, input_shape: Sequence[int], width: int = 128) -> nn.Sequential:
    """Six encoder layers of four heads as core blocks, for int64 tokens `[batch, length]`; `classes` tokens are known.

    Vectors have `width` numbers, a multiple of the four heads; between the two feed-forward layers it is four times as
    many. 1,210,448 parameters for 80 characters.

    >>> len(transformer(classes=80, input_shape=(80,), width=8)) - 2
    6
    """
    length = check_vector_shape(input_shape, "tokens")
    check_count("classes", classes, low=2)
    if check_count("width", width) % HEADS:
        refuse("width", width, f"a multiple of {HEADS}, the number of attention heads")
    layers = [EncoderLayer(width) for _ in range(LAYERS)]
    blocks = [Embedding(classes, length=length, width=width), *layers, NextToken(width, classes)]
    return _initialise(chain(blocks))


def _initialise(model: nn.Sequential) -> nn.Sequential:
    """Glorot's weights (layers keep the variance, because there are few ReLUs), tokens of variance one behind
    sqrt(width)."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, std=layer.embedding_dim**-0.5)
    return model
