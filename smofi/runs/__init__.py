"""The run folder: the one place that knows its files, reads them safely, and writes each whole or not at all.

folder.py        the files of one run, by name                 comparison.py   several methods: a folder for each
checkpoint.py    a run's state in one file, with checksums     partition.py    which client has which sample
lock.py          one writer at a time, and who that is

It knows plain values only: dictionaries, tensors, arrays. When to save what is up to `experiment/keeping.py`.

Internal: may change without notice.
"""

from smofi.runs.checkpoint import DamagedCheckpoint, StoredCheckpoint, read_checkpoint, write_checkpoint
from smofi.runs.comparison import folders_below, folders_for, folders_in, partition_in
from smofi.runs.folder import RunFolder
from smofi.runs.lock import FolderLock, writer_of
from smofi.runs.partition import (
    StoredPartition,
    labels_hash,
    partition_hash,
    read_partition_file,
    write_partition_file,
)

__all__ = [
    "DamagedCheckpoint",
    "FolderLock",
    "RunFolder",
    "StoredCheckpoint",
    "StoredPartition",
    "folders_below",
    "folders_for",
    "folders_in",
    "labels_hash",
    "partition_hash",
    "partition_in",
    "read_checkpoint",
    "read_partition_file",
    "write_checkpoint",
    "write_partition_file",
    "writer_of",
]
