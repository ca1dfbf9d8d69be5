"""The records of `__cluster_metadata` and of KRaft's snapshots: topics, partitions, brokers, settings.

    value   uvarint frame version 1, uvarint type, uvarint version, then the fields

    payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"mcRcJ8sVSDWZSLzHLpZs5Q"}}

The key is not used. An unreadable record is shown as an error with Kafka's text. Follows MetadataRecordSerde and the
metadata record schemas (KIP-631).
"""

from __future__ import annotations

from collections.abc import Collection

from offsetfs.storage.cluster.kafka_messages import (
    Buffer,
    Field,
    MalformedMessage,
    Message,
    json_text,
    read,
    unsigned_at,
)

_FRAME_VERSION = 1
_SHORT_MAX = 2**15 - 1

_LISTENERS = (
    Field("name", "string"),
    Field("host", "string"),
    Field("port", "uint16"),
    Field("securityProtocol", "int16"),
)
_FEATURES = (
    Field("name", "string"),
    Field("minSupportedVersion", "int16"),
    Field("maxSupportedVersion", "int16"),
)
_BROKER_EPOCH = (Field("brokerId", "int32"), Field("brokerEpoch", "int64"))


def _replicas(name: str, tag: int | None = None, since: int = 0) -> Field:
    return Field(name, "int32", many=True, since=since, nullable=tag is not None, tag=tag, default=None)


TYPES: dict[int, tuple[str, tuple[Field, ...]]] = {
    0: (
        "REGISTER_BROKER_RECORD",
        (
            Field("brokerId", "int32"),
            Field("isMigratingZkBroker", "bool", since=2),
            Field("incarnationId", "uuid"),
            Field("brokerEpoch", "int64"),
            Field("endPoints", _LISTENERS, many=True),
            Field("features", _FEATURES, many=True),
            Field("rack", "string", nullable=True),
            Field("fenced", "bool"),
            Field("inControlledShutdown", "bool", since=1),
            Field("logDirs", "uuid", many=True, since=3, tag=0, default=[]),
        ),
    ),
    1: ("UNREGISTER_BROKER_RECORD", _BROKER_EPOCH),
    2: ("TOPIC_RECORD", (Field("name", "string"), Field("topicId", "uuid"))),
    3: (
        "PARTITION_RECORD",
        (
            Field("partitionId", "int32"),
            Field("topicId", "uuid"),
            *(_replicas(name) for name in ("replicas", "isr", "removingReplicas", "addingReplicas")),
            Field("leader", "int32"),
            Field("leaderRecoveryState", "int8", tag=0),
            Field("leaderEpoch", "int32"),
            Field("partitionEpoch", "int32"),
            Field("directories", "uuid", many=True, since=1),
            _replicas("eligibleLeaderReplicas", tag=1, since=2),
            _replicas("lastKnownElr", tag=2, since=2),
        ),
    ),
    4: (
        "CONFIG_RECORD",
        (
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("name", "string"),
            Field("value", "string", nullable=True),
        ),
    ),
    5: (
        "PARTITION_CHANGE_RECORD",
        (
            Field("partitionId", "int32"),
            Field("topicId", "uuid"),
            _replicas("isr", tag=0),
            Field("leader", "int32", tag=1, default=-2),
            _replicas("replicas", tag=2),
            _replicas("removingReplicas", tag=3),
            _replicas("addingReplicas", tag=4),
            Field("leaderRecoveryState", "int8", tag=5, default=-1),
            Field("directories", "uuid", many=True, since=1, nullable=True, tag=8, default=None),
            _replicas("eligibleLeaderReplicas", tag=6, since=2),
            _replicas("lastKnownElr", tag=7, since=2),
        ),
    ),
    7: ("FENCE_BROKER_RECORD", (Field("id", "int32"), Field("epoch", "int64"))),
    8: ("UNFENCE_BROKER_RECORD", (Field("id", "int32"), Field("epoch", "int64"))),
    9: ("REMOVE_TOPIC_RECORD", (Field("topicId", "uuid"),)),
    10: (
        "DELEGATION_TOKEN_RECORD",
        (
            Field("owner", "string"),
            Field("requester", "string"),
            Field("renewers", "string", many=True),
            Field("issueTimestamp", "int64"),
            Field("maxTimestamp", "int64"),
            Field("expirationTimestamp", "int64"),
            Field("tokenId", "string"),
        ),
    ),
    11: (
        "USER_SCRAM_CREDENTIAL_RECORD",
        (
            Field("name", "string"),
            Field("mechanism", "int8"),
            *(Field(name, "bytes") for name in ("salt", "storedKey", "serverKey")),
            Field("iterations", "int32"),
        ),
    ),
    12: ("FEATURE_LEVEL_RECORD", (Field("name", "string"), Field("featureLevel", "int16"))),
    14: (
        "CLIENT_QUOTA_RECORD",
        (
            Field("entity", (Field("entityType", "string"), Field("entityName", "string", nullable=True)), many=True),
            Field("key", "string"),
            Field("value", "float64"),
            Field("remove", "bool"),
        ),
    ),
    15: ("PRODUCER_IDS_RECORD", (*_BROKER_EPOCH, Field("nextProducerId", "int64"))),
    17: (
        "BROKER_REGISTRATION_CHANGE_RECORD",
        (
            *_BROKER_EPOCH,
            Field("fenced", "int8", tag=0),
            Field("inControlledShutdown", "int8", since=1, tag=1),
            Field("logDirs", "uuid", many=True, since=2, tag=2, default=[]),
        ),
    ),
    18: (
        "ACCESS_CONTROL_ENTRY_RECORD",
        (
            Field("id", "uuid"),
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("patternType", "int8"),
            Field("principal", "string"),
            Field("host", "string"),
            Field("operation", "int8"),
            Field("permissionType", "int8"),
        ),
    ),
    19: ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", (Field("id", "uuid"),)),
    20: ("NO_OP_RECORD", ()),
    21: ("ZK_MIGRATION_STATE_RECORD", (Field("zkMigrationState", "int8"),)),
    22: ("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", (Field("name", "string"), Field("mechanism", "int8"))),
    23: ("BEGIN_TRANSACTION_RECORD", (Field("name", "string", nullable=True, tag=0, default=None),)),
    24: ("END_TRANSACTION_RECORD", ()),
    25: ("ABORT_TRANSACTION_RECORD", (Field("reason", "string", nullable=True, tag=0, default=None),)),
    26: ("REMOVE_DELEGATION_TOKEN_RECORD", (Field("tokenId", "string"),)),
    27: (
        "REGISTER_CONTROLLER_RECORD",
        (
            Field("controllerId", "int32"),
            Field("incarnationId", "uuid"),
            Field("zkMigrationReady", "bool"),
            Field("endPoints", _LISTENERS, many=True),
            Field("features", _FEATURES, many=True),
        ),
    ),
    28: ("CLEAR_ELR_RECORD", (Field("topicName", "string"),)),
}
"""By type: its name, and the fields. All are flexible from version 0 on."""


def show(offset: int, value: Buffer | None) -> tuple[str | None, str | None]:
    """Return the texts of a record: None for the key, the value as JSON."""
    try:
        return None, _text(b"" if value is None else value)
    except MalformedMessage as error:
        return None, f"Error at {offset}, skipping. {error}"


class UnknownRecordType(MalformedMessage):
    """A record of a type that is not in `TYPES`: a newer Kafka wrote it."""


def parse(value: Buffer, wanted: Collection[str]) -> tuple[str, dict[str, object]] | None:
    """Return name and fields of a record; None, without reading the fields, if its type is not in `wanted`.

    `MalformedMessage` for an unreadable record, `UnknownRecordType` for an unknown type.
    """
    type_id, version, position = _type_and_version(value)
    name, fields = TYPES[type_id]
    return (name, _fields(value, position, type_id, version, fields)) if name in wanted else None


def _text(value: Buffer) -> str:
    type_id, version, position = _type_and_version(value)
    name, fields = TYPES[type_id]
    return json_text({"type": name, "version": version, "data": _fields(value, position, type_id, version, fields)})


def _type_and_version(value: Buffer) -> tuple[int, int, int]:
    """Return type, version and the position of the first field."""
    frame_version, position = _short(value, 0, "frame version")
    if frame_version == 0:
        raise MalformedMessage(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported."
        )
    if frame_version != _FRAME_VERSION:
        raise MalformedMessage(
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            "(only frame version 1 is supported)"
        )
    type_id, position = _short(value, position, "type")
    version, position = _short(value, position, "version")
    if type_id not in TYPES:
        raise UnknownRecordType(
            f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {type_id}"
        )
    return type_id, version, position


def _fields(value: Buffer, position: int, type_id: int, version: int, fields: tuple[Field, ...]) -> dict[str, object]:
    try:
        data, position = read(Message(fields, flexible_since=0), value, version, position)
    except MalformedMessage:
        raise MalformedMessage(f"Failed to deserialize record with type {type_id}") from None
    if position < len(value):
        raise MalformedMessage(f"Found {len(value) - position} byte(s) of garbage after {type_id}")
    return data


def _short(value: Buffer, position: int, what: str) -> tuple[int, int]:
    try:
        number, position = unsigned_at(value, position)
    except MalformedMessage:
        raise MalformedMessage(f"Error while reading {what}") from None
    if number > _SHORT_MAX:
        raise MalformedMessage(f"Value for {what} was too large.")
    return number, position
