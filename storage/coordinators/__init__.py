"""The records of Kafka's internal topics: groups, offsets, transactions, cluster metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.coordinators.changes_replay import ChangesReplay
    from offsetfs.storage.coordinators.commit_deletion import delete_commits
    from offsetfs.storage.coordinators.consumer_group_records import (
        ConsumerGroupRecord,
        ConsumerRecord,
        consumer_change,
        consumer_record,
    )
    from offsetfs.storage.coordinators.consumer_groups import Commit, ConsumerGroups, Lag
    from offsetfs.storage.coordinators.coordinator_topic import partition_of
    from offsetfs.storage.coordinators.group_records import (
        NO_EXPIRY,
        Change,
        ClassicGroupChange,
        CommitChange,
        CommittedOffset,
        NewerGroupChange,
        commit_key,
        commit_value,
        group_key,
        group_value,
        newer_deletions,
    )
    from offsetfs.storage.coordinators.group_state import describe
    from offsetfs.storage.coordinators.offsets_replay import OffsetsReplay
    from offsetfs.storage.coordinators.offsets_topic import commit_at, partition_of_group
    from offsetfs.storage.coordinators.share_groups import ShareGroups, ShareProgress
    from offsetfs.storage.coordinators.transaction_batches import end_marker_batch, transactional_batch
    from offsetfs.storage.coordinators.transaction_records import (
        NO_PRODUCER,
        Transaction,
        TransactionChange,
        TransactionsReplay,
        TransactionState,
        partition_of_transaction,
        transaction_key,
        transaction_value,
    )
    from offsetfs.storage.names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC

__all__ = [
    "NO_EXPIRY",
    "NO_PRODUCER",
    "OFFSETS_TOPIC",
    "SHARE_TOPIC",
    "TRANSACTIONS_TOPIC",
    "Change",
    "ChangesReplay",
    "ClassicGroupChange",
    "Commit",
    "CommitChange",
    "CommittedOffset",
    "ConsumerGroupRecord",
    "ConsumerGroups",
    "ConsumerRecord",
    "Lag",
    "NewerGroupChange",
    "OffsetsReplay",
    "ShareGroups",
    "ShareProgress",
    "Transaction",
    "TransactionChange",
    "TransactionState",
    "TransactionsReplay",
    "commit_at",
    "commit_key",
    "commit_value",
    "consumer_change",
    "consumer_record",
    "delete_commits",
    "describe",
    "end_marker_batch",
    "group_key",
    "group_value",
    "newer_deletions",
    "partition_of",
    "partition_of_group",
    "partition_of_transaction",
    "transaction_key",
    "transaction_value",
    "transactional_batch",
]

__getattr__ = lazy_names(
    __name__,
    {
        "NO_EXPIRY": "coordinators.group_records",
        "NO_PRODUCER": "coordinators.transaction_records",
        "OFFSETS_TOPIC": "names",
        "TRANSACTIONS_TOPIC": "names",
        "Change": "coordinators.group_records",
        "ChangesReplay": "coordinators.changes_replay",
        "ClassicGroupChange": "coordinators.group_records",
        "Commit": "coordinators.consumer_groups",
        "CommitChange": "coordinators.group_records",
        "CommittedOffset": "coordinators.group_records",
        "ConsumerGroupRecord": "coordinators.consumer_group_records",
        "ConsumerGroups": "coordinators.consumer_groups",
        "ConsumerRecord": "coordinators.consumer_group_records",
        "Lag": "coordinators.consumer_groups",
        "NewerGroupChange": "coordinators.group_records",
        "OffsetsReplay": "coordinators.offsets_replay",
        "SHARE_TOPIC": "names",
        "ShareGroups": "coordinators.share_groups",
        "ShareProgress": "coordinators.share_groups",
        "Transaction": "coordinators.transaction_records",
        "TransactionChange": "coordinators.transaction_records",
        "TransactionState": "coordinators.transaction_records",
        "TransactionsReplay": "coordinators.transaction_records",
        "commit_at": "coordinators.offsets_topic",
        "commit_key": "coordinators.group_records",
        "commit_value": "coordinators.group_records",
        "consumer_change": "coordinators.consumer_group_records",
        "consumer_record": "coordinators.consumer_group_records",
        "delete_commits": "coordinators.commit_deletion",
        "describe": "coordinators.group_state",
        "end_marker_batch": "coordinators.transaction_batches",
        "group_key": "coordinators.group_records",
        "group_value": "coordinators.group_records",
        "newer_deletions": "coordinators.group_records",
        "partition_of": "coordinators.coordinator_topic",
        "partition_of_group": "coordinators.offsets_topic",
        "partition_of_transaction": "coordinators.transaction_records",
        "transaction_key": "coordinators.transaction_records",
        "transaction_value": "coordinators.transaction_records",
        "transactional_batch": "coordinators.transaction_batches",
    },
)
