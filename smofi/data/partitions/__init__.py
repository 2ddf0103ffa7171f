"""Which client has which samples.

divide        the samples of each client; no sample goes to two, and no client is left with less than it needs
kinds         how: "dirichlet(0.2)", "iid", "shards(2)", and what other strings stand for
natural       how the data itself is divided: by role, by speaker, by site
saved         the partition of another run, from its file
assignment    the client of each sample, those held out for validation included
mix           how many samples of each class a client has, and how far from balance that is
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.data.partitions.assignment import VALIDATION, assign
    from smofi.data.partitions.divide import partition
    from smofi.data.partitions.kinds import PARTITIONS, dirichlet, iid, shards
    from smofi.data.partitions.natural import natural
    from smofi.data.partitions.saved import UNUSED, read_partition, write_partition
else:
    load_later(
        __name__,
        assignment="VALIDATION assign",
        divide="partition",
        kinds="PARTITIONS dirichlet iid shards",
        natural="natural",
        saved="UNUSED read_partition write_partition",
    )

__all__ = [
    "PARTITIONS",
    "UNUSED",
    "VALIDATION",
    "assign",
    "dirichlet",
    "iid",
    "natural",
    "partition",
    "read_partition",
    "shards",
    "write_partition",
]
