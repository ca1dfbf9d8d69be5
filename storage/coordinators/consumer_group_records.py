"""The records of consumer groups (KIP-848) in `__consumer_offsets`: what a change of a group is stored as.

    3   the group: its epoch                       7   the target assignment of a member
    4   the partitions of its topics (before 4.1)  8   the current assignment of a member
    5   a member: its subscription                16   a regular expression, and the topics that match it
    6   the epoch of the target assignment

The key has the name of the group; those of members and regular expressions have a second string, here called the
detail. Follows ConsumerGroup's part of Kafka's GroupCoordinatorRecordHelpers.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from struct import Struct, error
from typing import Any, NamedTuple

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from offsetfs.storage.coordinators.group_records import NewerGroupChange

_SHORT = Struct(">h")
_VERSION = 0  # of keys and values: the only one


class ConsumerRecord(IntEnum):
    """The types of records of consumer groups."""

    GROUP = 3
    PARTITIONS = 4
    MEMBER = 5
    TARGET_EPOCH = 6
    TARGET = 7
    CURRENT = 8
    REGEX = 16


_NAMES = {
    ConsumerRecord.GROUP: "ConsumerGroupMetadata",
    ConsumerRecord.PARTITIONS: "ConsumerGroupPartitionMetadata",
    ConsumerRecord.MEMBER: "ConsumerGroupMemberMetadata",
    ConsumerRecord.TARGET_EPOCH: "ConsumerGroupTargetAssignmentMetadata",
    ConsumerRecord.TARGET: "ConsumerGroupTargetAssignmentMember",
    ConsumerRecord.CURRENT: "ConsumerGroupCurrentMemberAssignment",
    ConsumerRecord.REGEX: "ConsumerGroupRegularExpression",
}
_KEYS: dict[ConsumerRecord, Callable[..., ProtocolMessage]] = {
    ConsumerRecord.GROUP: ConsumerGroupMetadataKey,
    ConsumerRecord.PARTITIONS: ConsumerGroupPartitionMetadataKey,
    ConsumerRecord.MEMBER: ConsumerGroupMemberMetadataKey,
    ConsumerRecord.TARGET_EPOCH: ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerRecord.TARGET: ConsumerGroupTargetAssignmentMemberKey,
    ConsumerRecord.CURRENT: ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerRecord.REGEX: ConsumerGroupRegularExpressionKey,
}
_TYPES = frozenset(record_type.value for record_type in ConsumerRecord)


class ConsumerGroupRecord(NamedTuple):
    """A record of a consumer group. `detail`: the member or regular expression; `value`: None for a deletion."""

    kind: ConsumerRecord
    detail: str
    value: Any


def consumer_change(
    group: str, kind: ConsumerRecord, detail: str | None, value: ProtocolMessage | None
) -> NewerGroupChange:
    """Return the change that a record stores; None for its deletion."""
    key = _KEYS[kind](group) if detail is None else _KEYS[kind](group, detail)
    data = None if value is None else _packed(_VERSION, f"{_NAMES[kind]}Value", value)
    return NewerGroupChange(group, _packed(kind, f"{_NAMES[kind]}Key", key), data)


def consumer_record(change: NewerGroupChange) -> ConsumerGroupRecord | None:
    """Return what a change says of a consumer group; None for other groups. ValueError if it cannot be read."""
    number = _SHORT.unpack_from(change.key)[0]
    if number not in _TYPES:
        return None
    kind = ConsumerRecord(number)
    try:
        key = codec.reader(f"{_NAMES[kind]}Key", _VERSION)(memoryview(change.key), _SHORT.size)[0]
        detail = getattr(key, "regular_expression" if kind is ConsumerRecord.REGEX else "member_id", "")
        return ConsumerGroupRecord(kind, detail, None if change.value is None else _value(kind, change.value))
    except (InvalidMessage, error) as reason:
        raise ValueError(f"a record of type {number}: {reason}") from None


def _packed(number: int, name: str, message: ProtocolMessage) -> bytes:
    return _SHORT.pack(number) + b"".join(codec.writer(name, _VERSION)(message))


def _value(kind: ConsumerRecord, data: bytes) -> Any:
    version = _SHORT.unpack_from(data)[0]
    if version != _VERSION:
        raise InvalidMessage(f"the unknown version {version}")
    return codec.reader(f"{_NAMES[kind]}Value", _VERSION)(memoryview(data), _SHORT.size)[0]
