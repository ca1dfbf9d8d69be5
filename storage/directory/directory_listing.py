"""What a log directory is, by the names in it: whether it is one, and which partitions it has."""

from __future__ import annotations

import os
import re

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from offsetfs.storage.directory import partition_deletion
from offsetfs.storage.errors import InvalidName, NotALogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.recovery.log_loader import belongs_to_partition
from offsetfs.storage.settings.topic_settings import TOPICS

_SIGNS = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS, META_PROPERTIES, CLEAN_SHUTDOWN, TOPICS)

_FUTURE = re.compile(r"(?P<partition>.+)\.[0-9a-f]{32}-future\Z")


def check_log_directory(path: str, *, read_only: bool) -> None:
    """Raise `NotALogDirectory` unless `path` is a directory that holds a log directory, or nothing at all."""
    try:
        entries = files.names(path)
    except FileNotFoundError:
        raise NotALogDirectory("there is no such directory", path=path) from None
    except NotADirectoryError:
        raise NotALogDirectory("is not a directory", path=path) from None
    # A crash may leave the first of its files without a name of its own, and a partition without a log.
    if any(name.removesuffix(".tmp") in _SIGNS for name in entries) or any(_holds_a_log(path, n) for n in entries):
        return
    if [name for name in entries if name not in (".lock", "lost+found")]:
        raise NotALogDirectory("holds neither partitions (orders-0) nor Kafka's checkpoints", path=path)
    if read_only:
        raise NotALogDirectory("is empty", path=path)


def _parsed(name: str) -> TopicPartition | None:
    try:
        return TopicPartition.parse(name)
    except InvalidName:
        return None


def _holds_a_log(path: str, name: str) -> bool:
    """Whether `name` is called like a partition, or like a deleted one, and is one: it holds a log or nothing else."""
    partition = os.path.join(path, name)
    if not (_parsed(name) or partition_deletion.is_deleted(name)) or not files.is_directory(partition):
        return False
    names = files.names(partition)
    return any(file.endswith(".log") for file in names) or all(belongs_to_partition(file) for file in names)


def future_in(path: str, partition: TopicPartition) -> str | None:
    """Return the path of the partition's future replica in the log directory `path`, None when it has none.

    Kafka names it `<partition>.<uuid>-future` while it moves the partition here from another log directory (KIP-113).
    """
    found = (_FUTURE.match(name) for name in files.directory_names(path))
    return next((os.path.join(path, name[0]) for name in found if name and name["partition"] == str(partition)), None)


def partitions_in(path: str) -> list[TopicPartition]:
    """Return what parses as a partition; directories being deleted or moved (`….<uuid>-delete`) do not."""
    parsed = (_parsed(name) for name in files.directory_names(path))
    return [partition for partition in parsed if partition is not None]
