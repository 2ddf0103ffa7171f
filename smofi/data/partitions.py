"""Divide samples among clients.

A way of dividing is a small value with a string form, and its class has the name that is written there:
dirichlet(0.2), shards(2), iid, natural; file:PATH is the partition of another run. `partition` gives the samples of
each client; `assign` the client of each sample, with those held out for validation; `class_counts` and `divergence`
say how uneven the classes are.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from smofi.errors import InputError, check_choice, check_count, check_flag, check_number, check_seed, refuse
from smofi.later import np
from smofi.runs import StoredPartition, labels_hash, read_partition_file, write_partition_file
from smofi.seeds import generator
from smofi.spec import build_one

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

# --------------------------------------------------------------------------------------------------------------------
# A partition that was saved: the file that every run folder has, read again or used by another run.


Owners: TypeAlias = "npt.NDArray[np.int32]"

PREFIX = "file:"
UNUSED = -2


@dataclass(frozen=True)
class Saved:
    """The partition in a run folder or in its `partition.safetensors`, taken as it is."""

    path: str

    def __post_init__(self) -> None:
        if not self.path:
            refuse("partition", PREFIX, "a run folder or its partition file after it, such as file:runs/a")

    def __str__(self) -> str:
        return f"{PREFIX}{self.path}"

    def clients_of(self, labels: npt.NDArray[Any], clients: int | None) -> Owners:
        """Return the client of each sample, -1 for validation, -2 for unused; refuse other data or other clients.

        Without a number of clients, there are as many as in the file.
        """
        stored = _read(Path(self.path))
        if len(stored.owners) != len(labels):
            raise InputError(
                f"partition='{self}' is not accepted: it divides {len(stored.owners)} samples and this data has "
                f"{len(labels)}; expected the data it was made for"
            )
        if stored.labels not in (None, labels_hash(labels)):
            raise InputError(
                f"partition='{self}' is not accepted: it was made for data with other labels; expected the data it was "
                f"made for"
            )
        if clients is not None and (divided := int(stored.owners.max()) + 1) != clients:
            refuse("clients", clients, f"{divided}, the clients of {self}")
        return stored.owners


def read_partition(path: str | Path) -> Owners:
    """Read the client of each sample, -1 for validation, -2 for unused, from a run folder or its partition file.

    >>> read_partition("no-such-run")
    Traceback (most recent call last):
    smofi.errors.InputError: no-such-run does not exist: expected a run folder or its partition.safetensors
    """
    return _read(Path(path)).owners


def write_partition(path: str | Path, owners: npt.NDArray[Any]) -> None:
    """Save the client of each sample, -1 for validation, -2 for unused, as a file that is never half written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "partition.safetensors"
    >>> write_partition(path, np.array([1, 0, -1]))
    >>> read_partition(path).tolist()
    [1, 0, -1]
    """
    owners = np.asarray(owners)
    if owners.ndim != 1 or owners.dtype.kind not in "iu":
        refuse("owners", f"{owners.dtype} of shape {owners.shape}", "whole numbers, one per sample")
    if fault := _fault(owners):
        raise InputError(f"owners are not accepted: {fault}")
    try:
        write_partition_file(Path(path), owners)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _read(path: Path) -> StoredPartition:
    stored = read_partition_file(path)
    if fault := _fault(stored.owners):
        raise InputError(f"{stored.path} is no partition: {fault}")
    return stored


def _fault(owners: npt.NDArray[Any]) -> str | None:
    """Say what keeps the numbers from being a partition."""
    low = int(owners.min(initial=0))
    if low < UNUSED:
        return f"a sample has client {low}; expected clients from 0, -1 for validation, -2 for unused"
    clients = np.unique(owners[owners >= 0])
    if not len(clients):
        return "no sample has a client"
    if clients[-1] != len(clients) - 1:
        gap = int(np.flatnonzero(clients != np.arange(len(clients)))[0])
        return f"client {gap} has no sample although there is a client {clients[-1]}; expected all numbers from 0"
    return None


# --------------------------------------------------------------------------------------------------------------------
# The partition that data brings along: every sample stays with its owner: a role, a speaker, a site.

Indices: TypeAlias = "npt.NDArray[np.int64]"

NATURAL = "natural"


@dataclass(frozen=True)
class natural:
    """Leave samples with their owners, who become the clients; samples of other owners are not used.

    Of an owner with more than `most` samples, that many are drawn at random.

    >>> str(natural()), str(natural(most=400))
    ('natural', 'natural(most=400)')
    """

    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            check_count("most", self.most)

    def __str__(self) -> str:
        return NATURAL if self.most is None else f"{NATURAL}(most={self.most})"

    def clients_of(
        self, owners: Any, samples: int, clients: int | None, min_size: int, rng: np.random.Generator
    ) -> Indices:
        """Return the client of each sample, or UNUSED. Clients are numbered in the order of their owners.

        Without a number of clients, every owner with `min_size` samples is one.
        """
        if owners is None:
            raise InputError(
                f"partition='{self}' is not accepted: this data does not say who owns which sample; expected data with "
                f"a client column, with a folder level per client, or a source such as shakespeare or speech-commands"
            )
        owners = np.asarray(owners)
        if owners.shape != (samples,) or owners.dtype.kind not in "iu":
            shown = f"{owners.dtype} of shape {owners.shape}"
            refuse("owners", shown, f"whole numbers, one for each of the {samples} samples")
        names, owner_index, sizes = np.unique(owners, return_inverse=True, return_counts=True)
        able = np.flatnonzero(sizes >= min_size)
        if self.most is not None and self.most < min_size:
            refuse("most", self.most, f"at least {min_size}, the samples every client must have")
        if not len(able):
            raise InputError(
                f"partition='{self}' with min_size={min_size} is not accepted: none of the {len(sizes)} owners in this "
                f"data has that many samples (the largest has {sizes.max(initial=0)}); use a smaller batch"
            )
        if clients is not None and clients > len(able):
            raise InputError(
                f"clients={clients} is not accepted: {len(able)} of the {len(sizes)} owners in this data have the "
                f"min_size={min_size} samples that partition='{self}' asks of a client; use at most {len(able)} "
                f"clients or a smaller batch"
            )
        chosen = len(able) if clients is None else clients
        client_of = np.full(len(names), UNUSED)
        client_of[np.sort(rng.choice(able, chosen, replace=False))] = np.arange(chosen)
        client = client_of[owner_index]
        if self.most is not None:
            shuffled = rng.permutation(len(owner_index))
            by_owner = shuffled[np.argsort(owner_index[shuffled], kind="stable")]
            rank = np.arange(len(owner_index)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            client[by_owner[rank >= self.most]] = UNUSED
        return client


# --------------------------------------------------------------------------------------------------------------------
# Ways of dividing samples among clients, as small values with a string form: "dirichlet(0.2)", "shards(2)",
# "natural".


class Spread(Protocol):
    """A way of spreading samples over clients by their labels; `str()` of it is what `partition` reads back."""

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        """Return the client of each sample, before clients with too few samples get more."""
        ...


Kind: TypeAlias = Spread | natural | Saved


@dataclass(frozen=True)
class dirichlet:
    """Divide with label skew; the smaller gamma, the fewer classes a client sees.

    For each class, the clients' shares are drawn from Dir(gamma), and a client that already holds an equal part of all
    samples gets none of the later classes (NIID-Bench). `balance=False` leaves that rule out. `by="client"` draws the
    mix of classes of each client instead, and `equal=True` with it gives all clients the same number of samples (Hsu).

    >>> str(dirichlet(gamma=0.2)), str(dirichlet(0.2, by="client", equal=True))
    ('dirichlet(0.2)', "dirichlet(0.2, by='client', equal=True)")
    """

    gamma: float
    _: KW_ONLY
    balance: bool = True
    by: str = "class"
    equal: bool = False

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0)
        check_flag("balance", self.balance)
        check_choice("by", self.by, ("class", "client"))
        check_flag("equal", self.equal)
        if self.equal and self.by == "class":
            refuse("equal", True, "False with by='class': only by='client' can give all clients the same number")
        if not self.balance and self.by == "client":
            refuse("balance", False, "no balance with by='client', which has no such rule")

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
        """Return how many samples of each class each client gets, `[classes, clients]`, from the classes' sizes."""
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
    """Draw q ~ Dir(gamma) for each row, as gamma log(q columns): for a small gamma, q itself underflows to 0."""
    # log Gamma(gamma) = log Gamma(gamma + 1) + log(U) / gamma, where -log U is exponential
    boosted = rng.standard_gamma(gamma + 1, size=(rows, columns)) / (gamma + 1)
    logs = gamma * np.log(boosted) - rng.standard_exponential(size=(rows, columns))
    logs -= logs.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        logs -= gamma * np.log(np.exp(logs / gamma).mean(axis=1, keepdims=True))
    return logs


def proportions(logs: npt.NDArray[np.float64], gamma: float) -> npt.NDArray[np.float64]:
    """Return shares that add up to 1 in each row, from gamma times their logarithms, up to a constant."""
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
class iid:
    """Give every client a random sample of the whole: shuffled, and dealt out like cards.

    >>> str(iid())
    'iid'
    """

    def __str__(self) -> str:
        return "iid"

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        return rng.permutation(np.arange(len(labels)) % clients)


@dataclass(frozen=True)
class shards:
    """Divide with label skew into clients of one size: each sees about `k` classes (McMahan, 2017).

    Sorted by label, samples are cut into clients * k equal shards, of which every client gets k at random.

    >>> str(shards(k=2))
    'shards(2)'
    """

    k: int

    def __post_init__(self) -> None:
        check_count("k", self.k)

    def __str__(self) -> str:
        return f"shards({self.k})"

    def owners(self, labels: Indices, clients: int, rng: np.random.Generator) -> Indices:
        samples, pieces = len(labels), clients * self.k
        if pieces > samples:
            raise InputError(
                f"partition='{self}' with clients={clients} is not accepted: that makes {pieces} shards of "
                f"{samples} samples; use fewer clients or a smaller k"
            )
        shuffled = rng.permutation(samples)
        by_label = shuffled[np.argsort(labels[shuffled], kind="stable")]
        client_of_shard = rng.permutation(np.arange(pieces) % clients)
        owner = np.empty(samples, dtype=np.int64)
        owner[by_label] = client_of_shard[np.arange(samples) * pieces // samples]
        return owner


PARTITIONS: dict[str, Callable[..., Kind]] = {"dirichlet": dirichlet, "iid": iid, "shards": shards, "natural": natural}


def parse(text: str) -> Kind:
    """Return the value that a string stands for: "dirichlet(0.2)", "dirichlet(gamma=0.2)", "natural", "file:runs/a"."""
    if text.strip().startswith(PREFIX):
        return Saved(text.strip().removeprefix(PREFIX))
    # No name has a colon, so the last entry only appears in messages.
    return build_one("partition", text, {**PARTITIONS, f"{PREFIX}PATH": Saved}, "dirichlet(0.2)")


# --------------------------------------------------------------------------------------------------------------------
# Which client has which samples: no sample goes to two clients, and no client is left with less than it needs.


def fill(owner: Indices, clients: int, min_size: int, rng: np.random.Generator) -> Indices:
    """Move samples, one at a time from the client that is then the largest, until every client has `min_size`.

    All moves are found at once: the largest clients end at a common level, like water.
    """
    sizes = np.bincount(owner, minlength=clients)
    lacking = np.maximum(min_size - sizes, 0)
    needed = int(lacking.sum())
    if needed == 0:
        return owner

    def above(level: int) -> int:
        return int(np.maximum(sizes - level, 0).sum())

    level = bisect.bisect_left(range(int(sizes.max()) + 1), True, key=lambda level: above(level) <= needed)
    giving = np.maximum(sizes - level, 0)
    # Whole levels rarely add up to exactly what is needed; the rest comes one each from clients at the level.
    giving[np.flatnonzero(sizes >= level)[: needed - above(level)]] += 1

    shuffled = rng.permutation(len(owner))
    by_client = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    moving = rng.permutation(by_client[rank < np.repeat(giving, sizes)])
    filled = owner.copy()
    filled[moving] = np.repeat(np.arange(clients), lacking)
    return filled


def partition(
    labels: Any,
    clients: int | None,
    how: str | Kind = "dirichlet(0.2)",
    *,
    min_size: int = 32,
    seed: int = 0,
    owners: Any = None,
) -> list[Indices]:
    """Return the sample indices of each client, ascending; with less than a batch, `min_size`, a client cannot train.

    `clients=None` makes a client of every owner with that many samples ("natural"), or of every one in the file.

    Every sample is used, except by "natural", for which `owners` gives the owner of each sample, and by "file:PATH",
    which is taken as it is. The owner that a natural client stands for is `owners[samples[0]]`.

    >>> [len(indices) for indices in partition([0, 1] * 50, clients=4, how="iid", min_size=10)]
    [25, 25, 25, 25]
    """
    return samples_by_client(
        clients_of(as_labels(labels), clients, how, min_size=min_size, seed=seed, owners=owners), clients
    )


def clients_of(
    labels: Indices, clients: int | None, how: str | Kind, *, min_size: int, seed: int, owners: Any = None
) -> npt.NDArray[Any]:
    """Return the client of each sample, as `partition` divides them; negative where a sample has none."""
    kind = parse(how) if isinstance(how, str) else how
    if not isinstance(kind, Saved | natural) and not callable(getattr(kind, "owners", None)):
        refuse("how", how, 'a string such as "dirichlet(0.2)" or a value such as data.dirichlet(0.2)')
    if clients is not None or not isinstance(kind, (natural, Saved)):
        check_count("clients", clients)
    check_count("min_size", min_size, low=0)
    check_seed("seed", seed)
    if isinstance(kind, Saved):
        return kind.clients_of(labels, clients)
    rng = generator(seed, "partition")
    if isinstance(kind, natural):
        return kind.clients_of(owners, len(labels), clients, min_size, rng)
    assert clients is not None
    if clients * min_size > len(labels):
        raise InputError(
            f"clients={clients} is not accepted: with at least {min_size} samples each (usually one batch) they need "
            f"{clients * min_size} samples, but there are {len(labels)}; use fewer clients or a smaller batch"
            + (", or partition natural: this data says whose each sample is" if owners is not None else "")
        )
    return fill(kind.owners(labels, clients, rng), clients, min_size, rng)


def samples_by_client(owner: npt.NDArray[Any], clients: int | None = None) -> list[Indices]:
    """Return the samples of each client, ascending, from the client of each sample; negative numbers are no client.

    Without a number of clients, it is that of those with samples.
    """
    clients = int(owner.max(initial=-1)) + 1 if clients is None else clients
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.searchsorted(owner[order], np.arange(clients + 1)))[1:-1]


def as_labels(labels: Any) -> Indices:
    """Take labels as an array, one per sample."""
    if hasattr(labels, "labels") or hasattr(labels, "train"):
        refuse("labels", labels, "the labels alone, one per sample, such as source.train.labels")
    try:
        array = np.asarray(labels)
    except (ValueError, TypeError, RuntimeError):
        refuse("labels", labels, "one label per sample, shape [samples]")
    if array.ndim != 1:
        refuse("labels", f"an array of shape {array.shape}", "one label per sample, shape [samples]")
    return array


# --------------------------------------------------------------------------------------------------------------------
# The client of every training sample, validation split included: what a run keeps in its folder.

VALIDATION = -1


def assign(
    labels: Any,
    clients: int | None,
    how: str | Kind,
    *,
    min_size: int,
    seed: int,
    validation: float = 0.0,
    owners: Any = None,
) -> Owners:
    """Return the client of each sample, -1 for those held out for validation, -2 for those not used.

    The validation share is drawn from all samples before the rest is divided. With "natural" each client holds out its
    own share, so that validation has the same owners as training; with "file:PATH" the file has decided.

    >>> sorted(assign([0, 1, 0, 1, 0], 2, "iid", min_size=2, seed=0, validation=0.2).tolist())
    [-1, 0, 0, 1, 1]
    """
    check_number("validation", validation, low=0, below=1)
    array = as_labels(labels)
    kind = parse(how) if isinstance(how, str) else how
    if isinstance(kind, Saved):
        if validation:
            refuse("validation", validation, f"0 with partition='{kind}', whose file says what is held out")
        return kind.clients_of(array, clients)
    owner: Owners = np.full(len(array), VALIDATION, dtype=np.int32)
    rng = generator(seed, "validation")
    if isinstance(kind, natural):
        # the fewest samples of which min_size are left when the share is gone
        needed = bisect.bisect_left(range(len(array) + 1), min_size, key=lambda size: size - round(validation * size))
        owner[:] = clients_of(array, clients, kind, min_size=needed, seed=seed, owners=owners)
        for samples in samples_by_client(owner, clients) if validation else ():
            owner[rng.permutation(samples)[: round(validation * len(samples))]] = VALIDATION
    else:
        rest = np.sort(rng.permutation(len(array))[round(validation * len(array)) :])
        owner[rest] = clients_of(array[rest], clients, kind, min_size=min_size, seed=seed)
    if validation and not (owner == VALIDATION).any():
        refuse("validation", validation, f"0, or at least one of the {len(array)} training samples")
    return owner


# --------------------------------------------------------------------------------------------------------------------
# How the classes of each client are mixed, and how far that is from balance.


def class_counts(labels: Any, clients: Sequence[npt.NDArray[np.int64]], classes: int) -> npt.NDArray[np.int64]:
    """Count the samples of each class that each client has, `[clients, classes]`; `clients` has the samples of each.

    >>> class_counts([0, 1, 1, 2], [np.array([0, 1]), np.array([2, 3])], classes=3).tolist()
    [[1, 1, 0], [0, 1, 1]]
    """
    check_count("classes", classes)
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        refuse("labels", f"{array.dtype} of shape {array.shape}", "a class number per sample, shape [samples]")
    low, high = int(array.min(initial=0)), int(array.max(initial=0))
    if low < 0 or high >= classes:
        refuse("labels", low if low < 0 else high, f"class numbers from 0 to {classes - 1}")
    counts = [np.bincount(array[samples].astype(np.int64), minlength=classes) for samples in clients]
    return np.array(counts, dtype=np.int64).reshape(len(clients), classes)


def mixes(targets: Sequence[Tensor]) -> npt.NDArray[np.int64]:
    """Count the samples of each class that each client has, from its own targets."""
    labels = np.concatenate([np.asarray(own.cpu()) for own in targets])
    edges = np.cumsum([0, *map(len, targets)])
    clients = [np.arange(low, high) for low, high in pairwise(edges)]
    return class_counts(labels, clients, classes=1 + int(labels.max(initial=0)))


def divergence(counts: Any) -> npt.NDArray[np.float64]:
    """Return the Jensen-Shannon divergence of each client's class mix from balance, in bits: 0 balanced, at most 1.

    A client without samples has no mix, and NaN.

    >>> divergence([[5, 5], [10, 0]]).round(4).tolist()
    [0.0, 0.3113]
    """
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "iu" or array.min(initial=0) < 0:
        refuse("counts", f"{array.dtype} of shape {array.shape}", "numbers of samples, shape [clients, classes]")
    sizes = array.sum(axis=1, keepdims=True)
    mix = np.divide(array, sizes, out=np.full(array.shape, np.nan), where=sizes > 0)
    balance = np.full(array.shape, 1 / array.shape[1])
    middle = (mix + balance) / 2
    # JS(q, u) = KL(q | m) / 2 + KL(u | m) / 2 with m = (q + u) / 2
    bits: npt.NDArray[np.float64] = (_relative_entropy(mix, middle) + _relative_entropy(balance, middle)) / 2
    return np.maximum(bits, 0)


def _relative_entropy(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    # KL(p | m) = sum p log2(p / m), where 0 log 0 is 0
    ratio = np.divide(one, other, out=np.ones_like(one), where=one != 0)
    total: npt.NDArray[np.float64] = (one * np.log2(ratio)).sum(axis=1)
    return total
