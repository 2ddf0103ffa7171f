"""Products of matrices of many clients: the textbook's numbers, and the same bits at every place."""

from __future__ import annotations

import pytest
import torch

from smofi.engine.at_once.products import products

SHAPES = [(7, 6, 10), (25, 5, 10), (8, 5, 10), (5, 33, 65), (16, 64, 10), (7, 7, 9), (128, 3, 6)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("size", "into", "out"), SHAPES)
def test_equal_clients_have_the_same_bits_at_every_place(
    size: int, into: int, out: int, interleaved: bool, dtype: torch.dtype
) -> None:
    """The gradient of the bias is no product but a sum: padding has to see to it."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator, dtype=dtype) for shape in [(size, into), (out, into), (out,)]]
    upstream, found = torch.randn((size, out), generator=generator, dtype=dtype), []
    for clients in (1, 2, 3, 5, 8):
        leaves = [tensor.repeat(clients, *[1] * tensor.dim()).view(clients, *tensor.shape) for tensor in tensors]
        gradient = upstream.expand(clients, -1, -1).contiguous()
        if interleaved:
            leaves[0] = leaves[0].transpose(0, 1).contiguous().transpose(0, 1)
            gradient = gradient.transpose(0, 1).contiguous().transpose(0, 1)
        rows, weight, bias = (leaf.requires_grad_() for leaf in leaves)
        value = products(rows, weight, bias, interleaved)
        assert (value - (tensors[0] @ tensors[1].T + tensors[2])).abs().max() < 1e-4
        outcome = [value, *torch.autograd.grad(value, [rows, weight], gradient)]
        found.append(torch.cat([tensor.detach().flatten(1) for tensor in outcome], dim=1))
    every = torch.cat(found)
    assert torch.equal(every, every[:1].expand_as(every))
    expected = torch.cat([(upstream @ tensors[1]).flatten(), (upstream.T @ tensors[0]).flatten()])
    assert (every[0, size * out :] - expected).abs().max() < 1e-3
