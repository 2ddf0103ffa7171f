"""What computing clients at once uses of torch that is not public: looked up only here, on first use.

    maybe_current_level   which vmap is under way
    _add_batch_dim        a tensor of all clients, as vmap's function sees it: that of one client
    _unwrap_batched       the way back: the tensor of all clients, and which of its dimensions they are
    _DisableFuncTorch     operations on the tensors of all clients, while vmap is under way
    _foreach_copy_        many copies in one call

Without one of the first four, clients are computed one by one, and `why_missing` says so; without the last, it takes a
call per copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

NAMES = (
    "_C._functorch.maybe_current_level",
    "_C._functorch._add_batch_dim",
    "_C._functorch._unwrap_batched",
    "_C._DisableFuncTorch",
)


class Internals(NamedTuple):
    """The inside of a vmap: tensors of all clients, and what its function sees of them."""

    level: Callable[[], int | None]
    """The number of the innermost vmap that is under way, None outside of any."""

    wrap: Callable[[Tensor, int, int], Tensor]
    """(tensor of all clients, the dimension they are, level) -> the tensor of one client."""

    unwrap: Callable[[Tensor, int], tuple[Tensor, int | None]]
    """(tensor of one client, level) -> that of all clients, and the dimension they are; None: the same for all."""

    paused: Callable[[], AbstractContextManager[object]]
    """Inside, operations are those on the tensors of all clients."""


@lru_cache(maxsize=1)
def internals() -> Internals:
    """The inside of torch's vmap.

    >>> internals().level() is None
    True
    """
    found = [_find(name) for name in NAMES]
    if None in found:
        raise RuntimeError(why_missing())
    return Internals(*found)


def why_missing() -> str | None:
    """Why clients cannot be computed at once with this torch, None if they can.

    >>> why_missing()
    """
    missing = [f"torch.{name}" for name in NAMES if _find(name) is None]
    if not missing:
        return None
    return f"clients cannot be computed at once: torch {torch.__version__} has no {', '.join(missing)}"


def copy_all(into: Sequence[Tensor], of: Sequence[Tensor]) -> None:
    """Copies each tensor of one list into that of the other.

    >>> into = [torch.zeros(2), torch.zeros(1)]
    >>> copy_all(into, [torch.ones(2), torch.ones(1)])
    >>> into
    [tensor([1., 1.]), tensor([1.])]
    """
    together = getattr(torch, "_foreach_copy_", None)
    if together and into:
        together(into, of)
        return
    for target, source in zip(into, of, strict=True):
        target.copy_(source)


def _find(name: str) -> Any:
    found: Any = torch
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    return found
