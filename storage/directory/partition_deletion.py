"""Deleting partitions: the directory is renamed at once, its content goes later.

    orders-0   →   orders-0.5f0c…(32 hex)…-delete   →   gone after file.delete.delay.ms

After the rename the partition is no more: its name may be given to a new one. Who holds its log reads on until the
files are unlinked, and can write no more. A crash leaves the `-delete` directory, which whoever opens the log directory
next queues again; directories that end in `-future` and `-stray` are a broker's, and left alone. Follows Kafka's
LogManager.asyncDelete and LocalLog.logDeleteDirName.
"""

from __future__ import annotations

import os
import re
import uuid

from offsetfs.storage import files
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments import segment_names

NAME_LENGTH_MAX = 255
"""The longest name that file systems take."""

_DELETED = re.compile(r"\S+-\S+\.\S+-delete\Z")


def deletion_name(partition: TopicPartition) -> str:
    """Return a name for the directory of a partition that is deleted; the topic in it is cut to what fits."""
    ending = f"-{partition.partition}.{uuid.uuid4().hex}-delete"
    return partition.topic[: NAME_LENGTH_MAX - len(ending)] + ending


def is_deleted(name: str) -> bool:
    """Whether a directory of this name waits for its removal."""
    return _DELETED.match(name) is not None


def deleted_directories(path: str) -> list[str]:
    """Return the paths of the directories in a log directory that wait for their removal."""
    return [os.path.join(path, name) for name in files.directory_names(path) if is_deleted(name)]


def rename_partition(path: str, partition: TopicPartition, log: Log | None) -> str:
    """Rename the directory of a partition in log directory `path`; return its new path. The caller syncs `path`.

    `log` is the partition's, if it is open: it follows, and takes no more writes.
    """
    source, target = os.path.join(path, str(partition)), os.path.join(path, deletion_name(partition))
    files.rename(source, target)
    if log is not None:
        log.mark_deleted(target)
        for segment in log.snapshot():
            segment_names.move(segment, target)
    return target


def remove_tree(path: str) -> None:
    """Remove the directory `path` with all in it; what is gone already is passed over."""
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


def let_go(log: Log) -> None:
    """Close what is open of a deleted log once nobody reads it, so that its room on disk is free."""
    for segment in log.snapshot():
        segment.release()
