"""Deletion of partitions: the directory is renamed at once, its files are removed later.

    orders-0   →   orders-0.5f0c…(32 hex)…-delete   →   removed after file.delete.delay.ms

After the rename the name is free for a new partition. Readers that hold the old log can read on until its files are
unlinked; writes fail. After a crash the next opening of the log directory queues `-delete` directories again.
Directories that end in `-future` and `-stray` belong to a broker and are not touched. Follows Kafka's
LogManager.asyncDelete and LocalLog.logDeleteDirName.
"""

from __future__ import annotations

import os
import uuid

from offsetfs.storage import files
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments import segment_names

NAME_LENGTH_MAX = 255
"""The longest file name that common file systems support."""

_DELETED = "-delete"


def deletion_name(partition: TopicPartition) -> str:
    """Return the name for the directory of a deleted partition; the topic name is shortened if needed."""
    ending = f"-{partition.partition}.{uuid.uuid4().hex}-delete"
    # As LocalLog.logDeleteDirName since KAFKA-4893: a topic name may have 249 characters, and a file name 255.
    return partition.topic[: NAME_LENGTH_MAX - len(ending)] + ending


def is_deleted(name: str) -> bool:
    """Whether a directory of this name waits for its removal."""
    if not name.endswith(_DELETED) or any(map(str.isspace, name)):
        return False
    # Kafka's (\S+)-(\S+)\.(\S+)-delete, which tries each dash with each dot where it does not match.
    body = name.removesuffix(_DELETED)
    dash = body.find("-", 1)
    dot = body.find(".", dash + 2)
    return dash > 0 and 0 < dot < len(body) - 1


def deleted_directories(path: str) -> list[str]:
    """Return the paths of the directories in a log directory that wait for their removal."""
    return [os.path.join(path, name) for name in files.directory_names(path) if is_deleted(name)]


def rename_partition(path: str, partition: TopicPartition, log: Log | None) -> str:
    """Rename the directory of a partition in log directory `path`; return its new path. The caller syncs `path`.

    `log` is the partition's log if it is open. It follows the rename and accepts no more writes.
    """
    source, target = os.path.join(path, str(partition)), os.path.join(path, deletion_name(partition))
    files.rename(source, target)
    if log is not None:
        # After the rename: an append that was in progress has finished in the renamed directory, later ones are
        # refused.
        log.mark_deleted(target)
        for segment in log.snapshot():
            # Readers reopen files by path; the path must follow the directory.
            segment_names.move(segment, target)
    return target


def remove_tree(path: str) -> None:
    """Remove the directory `path` with everything in it. Files that are already gone are skipped."""
    if not files.is_directory(path):
        return
    directories = set(files.directory_names(path))
    for name in files.names(path):
        inner = os.path.join(path, name)
        if name in directories:
            remove_tree(inner)
        else:
            files.remove_file(inner)
    files.remove_directory(path)


def close_log(log: Log) -> None:
    """Close the files of a deleted log when no reader uses them, so that their disk space is freed."""
    for segment in log.snapshot():
        segment.release()
