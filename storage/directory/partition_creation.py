"""Creation of partitions, with the files that a broker creates in a new one.

    <base offset>.log  .index  .timeindex (empty)  leader-epoch-checkpoint (0 from 0)  partition.metadata (topic id)

    orders-0.5f0c…(32 hex)…-delete   →   orders-0, once all files are on disk

An incomplete partition has the name of a deleted one. So after a crash the next opening, by offsetfs or by a broker,
removes it, and never takes it for a partition.

Follows Kafka's LogManager.getOrCreateLog. The topic id is a random UUID, as the controller assigns it. The epoch is the
one that a broker assigns when it becomes the leader of a new partition. It is written here because its file is synced
together with the others: a first append to each of a thousand partitions would sync a thousand files one by one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Callable, Iterable, Sequence

from offsetfs.storage import checkpoint, files, parallel
from offsetfs.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.directory import partition_deletion
from offsetfs.storage.names import TopicPartition, segment_name


def make(
    directory: str,
    partitions: Sequence[TopicPartition],
    others: Iterable[TopicPartition],
    topic_id: bytes | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Create empty partitions in log directory `directory`, which has `others`; durable on return.

    `topic_id`: of topics that have no partition yet; None: a random one. `is_stopped` is asked before each partition;
    True ends the creation with ECANCELED.

    After an OSError some of them may exist, durable or not; see `unmake`.
    """
    topic_ids = _topic_ids(directory, {each.topic for each in partitions}, others, topic_id)
    unborn = {each: os.path.join(directory, partition_deletion.deletion_name(each)) for each in partitions}
    try:
        # A thousand syncs in 16 threads share commits of the file system's journal; one after another they take
        # seconds.
        parallel.for_each(partitions, lambda each: _fill(unborn[each], topic_ids[each.topic], is_stopped))
        # No partition gets its name before all files of all of them are synced: a power cut leaves complete partitions
        # or none.
        for partition, path in unborn.items():
            files.rename(path, os.path.join(directory, str(partition)))
    except OSError:
        for path in unborn.values():
            with contextlib.suppress(OSError):  # the next opening removes what stays
                partition_deletion.remove_tree(path)
        raise
    files.sync_directory(directory)


def unmake(directory: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Remove partitions whose creation failed; return those that could not be removed completely."""
    left = []
    for partition in partitions:
        try:
            partition_deletion.remove_tree(os.path.join(directory, str(partition)))
        except OSError:
            left.append(partition)
    return left


def _fill(path: str, topic_id: bytes, is_stopped: Callable[[], bool]) -> None:
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
    for each in others:
        if each.topic in topics and each.topic not in known:
            topic_id = checkpoint.read_topic_id(os.path.join(directory, str(each), PARTITION_METADATA))
            if topic_id is not None:
                known[each.topic] = topic_id
    return {topic: known.get(topic) or topic_id or uuid.uuid4().bytes for topic in topics}
