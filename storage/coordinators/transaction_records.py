"""The records of `__transaction_state` as a transaction coordinator writes and replays them.

    key      i16 0, then the transactional id        value    i16 version, then the fields; none deletes the id

Version 1 has tagged fields: the `transaction.version` of the client, and the producer ids before and after this one
(KIP-890). With `transaction.version` 2, a transaction that is ending has the epoch of the next one already. Version 0,
which all brokers read, is written for older clients. Follows TransactionLog and TransactionMetadata (KIP-98).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct, error
from typing import NamedTuple

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from offsetfs.storage.coordinators.changes_replay import ChangesReplay, UnreadableRecord
from offsetfs.storage.coordinators.coordinator_topic import partition_of_key
from offsetfs.storage.directory.log_directories import AnyLogDirectory
from offsetfs.storage.errors import InvalidName
from offsetfs.storage.names import TRANSACTIONS_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.units import Timestamp

NO_PRODUCER = -1
"""The value for no producer id, no epoch and no start time."""

_SETTINGS = {"cleanup.policy": "compact", "compression.type": "uncompressed", "segment.bytes": str(100 << 20)}
_KEY_TYPE = 0
_VERSION_MAX = 1
_SHORT = Struct(">h")


class TransactionState(IntEnum):
    """The states of a transactional id, by the numbers in its records. PrepareEpochFence (7) is never stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6

    @property
    def shown(self) -> str:
        """Kafka's name of the state."""
        return self.name.title().replace("_", "")

    @property
    def is_ending(self) -> bool:
        """Whether the end is decided, and markers are to be written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of a transactional id, with its latest transaction. Times are in milliseconds."""

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = field(default=frozenset())
    started_ms: int = NO_PRODUCER
    updated_ms: int = NO_PRODUCER
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    last_epoch: int = NO_PRODUCER
    """The epoch before the latest one that a producer asked for (KIP-360). As in Kafka it is not stored."""
    client_version: int = 0
    """The `transaction.version` of the client: with 2, each transaction has an epoch of its own (KIP-890)."""


class TransactionChange(NamedTuple):
    """The new state of a transactional id, or None for its deletion."""

    transactional_id: str
    transaction: Transaction | None


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id; struct.error for one above 32,767 bytes."""
    return _SHORT.pack(_KEY_TYPE) + b"".join(codec.writer("TransactionLogKey", 0)(TransactionLogKey(transactional_id)))


def transaction_value(transaction: Transaction) -> bytes:
    """Return the value of a transactional id."""
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(transaction.partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    is_empty = transaction.state == TransactionState.EMPTY  # as TransactionLog.valueToBytes
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if is_empty else [PartitionsSchema(*topic) for topic in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )
    version = 0
    if transaction.client_version:
        version = 1
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
    return _SHORT.pack(version) + b"".join(codec.writer("TransactionLogValue", version)(value))


def transaction_change_of(record: Record) -> TransactionChange:
    """Return what a record changes; ValueError with the reason for one of an unknown type, which is left out.

    `UnreadableRecord` for one of an unknown version, or damaged.
    """
    try:
        is_known = _SHORT.unpack_from(record.key or b"")[0] == _KEY_TYPE
        if not is_known:
            raise ValueError("a record of a transactional id: the type is unknown")
        key: TransactionLogKey = codec.reader("TransactionLogKey", 0)(memoryview(record.key or b""), _SHORT.size)[0]
        return TransactionChange(key.transactional_id, None if record.value is None else _transaction(record.value))
    except (InvalidMessage, InvalidName, error) as reason:
        raise UnreadableRecord(f"a record of a transactional id: {reason}") from None


def _transaction(data: bytes) -> Transaction | None:
    version = _SHORT.unpack_from(data)[0]
    if not 0 <= version <= _VERSION_MAX:
        raise InvalidMessage(f"the version {version} is unknown")
    value: TransactionLogValue = codec.reader("TransactionLogValue", version)(memoryview(data), _SHORT.size)[0]
    if value.transaction_status not in TransactionState.__members__.values():
        raise InvalidMessage(f"the state {value.transaction_status} is unknown")
    state = TransactionState(value.transaction_status)
    if state == TransactionState.DEAD:  # a broker deletes it next
        return None
    return Transaction(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_transaction_version,
    )


class TransactionsReplay(ChangesReplay[TransactionChange]):
    """The changes of the records of one partition of `__transaction_state`."""

    def __init__(self, log: Log) -> None:
        super().__init__(log, transaction_change_of)


def partition_of_transaction(
    directory: AnyLogDirectory, transactional_id: str, *, may_create: bool, partitions: int | None = None
) -> TopicPartition:
    """Return the partition of a transactional id, as `partition_of_key`."""
    return partition_of_key(
        directory, TRANSACTIONS_TOPIC, transactional_id, _SETTINGS, may_create=may_create, partitions=partitions
    )


_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


def end_marker_batch(
    producer_id: int, epoch: int, *, is_commit: bool, coordinator_epoch: int, now_ms: int
) -> SealedBatch:
    """Return the control batch that ends the transaction of a producer in a partition."""
    kind = COMMIT if is_commit else ABORT
    record = _KEY.pack(_VERSION, kind), _VALUE.pack(_VERSION, coordinator_epoch), (), now_ms
    data = build([record], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)
    return _sealed(data, 1, now_ms)


def transactional_batch(
    records: Sequence[tuple[bytes, bytes | None]], producer_id: int, epoch: int, now_ms: int
) -> SealedBatch:
    """Return keys and values of a coordinator's records, which count when the transaction of a producer commits.

    As a coordinator of Kafka, each such batch begins with the sequence 0.
    """
    timed = [(key, value, (), now_ms) for key, value in records]
    data = build(timed, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    return _sealed(data, len(timed), now_ms)


def _sealed(data: bytearray, count: int, now_ms: int) -> SealedBatch:
    return SealedBatch(memoryview(data), count, 0, Timestamp(now_ms), len(data))
