"""The records of `__consumer_offsets` as a group coordinator writes and replays them.

    key      i16 type, then the key's fields        value    i16 version, then the value's fields; none deletes the key

Types 0 and 1 are commits, type 2 is a classic group, the others are of the newer group protocols (`consumer_offsets`).
The fields are those of the generated codec (`kafka.protocol`). Brokers since 2.1 read the versions that are written
here; 4.1 writes version 4 of commits and groups, which older ones do not know. Follows GroupCoordinatorRecordSerde and
GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct, error
from typing import NamedTuple

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from offsetfs.kafka.protocol.schemas import includes, record_schemas, schema
from offsetfs.storage.coordinators.changes_replay import UnreadableRecord
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import OFFSETS_TOPIC, TopicPartition
from offsetfs.storage.records.format.record import Record

NO_EXPIRY = -1

_LEGACY_COMMIT, _COMMIT, _CLASSIC_GROUP = 0, 1, 2
_COMMIT_VERSION, _GROUP_VERSION = 3, 3
_COMMIT_VERSION_MAX, _GROUP_VERSION_MAX = 4, 4
_NEWER_TYPES = range(3, 24)
_NEWER_GROUP_TYPES = (3, 11, 17)  # of consumer, share and streams groups themselves
_SHORT = Struct(">h")
_NAME_AT = 4  # all keys begin with type and group, whose size is an i16


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset. `timestamp`, `expires`: in milliseconds; only commits of old clients name an expiry."""

    offset: int
    leader_epoch: int
    metadata: str
    timestamp: int
    expires: int = NO_EXPIRY


class CommitChange(NamedTuple):
    """A commit of a group, or None for its deletion. `at`: the offset of the record."""

    group: str
    partition: TopicPartition
    commit: CommittedOffset | None
    at: int


class ClassicGroupChange(NamedTuple):
    """State and members of a classic group, or None for its deletion."""

    group: str
    value: GroupMetadataValue | None


class NewerGroupChange(NamedTuple):
    """A record of a group of a newer protocol (KIP-848, KIP-932, KIP-1071), or None for its deletion."""

    group: str
    key: bytes
    value: bytes | None


Change = CommitChange | ClassicGroupChange | NewerGroupChange


def commit_key(group: str, partition: TopicPartition) -> bytes:
    """Return the key of the group's commits for a partition; struct.error for names above 32,767 bytes."""
    key = OffsetCommitKey(group, partition.topic, partition.partition)
    return _SHORT.pack(_COMMIT) + b"".join(codec.writer("OffsetCommitKey", 0)(key))


def commit_value(commit: CommittedOffset) -> bytes:
    """Return the value that commits an offset, the next one to read."""
    # Version 1 is the only one with an expiry (KIP-211), and has no leader epoch.
    version, epoch = (_COMMIT_VERSION, commit.leader_epoch) if commit.expires == NO_EXPIRY else (1, -1)
    value = OffsetCommitValue(commit.offset, epoch, commit.metadata, commit.timestamp, commit.expires)
    return _SHORT.pack(version) + b"".join(codec.writer("OffsetCommitValue", version)(value))


def group_key(group: str) -> bytes:
    """Return the key of a classic group."""
    return _SHORT.pack(_CLASSIC_GROUP) + b"".join(codec.writer("GroupMetadataKey", 0)(GroupMetadataKey(group)))


def group_value(value: GroupMetadataValue) -> bytes:
    """Return the value of a classic group."""
    return _SHORT.pack(_GROUP_VERSION) + b"".join(codec.writer("GroupMetadataValue", _GROUP_VERSION)(value))


def newer_deletions(group: str, keys: Iterable[bytes]) -> list[NewerGroupChange]:
    """Return the deletion of the records of a group of a newer protocol.

    In Kafka's order: its coordinator does not load a partition in which a member is deleted before its assignment, or a
    group before its members.
    """
    return [NewerGroupChange(group, key, None) for key in sorted(keys, key=_deletion_order)]


def _deletion_order(key: bytes) -> tuple[bool, int]:
    kind = _SHORT.unpack_from(key)[0]
    return kind in _NEWER_GROUP_TYPES, -kind


def change_of(record: Record) -> Change:
    """Return what a record changes.

    ValueError with the reason for a record of an unknown type, which is left out. `UnreadableRecord` for a record of an
    unknown version or a damaged record, with which Kafka's coordinator does not load the partition.
    """
    key = record.key
    if key is None or len(key) < _NAME_AT:
        raise UnreadableRecord("a record without a whole key")
    kind = _SHORT.unpack_from(key)[0]
    try:
        if kind in (_LEGACY_COMMIT, _COMMIT):
            return _commit_change(key, record)
        if kind == _CLASSIC_GROUP:
            name = codec.reader("GroupMetadataKey", 0)(memoryview(key), 2)[0].group
            return ClassicGroupChange(name, None if record.value is None else _group(record.value))
        if kind in _NEWER_TYPES:
            size = _SHORT.unpack_from(key, 2)[0]
            _check_version(kind, record.value)
            return NewerGroupChange(key[_NAME_AT : _NAME_AT + size].decode(), key, record.value)
    except (InvalidName, UnicodeDecodeError) as reason:
        raise ValueError(f"a record of type {kind}: {reason}") from None
    except (InvalidMessage, error) as reason:
        raise UnreadableRecord(f"a record of type {kind}: {reason}") from None
    raise ValueError(f"a record of the unknown type {kind}")


def _check_version(kind: int, data: bytes | None) -> None:
    """InvalidMessage for a record of a newer protocol of an unknown version. Its users read the rest."""
    schemas = record_schemas(OFFSETS_TOPIC).get(kind)
    if schemas is not None and data is not None:
        version = _SHORT.unpack_from(data)[0]
        if not includes(schema(schemas.value).versions, version):
            raise InvalidMessage(f"the unknown version {version}")


def _commit_change(key: bytes, record: Record) -> CommitChange:
    read = codec.reader("OffsetCommitKey", 0)(memoryview(key), 2)[0]
    partition = TopicPartition(read.topic, read.partition)
    commit = None if record.value is None else _commit(record.value)
    return CommitChange(read.group, partition, commit, record.offset)


def _commit(data: bytes) -> CommittedOffset:
    version = _SHORT.unpack_from(data)[0]
    if not 0 <= version <= _COMMIT_VERSION_MAX:
        raise InvalidMessage(f"a commit of the unknown version {version}")
    value = codec.reader("OffsetCommitValue", version)(memoryview(data), 2)[0]
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp
    )


def _group(data: bytes) -> GroupMetadataValue:
    version = _SHORT.unpack_from(data)[0]
    if not 0 <= version <= _GROUP_VERSION_MAX:
        raise InvalidMessage(f"a group of the unknown version {version}")
    value: GroupMetadataValue = codec.reader("GroupMetadataValue", version)(memoryview(data), 2)[0]
    return value
