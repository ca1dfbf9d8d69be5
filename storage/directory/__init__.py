"""A log directory: its partitions, checkpoints and settings; creating and deleting partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.checkpoint import (
        CLEAN_SHUTDOWN,
        LEADER_EPOCHS,
        PARTITION_METADATA,
        CleanShutdown,
        write_epochs,
        write_topic_id,
    )
    from offsetfs.storage.cluster.metadata_log import holds_metadata_log
    from offsetfs.storage.directory.directory_listing import (
        LOAD_JOURNAL,
        MARKER_FILES,
        RESTORE_JOURNAL,
        check_log_directory,
        cluster_id_of,
        has_meta_properties,
        log_directory_ids,
    )
    from offsetfs.storage.directory.inherited_settings import SettingLayers, setting_layers
    from offsetfs.storage.directory.log_changes import LogChange, OnLogChange
    from offsetfs.storage.directory.log_directories import left_out_message, metadata_directory_among, split_paths
    from offsetfs.storage.directory.mirror_file import MIRROR_FILE, MirroredTopic, MirrorFile
    from offsetfs.storage.recovery.recover_all import OnRecovery, RecoveryProgress

__all__ = [
    "CLEAN_SHUTDOWN",
    "LEADER_EPOCHS",
    "LOAD_JOURNAL",
    "MARKER_FILES",
    "MIRROR_FILE",
    "PARTITION_METADATA",
    "RESTORE_JOURNAL",
    "CleanShutdown",
    "LogChange",
    "MirrorFile",
    "MirroredTopic",
    "OnLogChange",
    "OnRecovery",
    "RecoveryProgress",
    "SettingLayers",
    "check_log_directory",
    "cluster_id_of",
    "has_meta_properties",
    "holds_metadata_log",
    "left_out_message",
    "log_directory_ids",
    "metadata_directory_among",
    "setting_layers",
    "split_paths",
    "write_epochs",
    "write_topic_id",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CLEAN_SHUTDOWN": "checkpoint",
        "CleanShutdown": "checkpoint",
        "LEADER_EPOCHS": "checkpoint",
        "LOAD_JOURNAL": "directory.directory_listing",
        "MARKER_FILES": "directory.directory_listing",
        "LogChange": "directory.log_changes",
        "MIRROR_FILE": "directory.mirror_file",
        "MirrorFile": "directory.mirror_file",
        "MirroredTopic": "directory.mirror_file",
        "OnLogChange": "directory.log_changes",
        "OnRecovery": "recovery.recover_all",
        "PARTITION_METADATA": "checkpoint",
        "RESTORE_JOURNAL": "directory.directory_listing",
        "RecoveryProgress": "recovery.recover_all",
        "SettingLayers": "directory.inherited_settings",
        "check_log_directory": "directory.directory_listing",
        "cluster_id_of": "directory.directory_listing",
        "has_meta_properties": "directory.directory_listing",
        "holds_metadata_log": "cluster.metadata_log",
        "left_out_message": "directory.log_directories",
        "log_directory_ids": "directory.directory_listing",
        "metadata_directory_among": "directory.log_directories",
        "setting_layers": "directory.inherited_settings",
        "split_paths": "directory.log_directories",
        "write_epochs": "checkpoint",
        "write_topic_id": "checkpoint",
    },
)
