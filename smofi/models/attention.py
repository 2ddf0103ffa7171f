"""A transformer that predicts the next character: FedNAR's, which the paper follows for Shakespeare.

Li et al., "FedNAR: federated optimization with normalized annealing regularization", NeurIPS 2023. Its layers are those
of Vaswani et al., "Attention is all you need", NeurIPS 2017, with normalisation behind each sublayer. Positions are
learned, each one sees all others, and nothing is normalised behind the last layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from smofi.errors import check_count, refuse
from smofi.models.architectures import chain
from smofi.models.dropout import Dropout
from smofi.models.known import check_vector_shape

HEADS, LAYERS, DROPOUT = 4, 6, 0.1


class Embedding(nn.Module):
    """Embed tokens, as the input block: each token's vector, times sqrt(width), plus that of its position."""

    def __init__(self, vocabulary: int, *, length: int, width: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, tokens: Tensor) -> Tensor:
        vectors: Tensor = self.tokens(tokens) * math.sqrt(self.tokens.embedding_dim)
        return vectors + self.positions.weight[: tokens.shape[1]]


class Attention(nn.Module):
    """Let every position look at all others: softmax(Q K^T / sqrt(d)) V in each of the heads.

    Written out as products of matrices, which are counted in a model's costs on every device.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.dropout = Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            linear(x).unflatten(2, (HEADS, -1)).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(2, 3)
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        out: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return out


class EncoderLayer(nn.Module):
    """Compute a core block: x = norm(x + attention(x)), then x = norm(x + feed-forward(x))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(width), nn.LayerNorm(width)
        self.forward1, self.forward2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width)
        self.dropout, self.dropout1, self.dropout2 = Dropout(DROPOUT), Dropout(DROPOUT), Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout1(self.attention(x)))
        inner = self.dropout(self.forward1(x).relu())
        out: Tensor = self.norm2(x + self.dropout2(self.forward2(inner)))
        return out


class NextToken(nn.Module):
    """Compute the output block: the logits of the token that follows, read at the last position."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x[:, -1])
        return out


def transformer(classes: int, input_shape: Sequence[int], width: int = 128) -> nn.Sequential:
    """Six encoder layers of four heads as core blocks, for int64 tokens `[batch, length]`; `classes` tokens are known.

    Vectors have `width` numbers, a multiple of the four heads; between the two feed-forward layers it is four times as
    many. 1,220,432 parameters for 80 characters, as FedNAR's program has them.

    >>> len(transformer(classes=80, input_shape=(80,), width=8)) - 2
    6
    """
    length = check_vector_shape(input_shape, "tokens")
    check_count("classes", classes, low=2)
    if check_count("width", width) % HEADS:
        refuse("width", width, f"a multiple of {HEADS}, the number of attention heads")
    layers = [EncoderLayer(width) for _ in range(LAYERS)]
    model = chain([Embedding(classes, length=length, width=width), *layers, NextToken(width, classes)])
    # Initial weights are torch's own, as in FedNAR's program. For attention, torch draws queries, keys and values as
    # one matrix by Glorot's rule, and leaves biases at zero.
    for layer in layers:
        attention = layer.attention
        for linear in (attention.query, attention.key, attention.value):
            bound = math.sqrt(6 / (width + 3 * width))  # sqrt(6 / (in + out))
            nn.init.uniform_(linear.weight, -bound, bound)
            nn.init.zeros_(linear.bias)
        nn.init.zeros_(attention.output.bias)
    return model
