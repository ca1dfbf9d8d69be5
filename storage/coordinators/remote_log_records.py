"""Formats records of `__remote_log_metadata` for a dump: which segments a broker has put into its remote storage.

    payload: RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{…}, startOffset=0, endOffset=2513, …}

The texts are those of Kafka's `toString`. An unreadable record is shown as an error with Kafka's text. Follows
RemoteLogMetadataSerde and the parser of DumpLogSegments.
"""

from __future__ import annotations

from collections.abc import Sequence

from offsetfs.kafka.protocol import records as r
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage, id_text
from offsetfs.storage.cluster.cluster_metadata import Buffer, read_head, read_message
from offsetfs.storage.coordinators.coordinator_records import RecordTexts
from offsetfs.storage.names import REMOTE_LOG_TOPIC

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


def show(offset: int, value: Buffer | None) -> RecordTexts:
    """Return the texts of a record: None for the key, the value as Kafka prints its object."""
    try:
        if value is None:
            raise InvalidMessage(_NO_VALUE)
        return None, _text(read_message(value, read_head(value, REMOTE_LOG_TOPIC)))
    except InvalidMessage as error:
        return None, f"Error at offset {offset}, skipping. {error}"


def _text(message: ProtocolMessage) -> str:
    if isinstance(message, r.RemoteLogSegmentMetadataRecord):
        return _segment(message)
    if isinstance(message, r.RemoteLogSegmentMetadataUpdateRecord):
        return _update(message)
    if isinstance(message, r.RemotePartitionDeleteMetadataRecord):
        return _deletion(message)
    raise InvalidMessage(f"{type(message).__name__} is no record of this topic")


def _segment(message: r.RemoteLogSegmentMetadataRecord) -> str:
    epochs = sorted((each.leader_epoch, each.offset) for each in message.segment_leader_epochs)
    if not epochs:
        raise InvalidMessage("segmentLeaderEpochs can not be null or empty")
    shown = ", ".join(f"{epoch}={start}" for epoch, start in epochs)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)},"
        f" startOffset={message.start_offset}, endOffset={message.end_offset}, brokerId={message.broker_id},"
        f" maxTimestampMs={message.max_timestamp_ms}, eventTimestampMs={message.event_timestamp_ms},"
        f" segmentLeaderEpochs={{{shown}}}, segmentSizeInBytes={message.segment_size_in_bytes},"
        f" customMetadata={_custom(message.custom_metadata)},"
        f" state={_state(_SEGMENT_STATES, message.remote_log_segment_state)},"
        f" txnIdxEmpty={_BOOLEANS[message.txn_index_empty]}}}"
    )


def _update(message: r.RemoteLogSegmentMetadataUpdateRecord) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)},"
        f" customMetadata={_custom(message.custom_metadata)},"
        f" state={_state(_SEGMENT_STATES, message.remote_log_segment_state)},"
        f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
    )


def _deletion(message: r.RemotePartitionDeleteMetadataRecord) -> str:
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(message.topic_id_partition)},"
        f" state={_state(_PARTITION_STATES, message.remote_partition_delete_state)},"
        f" eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
    )


def _segment_id(entry: _SegmentId) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(entry.topic_id_partition)}, id={id_text(entry.id)}}}"


def _partition(entry: _Partition) -> str:
    return f"{id_text(entry.id)}:{entry.name}-{entry.partition}"


def _custom(data: bytes | None) -> str:
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _state(states: Sequence[str], number: int) -> str:
    """Kafka has null for a number without a state, and refuses to make an object of it."""
    if 0 <= number < len(states):
        return states[number]
    raise InvalidMessage("state can not be null")
