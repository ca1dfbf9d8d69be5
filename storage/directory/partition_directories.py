"""Creation and deletion of the directories of partitions. Each has the name of a deleted partition at one time.

    creation    orders-0.5f0c…(32 hex)…-delete   →   orders-0, once all files are on disk
    deletion    orders-0   →   orders-0.5f0c…(32 hex)…-delete   →   removed after file.delete.delay.ms

A new partition has the files that a broker creates: `.log`, `.index` and `.timeindex` of base offset 0, empty, epoch 0
from offset 0, and the topic id, a random UUID as the controller assigns it. The epoch is the one that a broker assigns
when it becomes the leader of a new partition. Its file is synced together with the others: a first append to each of a
thousand partitions would sync a thousand files one by one. An incomplete partition is never taken for a partition:
after a crash the next opening, by offsetfs or by a broker, removes it.

After the rename of a deletion the name is free for a new partition. Readers that hold the old log can read on until its
files are unlinked; writes fail. After a crash the next opening of the log directory queues `-delete` directories again.
Directories that end in `-future` and `-stray` belong to a broker and are not touched. Follows Kafka's
LogManager.getOrCreateLog, LogManager.asyncDelete and LocalLog.logDeleteDirName.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterable, Sequence

from offsetfs.storage import checkpoint, files, parallel
from offsetfs.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.names import TopicPartition, segment_name
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


def create(
    directory: str,
    partitions: Sequence[TopicPartition],
    others: Iterable[TopicPartition],
    topic_id: bytes | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Create empty partitions in log directory `directory`, which has `others`; durable on return.

    `topic_id`: of topics that have no partition yet; None: a random one. `is_stopped` is asked before each partition;
    True ends the creation with ECANCELED.

    After an OSError some of them may exist, durable or not; see `remove_failed`.
    """
    topic_ids = _topic_ids(directory, {partition.topic for partition in partitions}, others, topic_id)
    unborn = {partition: os.path.join(directory, deletion_name(partition)) for partition in partitions}
    try:
        # A thousand syncs in 16 threads share commits of the file system's journal; one after another they take
        # seconds.
        parallel.for_each(
            partitions, lambda partition: _create_files(unborn[partition], topic_ids[partition.topic], is_stopped)
        )
        # No partition gets its name before all files of all of them are synced: a power cut leaves complete partitions
        # or none.
        for partition, path in unborn.items():
            files.rename(path, os.path.join(directory, str(partition)))
    except OSError:
        for path in unborn.values():
            with contextlib.suppress(OSError):  # the next opening removes what stays
                remove_tree(path)
        raise
    files.sync_directory(directory)


def remove_failed(directory: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Remove partitions whose creation failed; return those that could not be removed completely."""
    left = []
    for partition in partitions:
        try:
            remove_tree(os.path.join(directory, str(partition)))
        except OSError:
            left.append(partition)
    return left


def _create_files(path: str, topic_id: bytes, is_stopped: Callable[[], bool]) -> None:
    """Create a directory with all files of a partition. Everything but its own name is synced on return."""
    if is_stopped():
        raise OSError(errno.ECANCELED, "the creation was stopped", path)
    files.make_directory(path)
    for suffix in (".log", ".index", ".timeindex"):
        files.create_file(os.path.join(path, segment_name(0, suffix))).close()
    # Written here, because the first appends to 1,000 new partitions spent 1.5 s in syncs of this file.
    checkpoint.write_epochs(os.path.join(path, LEADER_EPOCHS), [(0, 0)], sync_name=False)
    checkpoint.write_topic_id(os.path.join(path, PARTITION_METADATA), topic_id, sync_name=False)
    files.sync_directory(path)


def _topic_ids(
    directory: str, topics: set[str], others: Iterable[TopicPartition], topic_id: bytes | None
) -> dict[str, bytes]:
    """Return the topic ids: all partitions of a topic share one, given or generated for the first."""
    known: dict[str, bytes] = {}
    for partition in others:
        if partition.topic in topics and partition.topic not in known:
            topic_id = checkpoint.read_topic_id(os.path.join(directory, str(partition), PARTITION_METADATA))
            if topic_id is not None:
                known[partition.topic] = topic_id
    return {topic: known.get(topic) or topic_id or uuid.uuid4().bytes for topic in topics}
