"""The settings of a topic and a directory: Kafka's settings, their ranges and defaults, and where they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.settings.broker_settings import (
        BROKER_SETTING_NAMES,
        METADATA_LOG_DIR,
        broker_settings_for,
        effective_broker_settings,
        has_effect,
        is_broker_setting,
        log_directories_of,
        metadata_log_directory_of,
        resolve_broker_settings,
        topic_setting_of,
    )
    from offsetfs.storage.settings.config import DEFAULTS, TOPIC_SETTING_NAMES, TOPIC_SETTINGS_WITHOUT_EFFECT
    from offsetfs.storage.settings.config_values import (
        INT_MAX,
        BooleanType,
        ChoiceType,
        IntegerType,
        SettingType,
        parse_value,
        printable,
    )
    from offsetfs.storage.settings.directory_config import DIRECTORY_SETTING_NAMES, DirectoryConfig
    from offsetfs.storage.settings.properties_file import read_properties_file, read_property_lines
    from offsetfs.storage.settings.topic_settings import TopicSettings

__all__ = [
    "BROKER_SETTING_NAMES",
    "DEFAULTS",
    "DIRECTORY_SETTING_NAMES",
    "INT_MAX",
    "METADATA_LOG_DIR",
    "TOPIC_SETTINGS_WITHOUT_EFFECT",
    "TOPIC_SETTING_NAMES",
    "BooleanType",
    "ChoiceType",
    "DirectoryConfig",
    "IntegerType",
    "SettingType",
    "TopicSettings",
    "broker_settings_for",
    "effective_broker_settings",
    "has_effect",
    "is_broker_setting",
    "log_directories_of",
    "metadata_log_directory_of",
    "parse_value",
    "printable",
    "read_properties_file",
    "read_property_lines",
    "resolve_broker_settings",
    "topic_setting_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BROKER_SETTING_NAMES": "settings.broker_settings",
        "DEFAULTS": "settings.config",
        "DIRECTORY_SETTING_NAMES": "settings.directory_config",
        "INT_MAX": "settings.config_values",
        "METADATA_LOG_DIR": "settings.broker_settings",
        "TOPIC_SETTINGS_WITHOUT_EFFECT": "settings.config",
        "TOPIC_SETTING_NAMES": "settings.config",
        "BooleanType": "settings.config_values",
        "ChoiceType": "settings.config_values",
        "DirectoryConfig": "settings.directory_config",
        "IntegerType": "settings.config_values",
        "SettingType": "settings.config_values",
        "TopicSettings": "settings.topic_settings",
        "broker_settings_for": "settings.broker_settings",
        "effective_broker_settings": "settings.broker_settings",
        "has_effect": "settings.broker_settings",
        "is_broker_setting": "settings.broker_settings",
        "log_directories_of": "settings.broker_settings",
        "metadata_log_directory_of": "settings.broker_settings",
        "parse_value": "settings.config_values",
        "printable": "settings.config_values",
        "read_properties_file": "settings.properties_file",
        "read_property_lines": "settings.properties_file",
        "resolve_broker_settings": "settings.broker_settings",
        "topic_setting_of": "settings.broker_settings",
    },
)
