"""Weight gradients that wait, so that a client does not.

    dL/dx = Wᵀ dL/dy       the layers before it need this, and in the end the client, whose cut gradient it becomes
    dL/dW = dL/dy xᵀ       only the server's own update needs this

Backward passes usually compute both, layer by layer. Here the first kind comes first: the client gets its answer, and
computes while the server does the rest. Convolutions of batches and linear layers on vectors are done so; all others
take little time, or cannot be taken apart. Altogether it takes about a tenth longer, since a layer's input has left the
processor's caches by then: it is for a server that has time.

The numbers of smofi's own models are the same, to the bit. Other people's may do what this does not foresee: hooks on a
weight, a checkpoint, a gradient within the forward pass, an input that is changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

Gradients = Callable[[Tensor, Tensor, Tensor, Tensor | None], list[Tensor]]
"""of(dL/dy, x, W, b): the gradients of W and of b, if there is one."""

CONVOLUTIONS: dict[Any, int] = {functional.conv1d: 1, functional.conv2d: 2, functional.conv3d: 3}
"""With the dimensions of what each is computed over."""


class WeightsLater(TorchFunctionMode):
    """Inside the context, layers run as always; a backward pass through them leaves their weights to `compute`.

    >>> layer, x, later = torch.nn.Linear(2, 1), torch.ones(1, 2, requires_grad=True), WeightsLater()
    >>> layer.weight.grad, layer.bias.grad = torch.zeros(1, 2), torch.zeros(1)
    >>> with later:
    ...     y = layer(x)
    >>> y.backward()
    >>> x.grad is not None, layer.weight.grad
    (True, tensor([[0., 0.]]))
    >>> later.compute()
    >>> layer.weight.grad
    tensor([[1., 1.]])
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[Callable[[], None]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.is_grad_enabled():
            if func is functional.linear:
                return self._called(func, _of_linear, 2, *args, **kwargs or {})
            if func in CONVOLUTIONS:
                return self._convolved(func, *args, **kwargs or {})
        return func(*args, **kwargs or {})

    def _convolved(
        self,
        func: Any,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        shape = stride, padding, dilation, groups
        if isinstance(padding, str):  # it may pad one side more than the other
            return func(input, weight, bias, *shape)
        over = CONVOLUTIONS[func]
        return self._called(func, _of_convolution(over, *shape), over + 2, input, weight, bias, *shape)

    def _called(
        self,
        func: Any,
        gradients: Gradients,
        dimensions: int,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        *others: Any,
    ) -> Any:
        own = [weight] if bias is None else [weight, bias]
        fits = input.dim() == weight.dim() == dimensions and input.requires_grad and all(map(_collects, own))
        if not fits or torch.is_autocast_enabled(input.device.type):
            return func(input, weight, bias, *others)
        output = func(input, weight.detach(), None if bias is None else bias.detach(), *others)
        seen = input.detach()

        def postpone(incoming: tuple[Tensor, ...]) -> None:
            self._waiting.append(lambda: _add(own, gradients(incoming[0], seen, weight, bias)))

        output.grad_fn.register_prehook(postpone)
        return output

    @torch.no_grad()
    def compute(self) -> None:
        """Add the gradients that wait to those of the weights, in the order of the backward pass."""
        waiting, self._waiting = self._waiting, []
        for add in waiting:
            add()

    def discard(self) -> None:
        """Whoever they were for is gone."""
        self._waiting = []


def _collects(weight: Tensor) -> bool:
    """Whether a backward pass would add to this tensor's gradient."""
    return weight.is_leaf and weight.requires_grad and weight.grad is not None


def _add(own: list[Tensor], gradients: list[Tensor]) -> None:
    for weight, gradient in zip(own, gradients, strict=True):
        assert weight.grad is not None
        weight.grad += gradient


def _of_linear(outer: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    # dL/dW = dL/dyᵀ x,   dL/db = sum dL/dy
    of_weight = outer.t().mm(x)
    return [of_weight] if bias is None else [of_weight, outer.sum(0)]


def _of_convolution(dimensions: int, stride: Any, padding: Any, dilation: Any, groups: int) -> Gradients:
    def each(value: Any) -> list[int]:
        return [value] * dimensions if isinstance(value, int) else list(value) * (dimensions // len(value))

    how = each(stride), each(padding), each(dilation), False, [0] * dimensions, groups

    def gradients(outer: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
        sizes, wanted = None if bias is None else list(bias.shape), (False, True, bias is not None)
        found = torch.ops.aten.convolution_backward(outer, x, weight, sizes, *how, wanted)
        return [one for one in found if one is not None]

    return gradients
