"""Formats records of Kafka's own topics for a dump, by the option of DumpLogSegments; and control records.

    coordinators       key: {"type":"1","data":{"group":"billing","topic":"orders","partition":0}} payload: {"version":…
    __cluster_metadata       payload: {"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"mcRcJ8sVS…
    __remote_log_metadata    payload: RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{…}, startOffset=0…
    control records          endTxnMarker: COMMIT coordinatorEpoch: 3

A coordinator's key is i16 type, then fields, its value i16 version, then fields. The key of a control record is i16
version, i16 type; the value of ABORT and COMMIT is i16 version, i32 coordinator epoch, of the others a message.

For an unreadable record an error is printed, in Kafka's words. Types and fields are those of Kafka's schemas
(`offsetfs.kafka.protocol`); docs/internals/format/consumer-offsets.md lists them. Follows the parsers of
DumpLogSegments, CoordinatorRecordSerde, RemoteLogMetadataSerde, ControlRecordType, EndTransactionMarker and
ControlRecordUtils (KIP-98, KIP-595, KIP-853).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any

from offsetfs.kafka.protocol import json_text, kafka_reader
from offsetfs.kafka.protocol import records as r
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.json_text import json_writer
from offsetfs.kafka.protocol.message import ProtocolMessage, id_text
from offsetfs.kafka.protocol.records import GroupMetadataValue
from offsetfs.kafka.protocol.schemas import includes, record_schemas, schema
from offsetfs.storage.cluster.cluster_metadata import Buffer, read_head, read_message
from offsetfs.storage.dump.log import Decoder
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.names import OFFSETS_TOPIC, REMOTE_LOG_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from offsetfs.storage.partition.producers import ABORT, COMMIT

DELETED = "<DELETE>"

_VERSION = Struct(">h")
_CONSUMER_PROTOCOL = "consumer"
_CLIENT_MESSAGES = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}

RecordTexts = tuple[str | None, str | None]
"""The text of key and value; None prints nothing."""


def show_coordinator_record(topic: str, offset: int, key: Buffer | None, value: Buffer | None) -> RecordTexts:
    """Return the texts of a coordinator's record; `MalformedBatch` if it has no key, which no coordinator writes."""
    if key is None:
        raise MalformedBatch("the record has no key, and this decoder reads keys", offset=offset)
    try:
        type_id = _version(key, "key")
        schemas = record_schemas(topic).get(type_id)
        if schemas is None or schemas.key is None:
            return f"Unknown record type {type_id} at offset {offset}, skipping.", None
        fields = json_text.json_writer(schemas.key, 0)(_message(schemas.key, 0, key, type_id, "key"))
        shown_key = f'{{"type":"{type_id}","data":{fields}}}'
        return shown_key, DELETED if value is None else _value(schemas.value, type_id, value)
    except InvalidMessage as error:
        return f"Error at offset {offset}, skipping. {error}", None


def _value(name: str, type_id: int, value: Buffer) -> str:
    version = _version(value, "value")
    if not includes(schema(name).versions, version):
        raise InvalidMessage(f"Found an unknown record version {version} for {type_id} type")
    message = _message(name, version, value, version, "value")
    is_of_consumers = isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER_PROTOCOL
    bytes_text = _client_message_text if is_of_consumers else json_text.bytes_text
    return f'{{"version":"{version}","data":{json_text.json_writer(name, version)(message, bytes_text)}}}'


def _version(data: Buffer, what: str) -> int:
    if len(data) < _VERSION.size:
        raise InvalidMessage(f"Could not read version from {what}'s buffer.")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _message(name: str, version: int, data: Buffer, shown_version: int, what: str) -> Any:
    try:
        return kafka_reader.reader(name, version)(memoryview(data), _VERSION.size)[0]
    except InvalidMessage as error:
        raise InvalidMessage(
            f"Could not read record with version {shown_version} from {what}'s buffer due to: {error}."
        ) from None


def _client_message_text(field: str, data: bytes) -> str:
    """Return the subscription or assignment of a group member, which the coordinator keeps as bytes.

    Bytes that are no message of this kind are returned as text of bytes.
    """
    if len(data) >= _VERSION.size:
        name, version = _CLIENT_MESSAGES[field], _VERSION.unpack_from(data)[0]
        try:
            message, _ = kafka_reader.reader(name, version)(memoryview(data), _VERSION.size)
            return json_text.json_writer(name, version)(message)
        except InvalidMessage:
            pass
    return json_text.bytes_text(field, data)


def show_metadata(offset: int, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record of `__cluster_metadata`: None for the key, the value as JSON."""
    try:
        return None, _metadata_text(b"" if value is None else value)
    except InvalidMessage as error:
        return None, f"Error at {offset}, skipping. {error}"


def _metadata_text(value: Buffer) -> str:
    head = read_head(value)
    fields = json_writer(head.name, head.version)(read_message(value, head))
    return f'{{"type":"{_type_text(head.name)}","version":{head.version},"data":{fields}}}'


@functools.cache
def _type_text(name: str) -> str:
    """Return the type of a record as Kafka prints it, such as TOPIC_RECORD for TopicRecord."""
    return re.sub("(?<!^)(?=[A-Z])", "_", name).upper()


_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_STATUS = re.compile(r'(?<="transactionStatus":)-?[0-9]+')  # the fields before it are numbers


def _transaction(offset: int, key: Buffer | None, value: Buffer | None) -> RecordTexts:
    shown_key, shown_value = show_coordinator_record(TRANSACTIONS_TOPIC, offset, key, value)
    if shown_value is not None:
        shown_value = _STATUS.sub(lambda status: f'"{_state(int(status[0]))}"', shown_value, count=1)
    return shown_key, shown_value


def _state(number: int) -> str:
    return _STATES[number] if 0 <= number < len(_STATES) else str(number)


_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
_NO_VALUE = (
    'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
    '"org.apache.kafka.common.record.internal.Record.value()" is null'
)
_BOOLEANS = ("false", "true")
_SegmentId = (
    r.RemoteLogSegmentMetadataRecordRemoteLogSegmentIdEntry
    | r.RemoteLogSegmentMetadataUpdateRecordRemoteLogSegmentIdEntry
)
_Partition = (
    r.RemoteLogSegmentMetadataRecordTopicIdPartitionEntry
    | r.RemoteLogSegmentMetadataUpdateRecordTopicIdPartitionEntry
    | r.RemotePartitionDeleteMetadataRecordTopicIdPartitionEntry
)


def show_remote_log(offset: int, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record of `__remote_log_metadata`: None for the key, the value as Kafka's `toString`."""
    try:
        if value is None:
            raise InvalidMessage(_NO_VALUE)
        return None, _remote_text(read_message(value, read_head(value, REMOTE_LOG_TOPIC)))
    except InvalidMessage as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def _remote_text(message: ProtocolMessage) -> str:
    if isinstance(message, r.RemoteLogSegmentMetadataRecord):
        return _remote_segment(message)
    if isinstance(message, r.RemoteLogSegmentMetadataUpdateRecord):
        return _remote_update(message)
    if isinstance(message, r.RemotePartitionDeleteMetadataRecord):
        return _remote_deletion(message)
    raise InvalidMessage(f"{type(message).__name__} is no record of this topic")


def _remote_segment(message: r.RemoteLogSegmentMetadataRecord) -> str:
    epochs = sorted((entry.leader_epoch, entry.offset) for entry in message.segment_leader_epochs)
    if not epochs:
        raise InvalidMessage("segmentLeaderEpochs can not be null or empty")
    shown = ", ".join(f"{epoch}={start}" for epoch, start in epochs)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)},"
        f" startOffset={message.start_offset}, endOffset={message.end_offset}, brokerId={message.broker_id},"
        f" maxTimestampMs={message.max_timestamp_ms}, eventTimestampMs={message.event_timestamp_ms},"
        f" segmentLeaderEpochs={{{shown}}}, segmentSizeInBytes={message.segment_size_in_bytes},"
        f" customMetadata={_custom(message.custom_metadata)},"
        f" state={_remote_state(_SEGMENT_STATES, message.remote_log_segment_state)},"
        f" txnIdxEmpty={_BOOLEANS[message.txn_index_empty]}}}"
    )


def _remote_update(message: r.RemoteLogSegmentMetadataUpdateRecord) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)},"
        f" customMetadata={_custom(message.custom_metadata)},"
        f" state={_remote_state(_SEGMENT_STATES, message.remote_log_segment_state)},"
        f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
    )


def _remote_deletion(message: r.RemotePartitionDeleteMetadataRecord) -> str:
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_remote_partition(message.topic_id_partition)},"
        f" state={_remote_state(_PARTITION_STATES, message.remote_partition_delete_state)},"
        f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
    )


def _segment_id(entry: _SegmentId) -> str:
    return (
        f"RemoteLogSegmentId{{topicIdPartition={_remote_partition(entry.topic_id_partition)}, id={id_text(entry.id)}}}"
    )


def _remote_partition(entry: _Partition) -> str:
    return f"{id_text(entry.id)}:{entry.name}-{entry.partition}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _remote_state(states: Sequence[str], number: int) -> str:
    """Kafka has null for a number without a state, and refuses to make an object of it."""
    if 0 <= number < len(states):
        return states[number]
    raise InvalidMessage("state can not be null")


DECODERS: dict[str, Decoder] = {
    "offsets_decoder": partial(show_coordinator_record, OFFSETS_TOPIC),
    "transaction_log_decoder": _transaction,
    "cluster_metadata_decoder": lambda offset, _, value: show_metadata(offset, value),
    "remote_log_metadata_decoder": lambda offset, _, value: show_remote_log(offset, value),
    "share_group_state_decoder": partial(show_coordinator_record, SHARE_TOPIC),
}
"""The decoder of each option; of several the first counts, as in Kafka."""

OLD_DECODERS: dict[str, Decoder] = {
    **DECODERS,
    "transaction_log_decoder": partial(show_coordinator_record, TRANSACTIONS_TOPIC),
}
"""Those of Kafka 4.1."""


_CONTROL_KEY = Struct(">hh")
_END_OF_TRANSACTION = Struct(">hi")

_LEADER_CHANGE = 2
CONTROL_MESSAGES = {
    _LEADER_CHANGE: ("LeaderChange:", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
}
"""The word before the fields, and the message, by type."""

_ENDS = {ABORT: "ABORT", COMMIT: "COMMIT"}


def show_control_record(key: Buffer | None, value: Buffer | None) -> str:
    """Return the text of a control record; `MalformedBatch` for one that Kafka would not accept."""
    type_id = _control_type(key)
    if type_id in _ENDS:
        return f"endTxnMarker: {_ENDS[type_id]} coordinatorEpoch: {_coordinator_epoch(value)}"
    if type_id not in CONTROL_MESSAGES:
        return f"controlType: UNKNOWN({type_id})"
    word, name = CONTROL_MESSAGES[type_id]
    if value is None:
        raise MalformedBatch("a control record without a value")
    try:
        message, _ = kafka_reader.reader(name, 0)(memoryview(value), 0)
    except InvalidMessage as error:
        raise MalformedBatch(f"a control record of type {type_id}: {error}") from None
    # Kafka reads it as version 0 and prints it as the version that it names, with the defaults of later fields.
    version = message.version if type_id == _LEADER_CHANGE else 0
    return f"{word} {json_text.json_writer(name, version)(message)}"


def _control_type(key: Buffer | None) -> int:
    if key is None or len(key) < _CONTROL_KEY.size:
        raise MalformedBatch("a control record without a type")
    version, type_id = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise MalformedBatch(f"a control record of version {version}")
    return int(type_id)


def _coordinator_epoch(value: Buffer | None) -> int:
    if value is None or len(value) < _END_OF_TRANSACTION.size:
        raise MalformedBatch("the end of a transaction without an epoch")
    version, epoch = _END_OF_TRANSACTION.unpack_from(value)
    if version < 0:
        raise MalformedBatch(f"the end of a transaction of version {version}")
    return int(epoch)
