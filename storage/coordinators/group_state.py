"""The state and the members of a group, from the records of its coordinator.

There are four kinds of groups: `classic` (one record has everything), `consumer` (KIP-848), `share` (KIP-932) and
`streams` (KIP-1071). States have Kafka's names. State that only a coordinator's memory has, such as a rebalance of a
classic group, is not on disk and not reported. Follows ClassicGroup, ConsumerGroup, ShareGroup and StreamsGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Any

from offsetfs.kafka.protocol import kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import id_text
from offsetfs.kafka.protocol.records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataValue,
    MemberMetadata,
    StreamsGroupCurrentMemberAssignmentValue,
)
from offsetfs.kafka.protocol.schemas import includes, record_schemas, schema
from offsetfs.storage.names import OFFSETS_TOPIC

_CONSUMER_PROTOCOL = "consumer"
_NUMBER = Struct(">h")
_CLASSIC = 2
_PROTOCOLS = {"consumer": (3, 5, 6, 8), "share": (11, 10, 12, 14), "streams": (17, 19, 20, 22)}
"""The record types of epoch, members, assignment epoch and members' assignments, by kind of group."""

_SHARE_TOPICS = 15

DESCRIBED = frozenset((_CLASSIC, _SHARE_TOPICS, *(type_id for types in _PROTOCOLS.values() for type_id in types)))
"""The record types that `describe` and `share_topics` take."""


def describe(records: Mapping[bytes, bytes]) -> dict[str, object] | None:
    """Return the state of one group from its records (values by whole keys); None if they contain none."""
    parsed = [record for key, value in records.items() if (record := _parsed(key, value)) is not None]
    for type_id, _, value in parsed:
        if type_id == _CLASSIC:
            return _classic(value)
    for kind, (epoch, members, assignment_epoch, assignments) in _PROTOCOLS.items():
        of_kind = [record for record in parsed if record[0] in (epoch, members, assignment_epoch, assignments)]
        if of_kind:
            return _of_protocol(kind, of_kind)
    return None


def share_topics(records: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the names of the topics that a share group has a state of, or gets one, by topic id."""
    parsed = [record for key, value in records.items() if (record := _parsed(key, value)) is not None]
    topics = (
        topic
        for type_id, _, value in parsed
        if type_id == _SHARE_TOPICS
        for topic in (*value.initializing_topics, *value.initialized_topics)
    )
    return {id_text(topic.topic_id): topic.topic_name for topic in topics}


_Parsed = tuple[int, Any, Any]


def _parsed(key: bytes, value: bytes) -> _Parsed | None:
    """Return type, message of the key and message of the value; None for a record that cannot be read."""
    try:
        type_id, version = _NUMBER.unpack_from(key)[0], _NUMBER.unpack_from(value)[0]
        schemas = record_schemas(OFFSETS_TOPIC).get(type_id)
        if schemas is None or schemas.key is None or not includes(schema(schemas.value).versions, version):
            return None
        return type_id, _read(schemas.key, 0, key), _read(schemas.value, version, value)
    except (InvalidMessage, error):
        return None


def _read(name: str, version: int, data: bytes) -> Any:
    return kafka_reader.reader(name, version)(memoryview(data), _NUMBER.size)[0]


def _classic(value: GroupMetadataValue) -> dict[str, object]:
    return {
        "type": "classic",
        # A rebalance is in the memory of the coordinator only; it writes the group when the rebalance is complete.
        "state": "Stable" if value.members else "Empty",
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "generation": value.generation,
        "leader": value.leader,
        "members": [_classic_member(value.protocol_type, member) for member in value.members],
    }


def _classic_member(protocol_type: str, member: MemberMetadata) -> dict[str, object]:
    subscription: ConsumerProtocolSubscription | None = None
    assignment: ConsumerProtocolAssignment | None = None
    if protocol_type == _CONSUMER_PROTOCOL:
        subscription = _client_message("ConsumerProtocolSubscription", member.subscription)
        assignment = _client_message("ConsumerProtocolAssignment", member.assignment)
    assigned = [] if assignment is None else assignment.assigned_partitions
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": [] if subscription is None else subscription.topics,
        "assignment": [{"topic": topic.topic, "partitions": topic.partitions} for topic in assigned],
    }


def _client_message(name: str, data: bytes) -> Any:
    """Return what a consumer wrote; None where it is no such message.

    All versions begin as the first one, which is all that is shown. Some clients leave out what their version has more.
    """
    try:
        return _read(name, 0, data)
    except InvalidMessage:
        return None


def _of_protocol(kind: str, records: Iterable[_Parsed]) -> dict[str, object]:
    epoch_type, member_type, assignment_epoch_type, assignment_type = _PROTOCOLS[kind]
    description: dict[str, object] = {"type": kind, "state": "Empty", "epoch": None, "assignment_epoch": None}
    members: dict[str, Any] = {}
    current: dict[str, Any] = {}
    for type_id, key, value in records:
        if type_id == epoch_type:
            description["epoch"] = value.epoch
        elif type_id == assignment_epoch_type:
            description["assignment_epoch"] = value.assignment_epoch
        elif type_id == member_type:
            members[key.member_id] = value
        elif type_id == assignment_type:
            current[key.member_id] = value
    description["state"] = _state(kind, description, members, current)
    description["members"] = [_member(name, value, current.get(name)) for name, value in sorted(members.items())]
    return description


def _state(kind: str, group: Mapping[str, object], members: Mapping[str, object], current: Mapping[str, Any]) -> str:
    if not members:
        return "Empty"
    # A share group assigns without a handshake, so it has no state between Empty and Stable (KIP-932).
    if kind == "share":
        return "Stable"
    # KIP-848: a new group epoch is written first, the target assignment for it later.
    if group["epoch"] != group["assignment_epoch"]:
        return "Assigning"
    reconciled = all(_epoch(current.get(name)) == group["assignment_epoch"] for name in members)
    return "Stable" if reconciled else "Reconciling"


def _member(name: str, value: Any, current: Any) -> dict[str, object]:
    """Return a member. `value`: its message; `current`: that of its assignment, None if there is none."""
    return {
        "member_id": name,
        "instance_id": getattr(value, "instance_id", None),
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": getattr(value, "subscribed_topic_names", []),
        "epoch": _epoch(current),
        "assignment": _assigned(current),
    }


def _epoch(current: Any) -> int | None:
    return None if current is None else int(current.member_epoch)


def _assigned(current: Any) -> list[dict[str, object]]:
    if isinstance(current, StreamsGroupCurrentMemberAssignmentValue):
        return [{"subtopology": tasks.subtopology_id, "partitions": tasks.partitions} for tasks in current.active_tasks]
    assigned = [] if current is None else current.assigned_partitions
    return [{"topic_id": id_text(topic.topic_id), "partitions": topic.partitions} for topic in assigned]
