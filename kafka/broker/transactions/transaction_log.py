"""The state of the transaction coordinator on disk: transactional ids in `__transaction_state`, in Kafka's format.

`CoordinatorLog` reads and writes.
"""

from __future__ import annotations

from offsetfs.kafka.broker.coordinator_log import CoordinatorLog, KeyValue, Shard
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.transactions.transaction import TransactionError
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import (
    TRANSACTIONS_TOPIC,
    Transaction,
    TransactionChange,
    TransactionsReplay,
    partition_of_transaction,
    transaction_key,
    transaction_value,
)

_Shard = Shard[Transaction, TransactionChange]


class TransactionLog(CoordinatorLog[Transaction, TransactionChange]):
    """Reads and writes `__transaction_state` of one directory."""

    unreadable = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def __init__(self, directory: LogDirectory, partitions: int, syncs: LogSync) -> None:
        """`partitions`: the number of partitions of a new topic."""
        super().__init__(directory, TRANSACTIONS_TOPIC, "transactions", syncs, TransactionError, TransactionsReplay)
        self._partitions = partitions
        self._ending: dict[TopicPartition, set[str]] = {}

    def ending(self) -> list[str]:
        """Return the ids whose transaction is to be completed, of the partitions that can be read."""
        return [transactional_id for partition in self._shards for transactional_id in self._ending.get(partition, ())]

    def epoch_of(self, transactional_id: str) -> int:
        """Return the epoch of the coordinator: the leader epoch of the id's partition, at least 0."""
        replays = [shard.replay for shard in self._shards_of(transactional_id) if shard.replay is not None]
        return max([0, *(replay.log.leader_epoch for replay in replays)])

    def _create(self, key: str) -> None:
        partition_of_transaction(self._directory, key, may_create=True, partitions=self._partitions)

    def _record(self, change: TransactionChange) -> KeyValue:
        value = None if change.transaction is None else transaction_value(change.transaction)
        return transaction_key(change.transactional_id), value

    def _on_forget(self, shard: _Shard) -> None:
        self._ending.pop(shard.partition, None)

    def _apply(self, shard: _Shard, change: TransactionChange, *, own_offset: int | None) -> None:
        transactional_id, transaction = change
        if transaction is None:
            shard.states.pop(transactional_id, None)
        else:
            shard.states[transactional_id] = transaction
        ending = self._ending.setdefault(shard.partition, set())
        if transaction is not None and transaction.state.is_ending:
            ending.add(transactional_id)
        else:
            ending.discard(transactional_id)
