"""The records of Kafka's internal topics: groups, offsets, transactions, cluster metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.coordinators.commit_records import commit_key, commit_value, partition_of_group
    from offsetfs.storage.coordinators.consumer_groups import Commit, ConsumerGroups, Lag
    from offsetfs.storage.coordinators.share_groups import ShareGroups, ShareProgress

__all__ = [
    "Commit",
    "ConsumerGroups",
    "Lag",
    "ShareGroups",
    "ShareProgress",
    "commit_key",
    "commit_value",
    "partition_of_group",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Commit": "coordinators.consumer_groups",
        "ConsumerGroups": "coordinators.consumer_groups",
        "Lag": "coordinators.consumer_groups",
        "ShareGroups": "coordinators.share_groups",
        "ShareProgress": "coordinators.share_groups",
        "commit_key": "coordinators.commit_records",
        "commit_value": "coordinators.commit_records",
        "partition_of_group": "coordinators.commit_records",
    },
)
