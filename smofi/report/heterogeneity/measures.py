"""What a partition is like, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from smofi.config import Config
from smofi.config.federation import Federation
from smofi.data.partitions.mix import class_counts, divergence
from smofi.errors import check_count, refuse
from smofi.plural import between, plural
from smofi.report.heading import seeds_of, short
from smofi.report.numbers import median_count, one_decimal, two_decimals

# Told apart by colour-blind readers too, on light and on dark: Okabe and Ito's palette, and three between its hues.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
    "#D55E00", "#8F6BC4", "#F0E442", "#8A8A8A", "#8B5E3C",
)  # fmt: skip


def title_of(config: Config) -> str:
    """What is divided, and how.

    >>> title_of(Config(clients=4, seeds="0-2", partition="iid"))
    'digits, iid, 4 clients, seeds 0-2'
    """
    clients = plural(config.known_clients, "client")
    return f"{short(config.data)}, {short(config.partition)}, {clients}, {seeds_of(config)}"


@dataclass(frozen=True)
class Group:
    """Neighbouring classes that share a colour; a single class if there are colours for all."""

    name: str
    classes: slice
    colour: str


@dataclass(frozen=True, eq=False)
class Heterogeneity:
    """How many samples of each class each client has, `[clients, classes]`, with a title, the names of the classes, and
    those of the clients where they have any.

    >>> about = Heterogeneity("two clients", np.array([[5, 5], [30, 0]]), ["cat", "dog"], batch_size=16)
    >>> about.sizes.tolist(), about.below_batch, about.classes_per_client.tolist()
    ([10, 30], 1, [2, 1])
    """

    title: str
    counts: npt.NDArray[np.int64]
    class_names: Sequence[str]
    batch_size: int
    remarks: Sequence[str] = ()
    client_names: Sequence[str] = ()

    @classmethod
    def of(cls, config: Config, federation: Federation) -> Heterogeneity:
        """How a configuration divides its data."""
        source = federation.source
        shape = " x ".join(map(str, source.input_shape))
        return cls(
            title_of(config),
            class_counts(source.train.labels, federation.indices, source.classes),
            source.class_names,
            config.batch_size,
            [f"shape of a sample: {shape}; test samples: {len(federation.test):,}", *source.remarks],
            federation.client_names,
        )

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        shape, kind = np.shape(self.counts), np.asarray(self.counts).dtype.kind
        if len(shape) != 2 or 0 in shape or kind not in "iu" or np.min(self.counts) < 0 or not np.max(self.counts):
            refuse("counts", f"shape {shape}", "numbers of samples, not all of them 0, of shape [clients, classes]")
        if len(self.class_names) != shape[1]:
            refuse("class_names", f"{len(self.class_names)} names", f"a name for each of the {shape[1]} classes")

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The samples of each client."""
        sizes: npt.NDArray[np.int64] = self.counts.sum(axis=1)
        return sizes

    @cached_property
    def divergences(self) -> npt.NDArray[np.float64]:
        """Each client's Jensen-Shannon divergence from balance; NaN for a client without samples."""
        return divergence(self.counts)

    @property
    def classes_per_client(self) -> npt.NDArray[np.int64]:
        """How many classes each client has samples of."""
        classes: npt.NDArray[np.int64] = np.count_nonzero(self.counts, axis=1)
        return classes

    @property
    def below_batch(self) -> int:
        """The clients that cannot fill one batch, and so never train."""
        return int((self.sizes < self.batch_size).sum())

    @property
    def by_size(self) -> npt.NDArray[np.int64]:
        """The clients, largest first; equal ones in their order."""
        return np.argsort(-self.sizes, kind="stable")

    def name_of(self, client: int) -> str:
        """A client's name, or else its number."""
        return self.client_names[client] if self.client_names else f"{client:,}"

    def groups(self) -> list[Group]:
        """A colour per class; where the colours do not suffice, per stretch of classes.

        >>> many = Heterogeneity("many", np.ones((1, 35), dtype=int), [str(i) for i in range(35)], batch_size=1)
        >>> [group.name for group in many.groups()][:3]
        ['0 to 3', '4 to 7', '8 to 11']
        """
        stretches = np.array_split(np.arange(len(self.class_names)), min(len(self.class_names), len(PALETTE)))
        ends = [(int(stretch[0]), int(stretch[-1])) for stretch in stretches]
        names = [self.class_names[low] + (f" to {self.class_names[high]}" if high > low else "") for low, high in ends]
        return [
            Group(name, slice(low, high + 1), colour)
            for name, (low, high), colour in zip(names, ends, PALETTE, strict=False)
        ]

    def grouped(self) -> npt.NDArray[np.int64]:
        """The counts by group, `[clients, groups]`."""
        return np.stack([self.counts[:, group.classes].sum(axis=1) for group in self.groups()], axis=1)

    def summary(self) -> list[str]:
        """The partition in three sentences.

        >>> Heterogeneity("one", np.array([[5, 5]]), ["a", "b"], batch_size=4).summary()[0]
        '1 client, 10 samples: 10 each, median 10; none has less than a batch of 4'
        """
        sizes, classes, known = self.sizes, self.classes_per_client, self.divergences[self.sizes > 0]
        below = f"{self.below_batch:,} have" if self.below_batch > 1 else "1 has" if self.below_batch else "none has"
        return [
            f"{plural(len(sizes), 'client')}, {plural(int(sizes.sum()), 'sample')}: "
            f"{between(int(sizes.min()), int(sizes.max()))} each, median {median_count(float(np.median(sizes)))}; "
            f"{below} less than a batch of {self.batch_size:,}",
            f"classes per client: {between(int(classes.min()), int(classes.max()))} of {len(self.class_names):,}, "
            f"{one_decimal(classes.mean())} on average",
            f"divergence from balance (Jensen-Shannon, 0 to 1): {two_decimals(known.mean())} on average, "
            f"{two_decimals(known.min())} to {two_decimals(known.max())}",
        ]
