"""Words of warning for those who mount an archive for writing: Kafka's retention of seven days holds there, too."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from offsetfs.fs.options import MountOptions
from offsetfs.storage import files
from offsetfs.storage.checkpoint import META_PROPERTIES
from offsetfs.storage.errors import InvalidName, StorageError
from offsetfs.storage.maintenance.partition_stat import PartitionStat
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.settings import broker_settings
from offsetfs.storage.settings.config import DEFAULTS, LogConfig
from offsetfs.storage.settings.topic_settings import TopicSettings

PARTITIONS_MAX = 1000  # are looked at: a warning is worth some hundredths of a second


def warnings(log_directory: str, options: MountOptions) -> list[str]:
    """Return one sentence where partitions hold nothing but what retention by time will remove soon."""
    if os.path.exists(os.path.join(log_directory, META_PROPERTIES)):
        return []  # nothing goes there that was not asked for: its settings are the broker's
    try:
        going = list(_going(os.path.realpath(log_directory), options))
    except StorageError:
        return []  # the daemon says what is wrong with the settings
    if not going:
        return []
    more = f" and {len(going) - 1} more partitions" if len(going) > 1 else ""
    return [
        f"{log_directory}: all records of {going[0]}{more} are older than retention.ms, so this mount removes them; "
        "to keep them: -o ro, -o retention.ms=-1, or offsetfs config"
    ]


def _going(log_directory: str, options: MountOptions) -> Iterator[TopicPartition]:
    broker = broker_settings.resolve(options.all_broker_settings).topic_defaults
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
