"""Making partitions: what a broker finds in one that has just been created.

    <base offset>.log  .index  .timeindex (empty)  leader-epoch-checkpoint (no epochs)  partition.metadata (topic id)

    orders-0.5f0c…(32 hex)…-delete   →   orders-0, once all in it is on disk

Until it is whole a partition has the name of a deleted one: what a crash leaves of it is removed by whoever opens the
log directory next, be it a broker, and no half of a partition is ever taken for one.

Follows Kafka's LogManager.getOrCreateLog; the id is a random UUID, as the controller gives it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Sequence

from offsetfs.storage import checkpoint, files, parallel
from offsetfs.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.directory import partition_deletion
from offsetfs.storage.names import TopicPartition, segment_name


def make(directory: str, partitions: Sequence[TopicPartition], others: Iterable[TopicPartition]) -> None:
    """Make empty partitions in log directory `directory`, which has `others`; all are on disk after return.

    On an OSError some of them may be there, nobody knows whether on disk: see `unmake`.
    """
    topic_ids = _topic_ids(directory, {each.topic for each in partitions}, others)
    unborn = {each: os.path.join(directory, partition_deletion.deletion_name(each)) for each in partitions}
    try:
        parallel.for_each(partitions, lambda each: _fill(unborn[each], topic_ids[each.topic]))
        for partition, path in unborn.items():
            files.rename(path, os.path.join(directory, str(partition)))
    except OSError:
        for path in unborn.values():
            with contextlib.suppress(OSError):  # what stays goes with the next opening
                partition_deletion.remove_tree(path)
        raise
    files.sync_directory(directory)


def unmake(directory: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Remove what there is of partitions that could not be made; return those of which something stays."""
    left = []
    for partition in partitions:
        try:
            partition_deletion.remove_tree(os.path.join(directory, str(partition)))
        except OSError:
            left.append(partition)
    return left


def _fill(path: str, topic_id: bytes) -> None:
    """Make a directory with all that a partition has; but for its own name it is on disk after return."""
    files.make_directory(path)
    for suffix in (".log", ".index", ".timeindex"):
        files.create_file(os.path.join(path, segment_name(0, suffix))).close()
    checkpoint.write_epochs(os.path.join(path, LEADER_EPOCHS), [], sync_name=False)
    checkpoint.write_topic_id(os.path.join(path, PARTITION_METADATA), topic_id, sync_name=False)
    files.sync_directory(path)


def _topic_ids(directory: str, topics: set[str], others: Iterable[TopicPartition]) -> dict[str, bytes]:
    """All partitions of a topic carry one id, made for the first of them."""
    known: dict[str, bytes] = {}
    for each in others:
        if each.topic in topics and each.topic not in known:
            topic_id = checkpoint.read_topic_id(os.path.join(directory, str(each), PARTITION_METADATA))
            if topic_id is not None:
                known[each.topic] = topic_id
    return {topic: known.get(topic) or uuid.uuid4().bytes for topic in topics}
