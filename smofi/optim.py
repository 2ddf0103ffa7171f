"""Optimizers as pure updates of rows: the moments are data that the caller owns, never hidden state.

    update(weights, gradient, prior, moments, lr, count)

`prior` is what the moments continue from and `moments` is where they go: the same tensors for a client that keeps its
own, the fused ones and a scratch for SMoFi.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from smofi.errors import InputError, check_flag, check_number, refuse
from smofi.later import torch
from smofi.spec import build_one, read_calls

if TYPE_CHECKING:
    from torch import Tensor

Given = ParamSpec("Given")
Made = TypeVar("Made")
DEFAULT_OPTIMIZER = "sgd(lr=0.05, momentum=0.9)"
"""What a run uses if nothing else is given, and the example in a refusal."""

LR_DECAY = "the factor on the learning rate per round"

Moments: TypeAlias = "Sequence[Tensor]"
"""One tensor per moment: none for SGD, one for momentum, two for Adam."""


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """Update rows: `lr_decay` multiplies the learning rate once a round; `decoupled` says that weight
    decay acts on the weights, not on the gradient."""

    lr: float
    weight_decay: float
    lr_decay: float
    decoupled: bool = False

    @property
    @abstractmethod
    def moments(self) -> int:
        """Return how many moments it keeps."""

    @property
    def counts(self) -> bool:
        """Tell whether a step depends on how many there were before it."""
        return False

    @abstractmethod
    def update(
        self, weights: Tensor, gradient: Tensor, prior: Moments, moments: Moments, lr: float, count: float
    ) -> None:
        """Take one step in place. `count` is this step's number since the moments were last reset, from 1."""

    def with_nesterov(self) -> Optimizer:
        """Return the optimizer with Nesterov's look-ahead, where it has one."""
        return self


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Descend along gradients, plain, with momentum, or with Nesterov's look-ahead, as `torch.optim.SGD` does."""

    momentum: float
    nesterov: bool

    @property
    def moments(self) -> int:
        return 1 if self.momentum else 0

    def with_nesterov(self) -> SGD:
        return replace(self, nesterov=True) if self.momentum else self

    def update(
        self, weights: Tensor, gradient: Tensor, prior: Moments, moments: Moments, lr: float, count: float
    ) -> None:
        if not self.momentum:
            # W -= eta g
            weights.add_(gradient, alpha=-lr)
            return
        # m = beta m̄ + g
        m = torch.add(gradient, prior[0], alpha=self.momentum, out=moments[0])
        if self.nesterov:
            # W -= eta (g + beta m)
            weights.add_(gradient, alpha=-lr).add_(m, alpha=-lr * self.momentum)
        else:
            # W -= eta m
            weights.add_(m, alpha=-lr)


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Compute Adam, and AdamW where `decoupled`, as `torch.optim` does."""

    betas: tuple[float, float]
    eps: float

    @property
    def moments(self) -> int:
        return 2

    @property
    def counts(self) -> bool:
        return True

    def update(
        self, weights: Tensor, gradient: Tensor, prior: Moments, moments: Moments, lr: float, count: float
    ) -> None:
        beta1, beta2 = self.betas
        # m = beta1 m̄ + (1 - beta1) g
        m = torch.mul(prior[0], beta1, out=moments[0]).add_(gradient, alpha=1 - beta1)
        # v = beta2 v̄ + (1 - beta2) g²
        v = torch.mul(prior[1], beta2, out=moments[1]).addcmul_(gradient, gradient, value=1 - beta2)
        # W -= eta (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
        scale = v.sqrt().div_((1 - beta2**count) ** 0.5).add_(self.eps)
        weights.addcdiv_(m, scale, value=-lr / (1 - beta1**count))


def _refuse_old_names(given: Mapping[str, Any]) -> None:
    if "decay" in given:
        raise InputError(f"decay={given['decay']!r} is not accepted: decay is now lr_decay, {LR_DECAY}")


def _with_new_names(make: Callable[Given, Made]) -> Callable[Given, Made]:
    @wraps(make)
    def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        _refuse_old_names(kwargs)
        return make(*args, **kwargs)

    return made


@_with_new_names
def sgd(
    lr: float, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0, lr_decay: float = 1.0
) -> SGD:
    """Stochastic gradient descent; `lr_decay` is the factor on the learning rate per round.

    >>> sgd(lr=0.05, momentum=0.9).moments
    1
    """
    _check_common(lr, weight_decay, lr_decay)
    check_number("momentum", momentum, low=0, below=1)
    if check_flag("nesterov", nesterov) and not momentum:
        refuse("nesterov", nesterov, "False without momentum, or a momentum > 0 with it")
    return SGD(lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, lr_decay=lr_decay)


@_with_new_names
def adam(
    lr: float = 0.001,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    lr_decay: float = 1.0,
) -> Adam:
    """Adam, with weight decay as part of the gradient.

    >>> adam().moments
    2
    """
    _check_common(lr, weight_decay, lr_decay)
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        refuse("betas", betas, "two numbers, as (0.9, 0.999)")
    for beta in betas:
        check_number("betas", beta, low=0, below=1)
    check_number("eps", eps, above=0)
    return Adam(lr=lr, betas=(betas[0], betas[1]), eps=eps, weight_decay=weight_decay, lr_decay=lr_decay)


@_with_new_names
def adamw(
    lr: float = 0.001,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    lr_decay: float = 1.0,
) -> Adam:
    """AdamW: weight decay acts on the weights themselves; without it, it is Adam.

    >>> adamw().decoupled, adamw().weight_decay
    (True, 0.01)
    """
    return replace(adam(lr, betas, eps, weight_decay, lr_decay), decoupled=True)


def _check_common(lr: float, weight_decay: float, lr_decay: float) -> None:
    check_number("lr", lr, above=0)
    check_number("weight_decay", weight_decay, low=0)
    check_number("lr_decay", lr_decay, above=0, high=1)


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {"sgd": sgd, "adam": adam, "adamw": adamw}


def parse_optimizer(text: str) -> Optimizer:
    """Read an optimizer written as a string.

    >>> parse_optimizer("sgd(lr=0.05, momentum=0.9)") == sgd(lr=0.05, momentum=0.9)
    True
    """
    for call in read_calls("optimizer", text, DEFAULT_OPTIMIZER):
        _refuse_old_names(dict(call.kwargs))
    return build_one("optimizer", text, OPTIMIZERS, DEFAULT_OPTIMIZER)
