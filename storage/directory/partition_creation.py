"""Making a partition: what a broker finds in one that has just been created.

    <base offset>.log (empty)   leader-epoch-checkpoint (no epochs)   partition.metadata (the id of the topic)

Follows Kafka's LogManager.getOrCreateLog; the id is a random UUID, as the controller gives it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.segments.open_files import Pool
from offsetfs.storage.segments.segment import Segment, SegmentFiles
from offsetfs.storage.settings.config import LogConfig


def make(
    directory: str,
    partition: TopicPartition,
    config: LogConfig,
    pool: Pool[SegmentFiles],
    others: Iterable[TopicPartition],
) -> None:
    """Make an empty partition in log directory `directory`, which has `others`; on disk after return."""
    path = os.path.join(directory, str(partition))
    topic_id = _topic_id(directory, partition.topic, others)
    files.make_directory(path)
    Segment.create(path, 0, config, pool)
    checkpoint.write_epochs(os.path.join(path, LEADER_EPOCHS), [])
    checkpoint.write_topic_id(os.path.join(path, PARTITION_METADATA), topic_id)
    files.sync_directory(path)
    files.sync_directory(directory)


def _topic_id(directory: str, topic: str, partitions: Iterable[TopicPartition]) -> bytes:
    """All partitions of a topic carry one id, made for the first of them."""
    siblings = [os.path.join(directory, str(each), PARTITION_METADATA) for each in partitions if each.topic == topic]
    known = (checkpoint.read_topic_id(path) for path in siblings)
    return next(filter(None, known), None) or uuid.uuid4().bytes
