"""Recognizes a log directory and its partitions by the names in it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, cast

from sortedcontainers import SortedKeyList

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    LOGIN_SECRET_FILE,
    META_PROPERTIES,
    RECOVERY_POINTS,
    SECURITY_FILE,
)
from offsetfs.storage.directory import partition_directories
from offsetfs.storage.directory.mirror_file import MIRROR_FILE
from offsetfs.storage.errors import InvalidCheckpoint, NotALogDirectory
from offsetfs.storage.names import PARTITION_MAX, TopicPartition, parse_segment_name
from offsetfs.storage.recovery.log_loader import belongs_to_partition
from offsetfs.storage.settings.topic_settings import TOPICS

LOAD_JOURNAL = ".offsetfs-table-load.json"
"""The file of `offsetfs table load` that says what is incomplete: until its first partition, the only one there is."""

RESTORE_JOURNAL = ".offsetfs-restore.json"
"""The file of `offsetfs restore` that says what is incomplete: until its first partition, the only one there is."""

MARKER_FILES = (
    RECOVERY_POINTS,
    LOG_STARTS,
    HIGH_WATERMARKS,
    CLEANER_OFFSETS,
    META_PROPERTIES,
    CLEAN_SHUTDOWN,
    SECURITY_FILE,
    LOGIN_SECRET_FILE,
    TOPICS,
    MIRROR_FILE,
    LOAD_JOURNAL,
    RESTORE_JOURNAL,
)
"""Files that occur only in log directories."""

FUTURE = re.compile(r"(?P<partition>.+)\.[0-9a-f]{32}-future\Z")


def has_meta_properties(path: str) -> bool:
    """Return whether the directory has `meta.properties`, which a broker writes when it first uses a directory."""
    return files.exists(os.path.join(path, META_PROPERTIES))


def log_directory_ids(path: str) -> tuple[str, ...]:
    """Return what distinguishes a log directory from others, best first, at least one name.

    `directory.id` of `meta.properties`, which Kafka 3.7 adds; cluster and broker, `<cluster.id>/<node.id>`, whose
    directories never have the same partition. Without `meta.properties`, as of directories that no broker has used,
    `inode <number>`; this may be the same on two file systems. `InvalidCheckpoint` for a damaged file.
    """
    properties = checkpoint.read_properties(os.path.join(path, META_PROPERTIES)) or {}
    cluster, node = properties.get("cluster.id"), properties.get("node.id", properties.get("broker.id"))
    ids = [properties["directory.id"]] if properties.get("directory.id") else []
    if cluster and node:
        ids.append(f"{cluster}/{node}")
    return tuple(ids) or (f"inode {files.status(path).st_ino}",)


def cluster_id_of(path: str) -> str:
    """Return the id of the cluster that a log directory is of: `cluster.id` of `meta.properties`.

    Without one, or if the file is damaged, `offsetfs-<inode number>`: clients can tell directories apart.
    """
    with contextlib.suppress(InvalidCheckpoint):
        properties = checkpoint.read_properties(os.path.join(path, META_PROPERTIES)) or {}
        if properties.get("cluster.id"):
            return properties["cluster.id"]
    return f"offsetfs-{files.status(path).st_ino}"


def check_log_directory(path: str, *, read_only: bool) -> None:
    """Raise `NotALogDirectory` unless `path` is a log directory, or an empty directory that can become one."""
    try:
        entries = files.names(path)
    except FileNotFoundError:
        raise NotALogDirectory("there is no such directory", path=path) from None
    except NotADirectoryError:
        raise NotALogDirectory("is not a directory", path=path) from None
    # A crash may leave a temporary file as the only file, or a partition without a log.
    if any(name.removesuffix(".tmp") in MARKER_FILES for name in entries) or any(
        _is_partition(path, n) for n in entries
    ):
        return
    if any(parse_segment_name(name) for name in entries):
        parent = os.path.dirname(os.path.abspath(path))
        raise NotALogDirectory(f"is the directory of a partition; give its log directory, {parent}", path=path)
    if [name for name in entries if name not in (".lock", "lost+found")]:
        raise NotALogDirectory("holds neither partitions (orders-0) nor Kafka's checkpoints", path=path)
    if read_only:
        raise NotALogDirectory("is empty", path=path)


def _is_partition(path: str, name: str) -> bool:
    """Whether `name` has the form of a partition or a deleted partition, and contains a log or no other files."""
    partition = os.path.join(path, name)
    has_form = TopicPartition.parse_or_none(name) is not None or partition_directories.is_deleted(name)
    if not has_form or not files.is_directory(partition):
        return False
    names = files.names(partition)
    return any(file.endswith(".log") for file in names) or all(belongs_to_partition(file) for file in names)


def partitions_in(path: str) -> list[TopicPartition]:
    """Return the partitions, by their names. Directories being deleted or moved (`….<uuid>-delete`) do not count."""
    parsed = (TopicPartition.parse_or_none(name) for name in files.directory_names(path))
    return [partition for partition in parsed if partition is not None]


def sorted_partitions(partitions: Iterable[TopicPartition]) -> Sequence[TopicPartition]:
    """Return partitions by topic, then by number, for any number of readers. The result never changes."""
    ordered: Any = SortedKeyList(partitions, key=attrgetter("topic", "partition"))  # their own order takes longer
    if ordered:
        ordered.index(ordered[-1])  # makes the list's table of positions: two readers must not make it at once
    return cast("Sequence[TopicPartition]", ordered)


def partitions_of(partitions: Sequence[TopicPartition], topic: str) -> list[TopicPartition]:
    """Return those of one topic among `sorted_partitions`; costs a binary search."""
    ordered: Any = partitions
    return list(ordered.irange_key((topic, 0), (topic, PARTITION_MAX)))


def log_bytes_in(path: str) -> int:
    """Return the bytes in all `.log` files of the partition in `path`. OSError if it is gone."""
    sizes = 0
    for name in files.names(path):
        if name.endswith(".log"):
            with contextlib.suppress(FileNotFoundError):  # retention has removed it
                sizes += files.status(os.path.join(path, name)).st_size
    return sizes
