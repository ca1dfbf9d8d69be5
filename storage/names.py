"""Names of topics, partitions and segment files, and nothing else.

Every name that reaches a path of the log directory goes through this module: what it accepts holds no separator, is
not `.` or `..`, and fits 255 bytes together with its partition number. Follows Kafka's `Topic.validate`,
`LocalLog.parseTopicPartitionName` and `LogFileUtils`; stricter in one point: a partition number is written in ASCII
digits without sign or leading zero, so that one partition has exactly one name.
"""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass

from offsetfs.storage.errors import InvalidName
from offsetfs.storage.units import I32_MAX, I64_MAX, Offset

TOPIC_LENGTH_MAX = 249  # 249 characters, a minus and five digits make 255, the longest name a file system takes
PARTITION_MAX = I32_MAX
OFFSET_MAX = I64_MAX
OFFSET_END = OFFSET_MAX + 1

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"
REMOTE_LOG_TOPIC = "__remote_log_metadata"
"""The metadata log of a KRaft controller. It can be read, but is never written or recovered: the controller owns it."""

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC})
"""Topics whose records are a broker's own state: one that it cannot parse keeps it from starting."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]+\Z")  # \Z: with $ a trailing newline would pass
_PARTITION = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")
_SEGMENT = re.compile(r"([0-9]{20})(\.[^/]+)\Z")
_KEPT = re.compile(r"([0-9]{20})\.cut-([0-9]+)(?:-[0-9]+)?\Z")


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One partition of a topic; sorts by topic, then by number. InvalidName when built with an illegal name."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        check_topic(self.topic)
        if not 0 <= self.partition <= PARTITION_MAX:
            raise InvalidName(f"partition {self.partition} is not in 0…{PARTITION_MAX}")

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @classmethod
    def parse(cls, name: str) -> TopicPartition:
        """Read a directory name: what stands before the last minus is the topic."""
        topic, minus, partition = name.rpartition("-")
        if not minus:
            if _TOPIC.match(name):
                raise InvalidName(f"{name!r} is a topic; give TOPIC-PARTITION, such as {name}-0")
            raise InvalidName(f"{name!r} is not a partition; give TOPIC-PARTITION, such as orders-0")
        if not _PARTITION.match(partition):
            raise InvalidName(f"{name!r} does not end in a partition number, 0 to {PARTITION_MAX}")
        return cls(topic, int(partition))

    @classmethod
    def parse_or_none(cls, name: str) -> TopicPartition | None:
        """Read a directory name; None if it is not that of a partition."""
        try:
            return cls.parse(name)
        except InvalidName:
            return None

    @classmethod
    def valid_or_none(cls, topic: str, partition: int) -> TopicPartition | None:
        """Return this partition of the topic; None if no topic or no partition can have that name."""
        try:
            return cls(topic, partition)
        except InvalidName:
            return None


def is_internal(path: str) -> bool:
    """Return whether the last component of `path` is a partition of an internal topic."""
    return os.path.basename(path).rpartition("-")[0] in INTERNAL_TOPICS


def is_metadata(path: str) -> bool:
    """Return whether the last component of `path` is the partition of a cluster's metadata."""
    return os.path.basename(path).rpartition("-")[0] == METADATA_TOPIC


def parse_kept_name(name: str) -> tuple[int, int] | None:
    """Return base offset and byte position where a recovery cut what the file `name` keeps; None for other names."""
    match = _KEPT.match(name)
    return (int(match[1]), int(match[2])) if match else None


def check_topic(name: str) -> None:
    """Raise InvalidName unless `name` is a legal topic name: `[a-zA-Z0-9._-]{1,249}`, neither `.` nor `..`."""
    if not name:
        raise InvalidName("a topic name is not empty")
    if name in (".", ".."):
        raise InvalidName(f"{name!r} is not a topic name")
    if len(name) > TOPIC_LENGTH_MAX:
        raise InvalidName(f"topic name of {len(name)} characters; {TOPIC_LENGTH_MAX} is the most")
    if not _TOPIC.match(name):
        raise InvalidName(f"topic {name!r} holds a character other than a-z, A-Z, 0-9, '.', '_' and '-'")


def segment_name(base_offset: int, suffix: str) -> str:
    """Name a file of the segment that starts at `base_offset`; `suffix` has its dot, as in ".log"."""
    assert 0 <= base_offset <= OFFSET_MAX and suffix.startswith(".")
    return f"{base_offset:020d}{suffix}"


def segment_offset_max(base_offset: int) -> int:
    """Return the highest offset that a segment can hold: an index entry has 31 bits for it, an offset 63."""
    return min(base_offset + I32_MAX, OFFSET_MAX)


MAP_SUFFIXES = (".values-map", ".records-map")
"""The view maps of a segment (docs/internals/format/values-map.md). They describe its bytes, and go with them."""


@functools.lru_cache(maxsize=4096)
def parse_segment_name(name: str) -> tuple[Offset, str] | None:
    """Return base offset and suffix (".log", ".index", ".log.deleted" …); None if the file is not of a segment."""
    match = _SEGMENT.match(name)
    if match is None or int(match[1]) > OFFSET_MAX:
        return None
    return Offset(int(match[1])), match[2]
