"""Products of matrices, a pair per client, all in one call.

MKL computes a product differently where a matrix, or a row of it, does not begin at a multiple of 16 bytes. Of those
side by side in one tensor, some clients' would and others' would not. Columns of zeros prevent that.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

ALIGNED = 16
"""Bytes."""


def products(rows: Tensor, weight: Tensor, bias: Tensor | None = None, interleaved: bool = False) -> Tensor:
    """rows `[C, R, in]` @ weight `[C, out, in]` transposed + bias `[C, out]`, for each client: `[C, R, out]`.

    `interleaved` says that the rows, and the gradients of the outcome, lie in memory with the clients behind R.

    >>> products(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])).flatten()
    tensor([1., 4.])
    """
    step = max(1, ALIGNED // rows.element_size())
    (size, into), out = rows.shape[1:], weight.shape[1]
    if weight.stride(0) % step:
        weight = weight.clone(memory_format=torch.contiguous_format)
    apart = (into, out) if interleaved else (rows.stride(0), size * out)  # how far one client's are from the next's
    if not any(distance % step for distance in (*apart, into * out)):
        return _product(rows, weight, bias)
    more_in, more_out = -into % step, -out % step
    bias = None if bias is None else pad(bias, (0, more_out))
    return _product(pad(rows, (0, more_in)), pad(weight, (0, more_in, 0, more_out)), bias)[..., :out]


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.bmm(rows, weight.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, weight.mT)
