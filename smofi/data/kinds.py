"""Ways of handing samples to clients, as small values with a string form: "dirichlet(0.2)", "iid"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from smofi.errors import check_number
from smofi.spec import build_one

Indices: TypeAlias = npt.NDArray[np.int64]


class Kind(Protocol):
    """A way of handing out samples; `str()` of it is what `partition` reads back."""

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        """The client of each sample, before anyone is filled up."""
        ...


@dataclass(frozen=True)
class Dirichlet:
    """Label skew: every class is spread over the clients by proportions drawn from Dir(gamma)."""

    gamma: float

    def __str__(self) -> str:
        return f"dirichlet({self.gamma:g})"

    def proportions(self, classes: int, clients: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """One draw of Dir(gamma) per class, `[classes, clients]`.

        >>> float(Dirichlet(0.001).proportions(1, 1000, np.random.default_rng(0)).sum().round(6))
        1.0
        """
        # Gamma(gamma) underflows to 0 for small gamma, so it is drawn as a logarithm, and normalised as one:
        # log Gamma(gamma) = log Gamma(gamma + 1) + log(U) / gamma, where -log U is exponential.
        boosted = rng.standard_gamma(self.gamma + 1, size=(classes, clients))
        exponential = rng.standard_exponential(size=(classes, clients))
        exponential -= exponential.min(axis=1, keepdims=True)
        with np.errstate(over="ignore", divide="ignore"):
            logs = np.log(boosted) - exponential / self.gamma
        weights = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares: npt.NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        owner = np.empty(len(labels), dtype=np.int64)
        classes = np.unique(labels)
        for label, shares in zip(classes, self.proportions(len(classes), clients, rng), strict=True):
            samples = rng.permutation(np.flatnonzero(labels == label))
            ends = np.rint(np.cumsum(shares) * len(samples))
            ends[-1] = len(samples)
            owner[samples] = np.searchsorted(ends, np.arange(len(samples)), side="right")
        return owner


@dataclass(frozen=True)
class Iid:
    """No skew: shuffled, and dealt out like cards, so that sizes differ by one at most."""

    def __str__(self) -> str:
        return "iid"

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        return rng.permutation(np.arange(len(labels)) % clients)


def dirichlet(gamma: float) -> Dirichlet:
    """Label skew; the smaller gamma, the fewer classes a client sees.

    >>> str(dirichlet(gamma=0.2))
    'dirichlet(0.2)'
    """
    return Dirichlet(check_number("gamma", gamma, above=0))


def iid() -> Iid:
    """Every client a random sample of the whole.

    >>> str(iid())
    'iid'
    """
    return Iid()


PARTITIONS: dict[str, Callable[..., Kind]] = {"dirichlet": dirichlet, "iid": iid}


def parse(text: str) -> Kind:
    """The value a string such as "dirichlet(0.2)", "dirichlet(gamma=0.2)" or "iid" stands for.

    >>> parse("dirichlet(0.2)")
    Dirichlet(gamma=0.2)
    """
    return build_one("partition", text, PARTITIONS, "dirichlet(0.2)")
