"""Data sets by name or the user's own, how their samples are divided among clients, and in which order they are read.

Public: the names in `__all__`.
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.data.batches import batch_order
    from smofi.data.catalogue import check_data_name
    from smofi.data.loading import fetch, load
    from smofi.data.partitions import (
        PARTITIONS,
        assign,
        dirichlet,
        iid,
        natural,
        partition,
        read_partition,
        shards,
        write_partition,
    )
    from smofi.data.samples import TensorSamples
    from smofi.data.source import Source
else:
    load_later(
        __name__,
        batches="batch_order",
        catalogue="check_data_name",
        loading="fetch load",
        partitions="PARTITIONS assign dirichlet iid natural partition read_partition shards write_partition",
        samples="TensorSamples",
        source="Source",
    )

__all__ = [
    "PARTITIONS",
    "Source",
    "TensorSamples",
    "assign",
    "batch_order",
    "check_data_name",
    "dirichlet",
    "fetch",
    "iid",
    "load",
    "natural",
    "partition",
    "read_partition",
    "shards",
    "write_partition",
]
