"""Data sets by name or one's own, how their samples are handed to clients, and in which order clients read them.

Public: the names in `__all__`.
"""

from smofi.data.assignment import assign
from smofi.data.batches import batch_order, select_clients
from smofi.data.kinds import PARTITIONS, dirichlet, iid, shards
from smofi.data.load import check_data_name, fetch, load
from smofi.data.natural import natural
from smofi.data.partition import partition
from smofi.data.samples import TensorSamples
from smofi.data.saved import read_partition, write_partition
from smofi.data.source import Source

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
    "select_clients",
    "shards",
    "write_partition",
]
