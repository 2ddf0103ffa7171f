"""What this package uses of torch that is not public: looked up here alone, and done without where torch lacks it.

    Tensor._is_view                   without it, no layer works in place
    nn.Module._forward_hooks, ...     without one of them, every module counts as watched and is left as it is
    Variable._execution_engine        without it, a backward pass starts through Tensor.backward
    TorchDispatchMode                 without it, torch's functions are observed, but not the operations inside them

Whatever is missing, a training step gives the same numbers; only its time and the estimate of its memory may change.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""The attributes in which a module keeps its hooks."""

Observe = Callable[[list[torch.Tensor]], object]


def is_view(x: torch.Tensor) -> bool:
    """Whether a tensor is a view of another; True if torch cannot tell.

    >>> whole = torch.zeros(2, 3)
    >>> is_view(whole), is_view(whole[0])
    (False, True)
    """
    ask = getattr(x, "_is_view", None)
    return ask is None or bool(ask())


def is_watched(module: nn.Module) -> bool:
    """Whether a module has hooks; True if torch cannot tell.

    >>> layer = nn.ReLU()
    >>> is_watched(layer)
    False
    >>> _ = layer.register_forward_hook(print)
    >>> is_watched(layer)
    True
    """
    return any(hooks_of(module))


def hooks_of(module: nn.Module) -> list[Any]:
    """Where a module keeps its hooks: as many containers, empty as long as it has none; True for what torch hides.

    >>> hooks_of(nn.ReLU())
    [OrderedDict(), OrderedDict(), OrderedDict(), OrderedDict()]
    """
    return [getattr(module, name, True) for name in HOOKS]


def hooks_of_all() -> list[Any]:
    """The same for the hooks that watch every module there is."""
    return [getattr(nn.modules.module, f"_global{name}", True) for name in HOOKS]


def backward(loss: torch.Tensor) -> None:
    """`loss.backward()`, without what that checks and prepares for losses of other kinds: a tenth of a tiny step.

    >>> x = torch.ones(2, requires_grad=True)
    >>> backward((3 * x).sum())
    >>> x.grad
    tensor([3., 3.])
    """
    if _run_backward is None or type(loss) is not torch.Tensor or loss.dim() or loss.device.type != "cpu":
        loss.backward()
    else:
        ones = (torch.ones_like(loss),)
        _run_backward((loss,), ones, False, False, (), allow_unreachable=True, accumulate_grad=True)


_run_backward: Callable[..., object] | None = getattr(
    getattr(torch.autograd.Variable, "_execution_engine", None), "run_backward", None
)


def observing(observe: Observe) -> AbstractContextManager[object]:
    """Calls `observe` after each operation, with the tensors that it took and gave.

    >>> x, seen = torch.ones(2), []
    >>> with observing(seen.append):
    ...     _ = x + 2 * x
    >>> seen
    [[tensor([1., 1.]), tensor([2., 2.])], [tensor([1., 1.]), tensor([2., 2.]), tensor([3., 3.])]]
    """

    def run(mode: object, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        given = out if isinstance(out, (tuple, list)) else [out]
        observe([one for one in (*args, *given) if isinstance(one, torch.Tensor)])
        return out

    kind, method = _mode()
    mode: AbstractContextManager[object] = type("Observing", (kind,), {method: run})()
    return mode


def _mode() -> tuple[type, str]:
    """What to inherit from in order to observe, and the method to write."""
    try:
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        return TorchFunctionMode, "__torch_function__"
    return TorchDispatchMode, "__torch_dispatch__"
