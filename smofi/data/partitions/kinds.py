"""Ways of dividing samples among clients, as small values with a string form: "dirichlet(0.2)", "shards(2)",
"natural"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, TypeAlias

from smofi.data.partitions.natural import Indices, Natural, natural
from smofi.data.partitions.saved import PREFIX, Saved, saved
from smofi.errors import InputError, check_choice, check_count, check_flag, check_number, refuse
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
    """Label skew by draws of Dir(gamma), in the reading that `dirichlet` was asked for."""

    gamma: float
    balance: bool = True
    by: str = "class"
    equal: bool = False

    def __str__(self) -> str:
        changed = {one.name: value for one in fields(self)[1:] if (value := getattr(self, one.name)) != one.default}
        gamma = str(float(self.gamma)).removesuffix(".0")
        return f"dirichlet({', '.join([gamma, *(f'{name}={value!r}' for name, value in changed.items())])})"

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        owner = np.empty(len(labels), dtype=np.int64)
        _, codes = np.unique(labels, return_inverse=True)
        for code, counts in enumerate(self.counts(np.bincount(codes), clients, rng)):
            samples = rng.permutation(np.flatnonzero(codes == code))
            owner[samples] = np.repeat(np.arange(clients), counts)
        return owner

    def counts(self, sizes: Indices, clients: int, rng: np.random.Generator) -> Indices:
        """Return how many samples of each class each client gets, `[classes, clients]`, from the classes' sizes.

        >>> Dirichlet(0.2, by="client", equal=True).counts(np.array([6, 2]), 4, np.random.default_rng(0)).sum(axis=0)
        array([2, 2, 2, 2])
        """
        if self.by == "client":
            # q_j ~ Dir(gamma) over the classes, for each client j
            logs = log_dirichlet(self.gamma, clients, len(sizes), rng)
            if self.equal:
                return _drawn_in_turn(logs, self.gamma, sizes, rng)
            logs = logs.T  # class k is divided in proportion to q_jk
        else:
            # s ~ Dir(gamma) over the clients, for each class
            logs = log_dirichlet(self.gamma, len(sizes), clients, rng)
        counts, held = np.zeros((len(sizes), clients), dtype=np.int64), np.zeros(clients, dtype=np.int64)
        for code, size in enumerate(sizes):
            # a client that holds N/J samples gets none of the later classes
            full = self.balance and self.by == "class" and held >= sizes.sum() / clients
            ends = np.rint(np.cumsum(proportions(np.where(full, -np.inf, logs[code]), self.gamma)) * size)
            ends[-1] = size
            counts[code] = np.diff(ends, prepend=0)
            held += counts[code]
        return counts


def log_dirichlet(gamma: float, rows: int, columns: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw q ~ Dir(gamma) for each row, as gamma log(q columns): for a small gamma, q itself underflows to 0.

    >>> np.exp(log_dirichlet(0.5, 1, 4, np.random.default_rng(0)) / 0.5).mean().round(9)
    np.float64(1.0)
    """
    # log Gamma(gamma) = log Gamma(gamma + 1) + log(U) / gamma, where -log U is exponential
    boosted = rng.standard_gamma(gamma + 1, size=(rows, columns)) / (gamma + 1)
    logs = gamma * np.log(boosted) - rng.standard_exponential(size=(rows, columns))
    logs -= logs.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        logs -= gamma * np.log(np.exp(logs / gamma).mean(axis=1, keepdims=True))
    return logs


def proportions(logs: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Return shares that add up to 1 in each row, from gamma times their logarithms, up to a constant.

    >>> proportions(np.array([-1e9, 0, -np.inf]), 1e-300)
    array([0., 1., 0.])
    """
    with np.errstate(over="ignore"):
        weights = np.exp((logs - logs.max(axis=-1, keepdims=True)) / gamma)
    shares: npt.NDArray[np.float64] = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def _drawn_in_turn(logs: npt.NDArray[np.float64], gamma: float, sizes: Indices, rng: np.random.Generator) -> Indices:
    """Let clients take a sample in random turns, of a class drawn from q_j among those that have samples left."""
    clients, samples = len(logs), int(sizes.sum())
    counts, left = np.zeros((len(sizes), clients), dtype=np.int64), sizes.copy()
    ends = None
    for client, drawn in zip(rng.permutation(np.arange(samples) % clients), rng.random(samples), strict=True):
        if ends is None:
            ends = np.cumsum(proportions(np.where(left > 0, logs, -np.inf), gamma), axis=1)
            ends /= ends[:, -1:]
        code = np.searchsorted(ends[client], drawn, side="right")
        counts[code, client] += 1
        left[code] -= 1
        if not left[code]:
            ends = None
    return counts


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


def dirichlet(gamma: float, *, balance: bool = True, by: str = "class", equal: bool = False) -> Dirichlet:
    """Divide with label skew; the smaller gamma, the fewer classes a client sees.

    For each class, the clients' shares are drawn from Dir(gamma), and a client that already holds an equal part of all
    samples gets none of the later classes (NIID-Bench). `balance=False` leaves that rule out. `by="client"` draws the
    mix of classes of each client instead, and `equal=True` with it gives all clients the same number of samples (Hsu).

    >>> str(dirichlet(gamma=0.2)), str(dirichlet(0.2, by="client", equal=True))
    ('dirichlet(0.2)', "dirichlet(0.2, by='client', equal=True)")
    """
    made = Dirichlet(
        check_number("gamma", gamma, above=0),
        check_flag("balance", balance),
        check_choice("by", by, ("class", "client")),
        check_flag("equal", equal),
    )
    if equal and by == "class":
        refuse("equal", equal, "False with by='class': only by='client' can give all clients the same number")
    if not balance and by == "client":
        refuse("balance", balance, "no balance with by='client', which has no such rule")
    return made


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

    >>> parse("shards(2)")
    Shards(k=2)
    """
    if text.strip().startswith(PREFIX):
        return saved(text.strip().removeprefix(PREFIX))
    # No name has a colon, so the last entry only appears in messages.
    return build_one("partition", text, {**PARTITIONS, f"{PREFIX}PATH": saved}, "dirichlet(0.2)")
