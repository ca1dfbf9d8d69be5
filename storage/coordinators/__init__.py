"""The records of Kafka's internal topics: groups, offsets, transactions, cluster metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.coordinators.commit_deletion import delete_commits
    from offsetfs.storage.coordinators.consumer_groups import Commit, ConsumerGroups, Lag
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
    from offsetfs.storage.coordinators.offsets_topic import partition_of, partition_of_group
    from offsetfs.storage.coordinators.share_groups import ShareGroups, ShareProgress
    from offsetfs.storage.names import OFFSETS_TOPIC, SHARE_TOPIC

__all__ = [
    "NO_EXPIRY",
    "OFFSETS_TOPIC",
    "SHARE_TOPIC",
    "Change",
    "ClassicGroupChange",
    "Commit",
    "CommitChange",
    "CommittedOffset",
    "ConsumerGroups",
    "Lag",
    "NewerGroupChange",
    "OffsetsReplay",
    "ShareGroups",
    "ShareProgress",
    "commit_key",
    "commit_value",
    "delete_commits",
    "describe",
    "group_key",
    "group_value",
    "newer_deletions",
    "partition_of",
    "partition_of_group",
]

__getattr__ = lazy_names(
    __name__,
    {
        "NO_EXPIRY": "coordinators.group_records",
        "OFFSETS_TOPIC": "names",
        "Change": "coordinators.group_records",
        "ClassicGroupChange": "coordinators.group_records",
        "Commit": "coordinators.consumer_groups",
        "CommitChange": "coordinators.group_records",
        "CommittedOffset": "coordinators.group_records",
        "ConsumerGroups": "coordinators.consumer_groups",
        "Lag": "coordinators.consumer_groups",
        "NewerGroupChange": "coordinators.group_records",
        "OffsetsReplay": "coordinators.offsets_replay",
        "SHARE_TOPIC": "names",
        "ShareGroups": "coordinators.share_groups",
        "ShareProgress": "coordinators.share_groups",
        "commit_key": "coordinators.group_records",
        "commit_value": "coordinators.group_records",
        "delete_commits": "coordinators.commit_deletion",
        "describe": "coordinators.group_state",
        "group_key": "coordinators.group_records",
        "group_value": "coordinators.group_records",
        "newer_deletions": "coordinators.group_records",
        "partition_of": "coordinators.offsets_topic",
        "partition_of_group": "coordinators.offsets_topic",
    },
)
