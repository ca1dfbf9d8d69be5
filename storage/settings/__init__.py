"""The settings of a topic and a directory: Kafka's settings, their ranges and defaults, and where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.settings.broker_settings import (
        BROKER_SETTING_NAMES,
        METADATA_LOG_DIR,
        is_broker_setting,
        log_directories_of,
        metadata_log_directory_of,
        resolve_broker_settings,
        topic_setting_of,
    )
    from offsetfs.storage.settings.config import DEFAULTS, TOPIC_SETTING_NAMES
    from offsetfs.storage.settings.directory_config import DIRECTORY_SETTING_NAMES, DirectoryConfig
    from offsetfs.storage.settings.properties_file import read_properties_file
    from offsetfs.storage.settings.topic_settings import TopicSettings

__all__ = [
    "BROKER_SETTING_NAMES",
    "DEFAULTS",
    "DIRECTORY_SETTING_NAMES",
    "METADATA_LOG_DIR",
    "TOPIC_SETTING_NAMES",
    "DirectoryConfig",
    "TopicSettings",
    "is_broker_setting",
    "log_directories_of",
    "metadata_log_directory_of",
    "read_properties_file",
    "resolve_broker_settings",
    "topic_setting_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BROKER_SETTING_NAMES": "settings.broker_settings",
        "DEFAULTS": "settings.config",
        "DIRECTORY_SETTING_NAMES": "settings.directory_config",
        "METADATA_LOG_DIR": "settings.broker_settings",
        "TOPIC_SETTING_NAMES": "settings.config",
        "DirectoryConfig": "settings.directory_config",
        "TopicSettings": "settings.topic_settings",
        "is_broker_setting": "settings.broker_settings",
        "log_directories_of": "settings.broker_settings",
        "metadata_log_directory_of": "settings.broker_settings",
        "read_properties_file": "settings.properties_file",
        "resolve_broker_settings": "settings.broker_settings",
        "topic_setting_of": "settings.broker_settings",
    },
)
