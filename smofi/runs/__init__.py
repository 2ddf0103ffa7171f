"""The run folder: the one place that knows its files, believes only what the run saved, and writes each whole or not
at all.

folder.py       the files of one run, by name, and reading them     writing.py        saving them
manifest.py     which files there are, with checksums               comparison.py     several methods and seeds
history.py      the rounds on record                                partition.py      which client has which sample
checkpoint.py   a run's state in one file                           taking.py         which folders a new run may take
lock.py         one writer at a time, and who that is               participants.py   the clients of a served run

It knows plain values only: dictionaries, tensors, arrays. When to save what is up to `experiment/keeping.py`.

Internal: may change without notice.
"""

from smofi.runs.checkpoint import StoredCheckpoint, read_checkpoint
from smofi.runs.comparison import (
    folders_for,
    folders_in,
    is_of_a_run,
    partition_in,
    resuming_command,
    runs_below,
    whole_of,
)
from smofi.runs.folder import RunFolder
from smofi.runs.lock import FolderLock, writer_of
from smofi.runs.manifest import DamagedFile, UnreadableFile
from smofi.runs.participants import (
    Participant,
    names_and_samples,
    participants_in,
    read_participants,
    write_participants,
)
from smofi.runs.partition import (
    StoredPartition,
    labels_hash,
    partition_hash,
    read_partition_file,
    write_partition_file,
)
from smofi.runs.taking import check_free
from smofi.runs.writing import RunWriter, write_tracker_id

__all__ = [
    "DamagedFile",
    "FolderLock",
    "Participant",
    "RunFolder",
    "RunWriter",
    "StoredCheckpoint",
    "StoredPartition",
    "UnreadableFile",
    "check_free",
    "folders_for",
    "folders_in",
    "labels_hash",
    "is_of_a_run",
    "names_and_samples",
    "participants_in",
    "partition_hash",
    "partition_in",
    "read_checkpoint",
    "read_participants",
    "read_partition_file",
    "runs_below",
    "resuming_command",
    "whole_of",
    "write_participants",
    "write_partition_file",
    "write_tracker_id",
    "writer_of",
]
