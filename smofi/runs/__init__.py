"""The run folder: the one place that knows its files, believes only what the run saved, and writes each whole or not
at all.

Internal: may change without notice.
"""

from smofi.runs.comparison import (
    Participant,
    check_free,
    folders_for,
    folders_in,
    is_of_a_run,
    names_and_samples,
    participants_in,
    partition_in,
    read_participants,
    resuming_command,
    runs_below,
    whole_of,
    write_participants,
)
from smofi.runs.folder import (
    DamagedFile,
    RunFolder,
    StoredCheckpoint,
    StoredPartition,
    UnreadableFile,
    labels_hash,
    partition_hash,
    read_checkpoint,
    read_partition_file,
    write_partition_file,
)
from smofi.runs.writing import FolderLock, RunWriter, write_tracker_id, writer_of

__all__ = [
    "DamagedFile", "FolderLock", "Participant", "RunFolder", "RunWriter", "StoredCheckpoint", "StoredPartition",
    "UnreadableFile", "check_free", "folders_for", "folders_in", "is_of_a_run", "labels_hash", "names_and_samples",
    "participants_in", "partition_hash", "partition_in", "read_checkpoint", "read_participants",
    "read_partition_file", "resuming_command", "runs_below", "whole_of", "write_participants", "write_partition_file",
    "write_tracker_id", "writer_of",
]  # fmt: skip
