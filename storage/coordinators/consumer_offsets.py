"""The record types of `__consumer_offsets`: committed offsets, and the state of groups.

docs/internals/format/consumer-offsets.md lists the types. Every broker writes those of classic groups (0 to 2); the
newer protocols write the others: consumer groups (3 to 8 and 16), share groups (9 to 15), streams groups (17 to 23).
Follows the schemas and GroupCoordinatorRecordSerde of Kafka's group coordinator.
"""

from __future__ import annotations

from struct import Struct

from offsetfs.storage.cluster.kafka_messages import Field, MalformedMessage, Message, read
from offsetfs.storage.coordinators.coordinator_records import RecordType

# --- classic groups ------------------------------------------------------------------------------------------------

_COMMIT_KEY = Message((Field("group", "string"), Field("topic", "string"), Field("partition", "int32")))
_LEGACY_COMMIT = Message((Field("offset", "int64"), Field("metadata", "string"), Field("commitTimestamp", "int64")))
_COMMIT = Message(
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", since=3),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", since=1, until=1),
        Field("topicId", "uuid", since=4, tag=0, default="A" * 22),
    ),
    last_version=4,
    flexible_since=4,
)
_MEMBER = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", since=3, nullable=True),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", since=1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
_GROUP = Message(
    (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string", nullable=True),
        Field("leader", "string", nullable=True),
        Field("currentStateTimestamp", "int64", since=2),
        Field("members", _MEMBER, many=True),
    ),
    last_version=4,
    flexible_since=4,
)

_CONSUMER_PROTOCOL = "consumer"
_OWNED = (Field("topic", "string"), Field("partitions", "int32", many=True))
_SUBSCRIPTION = Message(
    (
        Field("topics", "string", many=True),
        Field("userData", "bytes", nullable=True),
        Field("ownedPartitions", _OWNED, many=True, since=1),
        Field("generationId", "int32", since=2),
        Field("rackId", "string", since=3, nullable=True),
    ),
    last_version=3,
)
_ASSIGNMENT = Message(
    (Field("assignedPartitions", _OWNED, many=True), Field("userData", "bytes", nullable=True)), last_version=3
)
_VERSION = Struct(">h")


def _expand_members(group: dict[str, object]) -> None:
    """Show what the members of a group of consumers subscribed to and got, which the coordinator keeps as bytes."""
    members = group["members"]
    if group["protocolType"] == _CONSUMER_PROTOCOL and isinstance(members, list):
        for member in members:
            member["subscription"] = _expanded(_SUBSCRIPTION, member["subscription"])
            member["assignment"] = _expanded(_ASSIGNMENT, member["assignment"])


def _expanded(message: Message, data: bytes) -> object:
    """Return the fields of the client's message in `data`; the bytes themselves when they are no such message."""
    if len(data) < _VERSION.size:
        return data
    try:
        return read(message, data, max(_VERSION.unpack_from(data)[0], 0), _VERSION.size)[0]
    except MalformedMessage:
        return data


# --- consumer groups (KIP-848) -------------------------------------------------------------------------------------

_GROUP_KEY = Message((Field("groupId", "string"),))
_MEMBER_KEY = Message((Field("groupId", "string"), Field("memberId", "string")))
_EPOCH = Message((Field("epoch", "int32"), Field("metadataHash", "int64")), flexible_since=0)
_ASSIGNMENT_EPOCH = Message((Field("assignmentEpoch", "int32"),), flexible_since=0)
_TOPIC_PARTITIONS = (Field("topicId", "uuid"), Field("partitions", "int32", many=True))
_TARGET = Message((Field("topicPartitions", _TOPIC_PARTITIONS, many=True),), flexible_since=0)

_CONSUMER_EPOCH = Message((Field("epoch", "int32"), Field("metadataHash", "int64", tag=0)), flexible_since=0)
_PARTITION_METADATA = Message(
    (
        Field(
            "topics",
            (
                Field("topicId", "uuid"),
                Field("topicName", "string"),
                Field("numPartitions", "int32"),
                Field(
                    "partitionMetadata", (Field("partition", "int32"), Field("racks", "string", many=True)), many=True
                ),
            ),
            many=True,
        ),
    ),
    flexible_since=0,
)
_CLASSIC_MEMBER = (
    Field("sessionTimeoutMs", "int32"),
    Field("supportedProtocols", (Field("name", "string"), Field("metadata", "bytes")), many=True),
)
_NO_CLASSIC_MEMBER = {"sessionTimeoutMs": 0, "supportedProtocols": []}
_CONSUMER_MEMBER = Message(
    (
        Field("instanceId", "string", nullable=True),
        Field("rackId", "string", nullable=True),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "string", many=True),
        Field("subscribedTopicRegex", "string", nullable=True),
        Field("rebalanceTimeoutMs", "int32"),
        Field("serverAssignor", "string", nullable=True),
        Field("classicMemberMetadata", _CLASSIC_MEMBER, nullable=True, tag=0, default=_NO_CLASSIC_MEMBER),
    ),
    flexible_since=0,
)
_CURRENT_ASSIGNMENT = Message(
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("assignedPartitions", _TOPIC_PARTITIONS, many=True),
        Field("partitionsPendingRevocation", _TOPIC_PARTITIONS, many=True),
    ),
    flexible_since=0,
)
_REGEX_KEY = Message((Field("groupId", "string"), Field("regularExpression", "string")))
_REGEX = Message(
    (Field("topics", "string", many=True), Field("version", "int64"), Field("timestamp", "int64")), flexible_since=0
)

# --- share groups (KIP-932) ----------------------------------------------------------------------------------------

_SHARE_MEMBER = Message(
    (
        Field("rackId", "string", nullable=True),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "string", many=True),
    ),
    flexible_since=0,
)
_SHARE_ASSIGNMENT = Message(
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("assignedPartitions", _TOPIC_PARTITIONS, many=True),
    ),
    flexible_since=0,
)
_TOPIC = (Field("topicId", "uuid"), Field("topicName", "string"))
_SHARE_PARTITIONS = Message(
    (
        Field("initializingTopics", (*_TOPIC, Field("partitions", "int32", many=True)), many=True),
        Field("initializedTopics", (*_TOPIC, Field("partitions", "int32", many=True)), many=True),
        Field("deletingTopics", _TOPIC, many=True),
    ),
    flexible_since=0,
)

# --- streams groups (KIP-1071) -------------------------------------------------------------------------------------

_TASKS = (Field("subtopologyId", "string"), Field("partitions", "int32", many=True))
_STREAMS_MEMBER = Message(
    (
        Field("instanceId", "string", nullable=True),
        Field("rackId", "string", nullable=True),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("rebalanceTimeoutMs", "int32"),
        Field("topologyEpoch", "int32"),
        Field("processId", "string"),
        Field("userEndpoint", (Field("host", "string"), Field("port", "uint16")), nullable=True),
        Field("clientTags", (Field("key", "string"), Field("value", "string")), many=True),
    ),
    flexible_since=0,
)
_STREAMS_TARGET = Message(
    tuple(Field(name, _TASKS, many=True) for name in ("activeTasks", "standbyTasks", "warmupTasks")), flexible_since=0
)
_STREAMS_ASSIGNMENT = Message(
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        *_STREAMS_TARGET.fields,
        *(Field(f"{field.name}PendingRevocation", _TASKS, many=True) for field in _STREAMS_TARGET.fields),
    ),
    flexible_since=0,
)
_CHANGELOG = (
    Field("name", "string"),
    Field("partitions", "int32"),
    Field("replicationFactor", "int16"),
    Field("topicConfigs", (Field("key", "string"), Field("value", "string")), many=True),
)
_COPARTITION = tuple(
    Field(name, "int16", many=True) for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")
)
_TOPOLOGY = Message(
    (
        Field("epoch", "int32"),
        Field(
            "subtopologies",
            (
                Field("subtopologyId", "string"),
                Field("sourceTopics", "string", many=True),
                Field("sourceTopicRegex", "string", many=True),
                Field("stateChangelogTopics", _CHANGELOG, many=True),
                Field("repartitionSinkTopics", "string", many=True),
                Field("repartitionSourceTopics", _CHANGELOG, many=True),
                Field("copartitionGroups", _COPARTITION, many=True),
            ),
            many=True,
        ),
    ),
    flexible_since=0,
)

TYPES = {
    0: RecordType(_COMMIT_KEY, _LEGACY_COMMIT),
    1: RecordType(_COMMIT_KEY, _COMMIT),
    2: RecordType(Message((Field("group", "string"),)), _GROUP, _expand_members),
    3: RecordType(_GROUP_KEY, _CONSUMER_EPOCH),
    4: RecordType(_GROUP_KEY, _PARTITION_METADATA),
    5: RecordType(_MEMBER_KEY, _CONSUMER_MEMBER),
    6: RecordType(_GROUP_KEY, _ASSIGNMENT_EPOCH),
    7: RecordType(_MEMBER_KEY, _TARGET),
    8: RecordType(_MEMBER_KEY, _CURRENT_ASSIGNMENT),
    10: RecordType(_MEMBER_KEY, _SHARE_MEMBER),
    11: RecordType(_GROUP_KEY, _EPOCH),
    12: RecordType(_GROUP_KEY, _ASSIGNMENT_EPOCH),
    13: RecordType(_MEMBER_KEY, _TARGET),
    14: RecordType(_MEMBER_KEY, _SHARE_ASSIGNMENT),
    15: RecordType(_GROUP_KEY, _SHARE_PARTITIONS),
    16: RecordType(_REGEX_KEY, _REGEX),
    17: RecordType(_GROUP_KEY, _EPOCH),
    19: RecordType(_MEMBER_KEY, _STREAMS_MEMBER),
    20: RecordType(_GROUP_KEY, _ASSIGNMENT_EPOCH),
    21: RecordType(_MEMBER_KEY, _STREAMS_TARGET),
    22: RecordType(_MEMBER_KEY, _STREAMS_ASSIGNMENT),
    23: RecordType(_GROUP_KEY, _TOPOLOGY),
}
"""Record types by the number that a key begins with."""
