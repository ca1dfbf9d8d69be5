"""The state and the members of a group, from the records of its coordinator.

There are four kinds of groups: `classic` (one record has everything), `consumer` (KIP-848), `share` (KIP-932) and
`streams` (KIP-1071). States have Kafka's names. State that only a coordinator's memory has, such as a rebalance of a
classic group, is not on disk and not reported. Follows ClassicGroup, ConsumerGroup, ShareGroup and StreamsGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Any

from offsetfs.storage.cluster.kafka_messages import MalformedMessage, read
from offsetfs.storage.coordinators.consumer_offsets import TYPES

_NUMBER = Struct(">h")
_CLASSIC = 2
_PROTOCOLS = {"consumer": (3, 5, 6, 8), "share": (11, 10, 12, 14), "streams": (17, 19, 20, 22)}
"""By kind of group: the record types of its epoch, its members, its assignment epoch, and the members' assignments."""

_SHARE_TOPICS = 15

DESCRIBED = frozenset((_CLASSIC, _SHARE_TOPICS, *(each for types in _PROTOCOLS.values() for each in types)))
"""The record types that `describe` and `share_topics` take."""


def describe(records: Mapping[bytes, bytes]) -> dict[str, object] | None:
    """Return the state of one group from its records (values by whole keys); None if they contain none."""
    parsed = [each for key, value in records.items() if (each := _parsed(key, value)) is not None]
    for type_id, _, value in parsed:
        if type_id == _CLASSIC:
            return _classic(value)
    for kind, (epoch, members, assignment_epoch, assignments) in _PROTOCOLS.items():
        of_kind = [each for each in parsed if each[0] in (epoch, members, assignment_epoch, assignments)]
        if of_kind:
            return _of_protocol(kind, of_kind)
    return None


def share_topics(records: Mapping[bytes, bytes]) -> dict[str, str]:
    """Return the names of the topics that a share group has a state of, or gets one, by topic id."""
    parsed = [each for key, value in records.items() if (each := _parsed(key, value)) is not None]
    topics = (
        topic
        for type_id, _, value in parsed
        if type_id == _SHARE_TOPICS
        for topic in (*value["initializingTopics"], *value["initializedTopics"])
    )
    return {topic["topicId"]: topic["topicName"] for topic in topics}


_Parsed = tuple[int, dict[str, Any], dict[str, Any]]


def _parsed(key: bytes, value: bytes) -> _Parsed | None:
    """Return type, fields of the key and fields of the value; None for a record that cannot be read."""
    try:
        type_id, version = _NUMBER.unpack_from(key)[0], _NUMBER.unpack_from(value)[0]
        record_type = TYPES[type_id]
        if not 0 <= version <= record_type.value.last_version:
            return None
        fields = read(record_type.value, value, version, _NUMBER.size)[0]
        record_type.expand(fields)
        return type_id, read(record_type.key, key, 0, _NUMBER.size)[0], fields
    except (MalformedMessage, KeyError, error):
        return None


def _classic(value: dict[str, Any]) -> dict[str, object]:
    return {
        "type": "classic",
        # A rebalance is in the memory of the coordinator only; it writes the group when the rebalance is complete.
        "state": "Stable" if value["members"] else "Empty",
        "protocol_type": value["protocolType"],
        "protocol": value["protocol"],
        "generation": value["generation"],
        "leader": value["leader"],
        "members": [_classic_member(member) for member in value["members"]],
    }


def _classic_member(member: dict[str, Any]) -> dict[str, object]:
    subscription, assignment = member["subscription"], member["assignment"]
    assigned = assignment.get("assignedPartitions", []) if isinstance(assignment, dict) else []
    return {
        "member_id": member["memberId"],
        "instance_id": member.get("groupInstanceId"),
        "client_id": member["clientId"],
        "client_host": member["clientHost"],
        "topics": subscription.get("topics", []) if isinstance(subscription, dict) else [],
        "assignment": [{"topic": each["topic"], "partitions": each["partitions"]} for each in assigned],
    }


def _of_protocol(kind: str, records: Iterable[_Parsed]) -> dict[str, object]:
    epoch_type, member_type, assignment_epoch_type, assignment_type = _PROTOCOLS[kind]
    found: dict[str, object] = {"type": kind, "state": "Empty", "epoch": None, "assignment_epoch": None}
    members: dict[str, dict[str, Any]] = {}
    current: dict[str, dict[str, Any]] = {}
    for type_id, key, value in records:
        if type_id == epoch_type:
            found["epoch"] = value["epoch"]
        elif type_id == assignment_epoch_type:
            found["assignment_epoch"] = value["assignmentEpoch"]
        elif type_id == member_type:
            members[key["memberId"]] = value
        elif type_id == assignment_type:
            current[key["memberId"]] = value
    found["state"] = _state(kind, found, members, current)
    found["members"] = [_member(name, value, current.get(name, {})) for name, value in sorted(members.items())]
    return found


def _state(
    kind: str, group: Mapping[str, object], members: Mapping[str, object], current: Mapping[str, Mapping[str, Any]]
) -> str:
    if not members:
        return "Empty"
    # A share group assigns without a handshake, so it has no state between Empty and Stable (KIP-932).
    if kind == "share":
        return "Stable"
    # KIP-848: a new group epoch is written first, the target assignment for it later.
    if group["epoch"] != group["assignment_epoch"]:
        return "Assigning"
    reconciled = all(current.get(name, {}).get("memberEpoch") == group["assignment_epoch"] for name in members)
    return "Stable" if reconciled else "Reconciling"


def _member(name: str, value: dict[str, Any], current: dict[str, Any]) -> dict[str, object]:
    assigned = current.get("assignedPartitions", current.get("activeTasks", []))
    return {
        "member_id": name,
        "instance_id": value.get("instanceId"),
        "client_id": value["clientId"],
        "client_host": value["clientHost"],
        "topics": value.get("subscribedTopicNames", []),
        "epoch": current.get("memberEpoch"),
        "assignment": [
            {"subtopology": each["subtopologyId"], "partitions": each["partitions"]}
            if "subtopologyId" in each
            else {"topic_id": each["topicId"], "partitions": each["partitions"]}
            for each in assigned
        ],
    }
