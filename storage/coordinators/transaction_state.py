"""The schemas of `__transaction_state`: producer, state and partitions of each transactional id.

Follows Kafka's TransactionLogKey and TransactionLogValue (KIP-98, KIP-890).
"""

from __future__ import annotations

from offsetfs.storage.cluster.kafka_messages import Field, Message
from offsetfs.storage.coordinators.coordinator_records import RecordType

_PARTITIONS = (Field("topic", "string"), Field("partitionIds", "int32", many=True))
_VALUE = Message(
    (
        Field("producerId", "int64"),
        Field("previousProducerId", "int64", since=1, tag=0, default=-1),
        Field("nextProducerId", "int64", since=1, tag=1, default=-1),
        Field("producerEpoch", "int16"),
        Field("nextProducerEpoch", "int16", since=1, tag=3, default=-1),
        Field("transactionTimeoutMs", "int32"),
        Field("transactionStatus", "int8"),
        Field("transactionPartitions", _PARTITIONS, many=True, nullable=True),
        Field("transactionLastUpdateTimestampMs", "int64"),
        Field("transactionStartTimestampMs", "int64"),
        Field("clientTransactionVersion", "int16", since=1, tag=2, default=0),
    ),
    last_version=1,
    flexible_since=1,
)

TYPES = {0: RecordType(Message((Field("transactionalId", "string"),)), _VALUE)}
"""Record types by the number that a key begins with."""
