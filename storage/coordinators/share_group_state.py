"""The schemas of `__share_group_state`: the progress of share groups in each partition, and records in flight.

Follows Kafka's ShareSnapshot and ShareUpdate records (KIP-932).
"""

from __future__ import annotations

from offsetfs.storage.cluster.kafka_messages import Field, Message
from offsetfs.storage.coordinators.coordinator_records import RecordType

_KEY = Message((Field("groupId", "string"), Field("topicId", "uuid"), Field("partition", "int32")))
_BATCHES = Field(
    "stateBatches",
    (
        Field("firstOffset", "int64"),
        Field("lastOffset", "int64"),
        Field("deliveryState", "int8"),
        Field("deliveryCount", "int16"),
    ),
    many=True,
)
_SNAPSHOT = Message(
    (
        Field("snapshotEpoch", "int32"),
        Field("stateEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        Field("createTimestamp", "int64"),
        Field("writeTimestamp", "int64"),
        _BATCHES,
    ),
    flexible_since=0,
)
_UPDATE = Message(
    (Field("snapshotEpoch", "int32"), Field("leaderEpoch", "int32"), Field("startOffset", "int64"), _BATCHES),
    flexible_since=0,
)

TYPES = {0: RecordType(_KEY, _SNAPSHOT), 1: RecordType(_KEY, _UPDATE)}
"""Record types by the number that a key begins with."""
