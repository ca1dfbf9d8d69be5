"""Background tasks of an open log directory: retention, compaction, checkpoints, removals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.directory.hand_over import HandOverResult, hand_over
    from offsetfs.storage.maintenance.background_tasks import BackgroundTasks, TaskQueue, TaskResult
    from offsetfs.storage.maintenance.maintenance_plan import dirty_range, plan_maintenance
    from offsetfs.storage.maintenance.partition_copy import (
        CompactedCopy,
        DirtyPartition,
        begin_compaction,
        compact_copy,
        install_compacted,
    )
    from offsetfs.storage.maintenance.partition_stat import PartitionStat
    from offsetfs.storage.maintenance.reindexing import reindex_segment
    from offsetfs.storage.partition.convert import convert_log, has_old_format
    from offsetfs.storage.partition.cut_tail import kept_files

__all__ = [
    "BackgroundTasks",
    "CompactedCopy",
    "DirtyPartition",
    "HandOverResult",
    "PartitionStat",
    "TaskQueue",
    "TaskResult",
    "begin_compaction",
    "compact_copy",
    "convert_log",
    "dirty_range",
    "hand_over",
    "has_old_format",
    "install_compacted",
    "kept_files",
    "plan_maintenance",
    "reindex_segment",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BackgroundTasks": "maintenance.background_tasks",
        "CompactedCopy": "maintenance.partition_copy",
        "DirtyPartition": "maintenance.partition_copy",
        "HandOverResult": "directory.hand_over",
        "PartitionStat": "maintenance.partition_stat",
        "TaskQueue": "maintenance.background_tasks",
        "TaskResult": "maintenance.background_tasks",
        "begin_compaction": "maintenance.partition_copy",
        "compact_copy": "maintenance.partition_copy",
        "convert_log": "partition.convert",
        "dirty_range": "maintenance.maintenance_plan",
        "hand_over": "directory.hand_over",
        "has_old_format": "partition.convert",
        "install_compacted": "maintenance.partition_copy",
        "kept_files": "partition.cut_tail",
        "plan_maintenance": "maintenance.maintenance_plan",
        "reindex_segment": "maintenance.reindexing",
    },
)
