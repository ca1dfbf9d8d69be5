"""What the group coordinator keeps on disk: commits and groups in `__consumer_offsets`, in Kafka's format.

A record's key and value begin with the version of their schema (i16). Keys of version 0 and 1 are commits, of version 2
groups; a null value deletes. A real broker that takes the directory over loads the same groups and offsets.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from offsetfs.protocol import codec
from offsetfs.protocol.codec import InvalidMessage
from offsetfs.protocol.messages import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from offsetfs.storage import BatchBuilder, Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.coordinators import partition_of_group
from offsetfs.storage.errors import StorageError

_log = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"

_COMMIT_KEY_VERSION, _GROUP_KEY_VERSION = 1, 2
_COMMIT_VERSION, _GROUP_VERSION = 3, 3
_BATCH_BYTES_MIN = 1 << 16
_VERSION = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    timestamp: int


Change = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes the key."""


def commit_change(group: str, partition: TopicPartition, commit: StoredOffset | None) -> Change:
    """Return the record of a commit, or of its deletion."""
    key = OffsetCommitKey(group, partition.topic, partition.partition)
    if commit is None:
        return _encoded("OffsetCommitKey", _COMMIT_KEY_VERSION, key), None
    value = OffsetCommitValue(commit.offset, commit.leader_epoch, commit.metadata, commit.timestamp)
    return _encoded("OffsetCommitKey", _COMMIT_KEY_VERSION, key), _encoded("OffsetCommitValue", _COMMIT_VERSION, value)


def group_change(group: str, value: GroupMetadataValue | None) -> Change:
    """Return the record of a group's metadata, or of its deletion."""
    key = _encoded("GroupMetadataKey", _GROUP_KEY_VERSION, GroupMetadataKey(group))
    return key, None if value is None else _encoded("GroupMetadataValue", _GROUP_VERSION, value)


def _encoded(name: str, version: int, message: object) -> bytes:
    schema_version = 0 if name.endswith("Key") else version  # the first number of a key is its type
    return _VERSION.pack(version) + b"".join(codec.writer(name, schema_version)(message))


class GroupLog:
    """Reads and writes `__consumer_offsets` of one directory. All methods wait for the disk."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    def append(self, group: str, changes: list[Change]) -> tuple[Log, int]:
        """Append records of a group to its partition, which is created if needed; return log and end offset.

        After return they are in the segment file. NoOffsetsTopic, StorageError, OSError.
        """
        home = partition_of_group(self._directory, group, may_create=True)
        log = self._directory.writable_log(home)
        now = log.clock.now_ms()
        builder = BatchBuilder(max(_BATCH_BYTES_MIN, sum(_size(change) for change in changes)))
        for key, value in changes:
            builder.append(key, value, (), now)
        return log, log.append(builder.seal()).last_offset + 1

    def load(self) -> Iterator[tuple[str, TopicPartition | None, StoredOffset | GroupMetadataValue | None]]:
        """Yield what each record says, in order: group; partition and commit, or None and metadata; None: deleted."""
        partitions = [each for each in self._directory.partitions() if each.topic == OFFSETS_TOPIC]
        for partition in partitions:
            try:
                log = self._directory.log(partition)
                for record in LogReader(log, on_damage=_report).records():
                    if record.key is not None:
                        yield from _decoded(record.key, record.value)
            except (StorageError, OSError) as error:
                _log.error("%s: groups and offsets in it are missing: %s", partition, error)


def _report(error: StorageError) -> None:
    _log.error("groups and offsets of a damaged batch are missing: %s", error)


def _size(change: Change) -> int:
    key, value = change
    return len(key) + len(value or b"") + 64


def _decoded(
    key: bytes, value: bytes | None
) -> Iterator[tuple[str, TopicPartition | None, StoredOffset | GroupMetadataValue | None]]:
    try:
        version = _VERSION.unpack_from(key)[0]
        if version in (0, 1):
            read, _ = codec.reader("OffsetCommitKey", 0)(memoryview(key), 2)
            commit = None if value is None else _value("OffsetCommitValue", value)
            stored = commit and StoredOffset(
                commit.offset, commit.leader_epoch, commit.metadata, commit.commit_timestamp
            )
            yield read.group, TopicPartition(read.topic, read.partition), stored
        elif version == _GROUP_KEY_VERSION:
            read, _ = codec.reader("GroupMetadataKey", 0)(memoryview(key), 2)
            yield read.group, None, None if value is None else _value("GroupMetadataValue", value)
    except (InvalidMessage, StorageError, KeyError, struct.error) as error:
        _log.warning("a record of %s is left out: %s", OFFSETS_TOPIC, error)


def _value(name: str, data: bytes):  # type: ignore[no-untyped-def]
    return codec.reader(name, _VERSION.unpack_from(data)[0])(memoryview(data), 2)[0]
