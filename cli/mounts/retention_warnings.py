"""Warns before a mount for writing removes old records: Kafka's default retention of seven days applies to archives."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsetfs.storage import LogConfig, TopicPartition, files
from offsetfs.storage.directory import has_meta_properties
from offsetfs.storage.errors import InvalidName, StorageError, counted
from offsetfs.storage.maintenance import PartitionStat
from offsetfs.storage.settings import DEFAULTS, TopicSettings, resolve_broker_settings

if TYPE_CHECKING:
    from offsetfs.fs.options import MountOptions

PARTITIONS_MAX = 1000  # checked at most, which takes some hundredths of a second before each mount


def warnings(log_directory: str, options: MountOptions) -> list[str]:
    """Return a warning if all records of some partitions are older than retention.ms; at most one message."""
    if has_meta_properties(log_directory):
        return []  # a broker's directory: retention uses the settings of the broker
    try:
        expiring = list(_expiring(os.path.realpath(log_directory), options))
    except StorageError:
        return []  # the daemon reports invalid settings
    if not expiring:
        return []
    more = f" and {counted(len(expiring) - 1, 'more partition')}" if len(expiring) > 1 else ""
    return [
        f"{log_directory}: all records of {expiring[0]}{more} are older than retention.ms, so this mount removes them; "
        "to keep them: -o ro, -o retention.ms=-1, or offsetfs config"
    ]


def _expiring(log_directory: str, options: MountOptions) -> Iterator[TopicPartition]:
    broker = resolve_broker_settings(options.all_broker_settings).topic_defaults
    settings = TopicSettings(log_directory, LogConfig.from_properties({**broker, **options.topic_defaults}, DEFAULTS))
    now_ms = time.time_ns() // 1_000_000
    for name in sorted(files.directory_names(log_directory))[:PARTITIONS_MAX]:
        try:
            partition = TopicPartition.parse(name)
            config = settings.config_of(partition.topic)
            if settings.is_known(partition.topic) and config.is_deleted and config.retention_ms >= 0:
                latest_ms = PartitionStat.at(os.path.join(log_directory, name)).latest_ms()
                if 0 <= latest_ms < now_ms - config.retention_ms:
                    yield partition
        except (InvalidName, OSError):
            continue
