"""Ways of dividing samples among clients, as small values with a string form: "dirichlet(0.2)", "shards(2)",
"natural"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from smofi.data.partitions.natural import Indices, Natural, natural
from smofi.data.partitions.saved import PREFIX, Saved, saved
from smofi.errors import InputError, check_count, check_number
from smofi.later import np
from smofi.spec import build_one

if TYPE_CHECKING:
    import numpy.typing as npt


class Spread(Protocol):
    """A way of spreading samples over clients by their labels; `str()` of it is what `partition` reads back."""

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        """The client of each sample, before clients with too few samples get more."""
        ...


Kind: TypeAlias = Spread | Natural | Saved


@dataclass(frozen=True)
class Dirichlet:
    """Label skew: every class is spread over the clients by proportions drawn from Dir(gamma)."""

    gamma: float

    def __str__(self) -> str:
        return f"dirichlet({str(float(self.gamma)).removesuffix('.0')})"

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
        classes, codes = np.unique(labels, return_inverse=True)
        for code, shares in enumerate(self.proportions(len(classes), clients, rng)):
            samples = rng.permutation(np.flatnonzero(codes == code))
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


@dataclass(frozen=True)
class Shards:
    """About k classes each: sorted by label, cut into clients * k equal shards, k random ones each (McMahan, 2017)."""

    k: int

    def __str__(self) -> str:
        return f"shards({self.k})"

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        samples, shards = len(labels), clients * self.k
        if shards > samples:
            raise InputError(
                f"partition='{self}' with clients={clients} is not accepted: that makes {shards} shards of "
                f"{samples} samples; use fewer clients or a smaller k"
            )
        shuffled = rng.permutation(samples)
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        client_of_shard = rng.permutation(np.arange(shards) % clients)
        owner = np.empty(samples, dtype=np.int64)
        owner[by_label] = client_of_shard[np.arange(samples) * shards // samples]
        return owner


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


def shards(k: int) -> Shards:
    """Label skew with clients of one size: each sees about `k` classes.

    >>> str(shards(k=2))
    'shards(2)'
    """
    return Shards(check_count("k", k))


PARTITIONS: dict[str, Callable[..., Kind]] = {"dirichlet": dirichlet, "iid": iid, "shards": shards, "natural": natural}


def parse(text: str) -> Kind:
    """The value that a string stands for: "dirichlet(0.2)", "dirichlet(gamma=0.2)", "natural", "file:runs/a".

    >>> parse("dirichlet(0.2)")
    Dirichlet(gamma=0.2)
    """
    if text.strip().startswith(PREFIX):
        return saved(text.strip().removeprefix(PREFIX))
    # No name has a colon, so the last entry only appears in messages.
    return build_one("partition", text, {**PARTITIONS, f"{PREFIX}PATH": saved}, "dirichlet(0.2)")
