"""Which convolution kernels to use: a rule, not a measurement, so that the same run gives the same bits."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

SMALL_BATCH, SMALL_IMAGE = 8, 16 * 16


def suits_onednn(model: nn.Module, batch_size: int, pixels: float) -> bool:
    """Whether oneDNN should compute a model's convolutions, rather than torch itself.

    Not on a handful of tiny images, where its cost per call outweighs its speed (by 1.3 to 2 times on 8x8 and 14x14
    images), and never where it would write past its memory.

    >>> suits_onednn(nn.Conv2d(16, 32, 3), batch_size=32, pixels=1024)
    True
    """
    return (batch_size > SMALL_BATCH or pixels > SMALL_IMAGE) and not any(map(_overruns, model.modules()))


def _overruns(module: nn.Module) -> bool:
    """oneDNN issue 6035: the weight gradient of a strided 1x1 convolution, channels-last, with fewer input channels
    than its vectors are wide, corrupts the heap."""
    block = 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8
    return (
        isinstance(module, nn.Conv2d)
        and set(module.kernel_size) == {1}
        and max(module.stride) > 1
        and module.in_channels // module.groups < block
    )


@contextmanager
def convolutions(onednn: bool) -> Iterator[None]:
    """With oneDNN, if torch allows it at all, or without.

    >>> with convolutions(onednn=False):
    ...     torch.backends.mkldnn.enabled
    False
    """
    mkldnn: Any = torch.backends.mkldnn
    if onednn or not mkldnn.enabled:
        yield
        return
    try:
        mkldnn.enabled = False
    except RuntimeError:  # after torch.backends.disable_global_flags
        with ExitStack() as flags:
            _without_warnings(lambda: flags.enter_context(_disabled()))
            yield
            _without_warnings(flags.close)
        return
    try:
        yield
    finally:
        mkldnn.enabled = True


def _disabled() -> AbstractContextManager[None]:
    """`mkldnn.flags`, with the further flags that it would set left as they are. It is slower than an assignment."""
    flags: Any = torch.backends.mkldnn.flags
    others = dict.fromkeys(inspect.signature(flags).parameters)
    found: AbstractContextManager[None] = flags(**{**others, "enabled": False})
    return found


def _without_warnings(function: Callable[[], object]) -> None:
    """`mkldnn.flags` warns about one of its own flags."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function()
