"""The settings of a topic, with Kafka's names, defaults and ranges; validated when built, immutable afterwards.

`LogConfig` has every storage setting of a topic. Settings that have no effect without replicas or tiers are accepted
and stored, so that a topic's settings can be copied from a broker. If a value would promise something that is not done
(tiered storage), only the value that disables it is legal. Follows Kafka's `LogConfig` and `TopicConfig`; the brokers'
synonyms (`log.segment.bytes`) are in `broker_settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.records.compression.compression import CODECS, UNCOMPRESSED, Compression
from offsetfs.storage.settings.config_values import (
    BooleanType,
    ChoiceType,
    CompressionLevelType,
    IntegerType,
    ListType,
    NumberType,
    SettingType,
    Value,
    VersionType,
    parse_value,
    setting_type,
)
from offsetfs.storage.units import I32_MAX, I64_MAX

DAY_MS = 24 * 60 * 60 * 1000

_JAVA_ARRAY_MAX = I32_MAX - 8


def _setting(default: Value, kind: SettingType) -> Any:
    return field(default=default, metadata={"kind": kind})


def _without_effect(default: Value, kind: SettingType) -> Any:
    return field(default=default, metadata={"kind": kind, "has_effect": False})


def _milliseconds(default: int, low: int = 0) -> Any:
    return _setting(default, IntegerType(low, I64_MAX))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one topic: `segment.bytes` is the field `segment_bytes`. InvalidConfig if one is out of range.

    Sizes are in bytes, `_ms` is milliseconds. 2⁶³−1 means never, -1 in retention means no limit.
    """

    segment_bytes: int = _setting(1 << 30, IntegerType(14, I32_MAX))
    segment_ms: int = _milliseconds(7 * DAY_MS, 1)
    segment_jitter_ms: int = _milliseconds(0)
    segment_index_bytes: int = _setting(10 << 20, IntegerType(4, I32_MAX))
    index_interval_bytes: int = _setting(4096, IntegerType(0, I32_MAX))
    preallocate: bool = _setting(False, BooleanType())

    flush_messages: int = _setting(I64_MAX, IntegerType(1, I64_MAX))
    flush_ms: int = _milliseconds(I64_MAX)

    cleanup_policy: tuple[str, ...] = _setting(("delete",), ListType(("compact", "delete")))
    retention_ms: int = _milliseconds(7 * DAY_MS, -1)
    retention_bytes: int = _setting(-1, IntegerType(-1, I64_MAX))
    file_delete_delay_ms: int = _milliseconds(60_000)
    delete_retention_ms: int = _milliseconds(DAY_MS)
    min_cleanable_dirty_ratio: float = _setting(0.5, NumberType(0, 1))
    min_compaction_lag_ms: int = _milliseconds(0)
    max_compaction_lag_ms: int = _milliseconds(I64_MAX, 1)

    max_message_bytes: int = _setting((1 << 20) + 12, IntegerType(0, I32_MAX))
    message_timestamp_type: str = _setting("CreateTime", ChoiceType(("CreateTime", "LogAppendTime")))
    message_timestamp_before_max_ms: int = _milliseconds(I64_MAX)
    message_timestamp_after_max_ms: int = _milliseconds(I64_MAX)
    message_timestamp_difference_max_ms: int = _milliseconds(I64_MAX)
    compression_type: str = _setting("producer", ChoiceType(("uncompressed", *CODECS[1:], "producer")))
    compression_gzip_level: int = _setting(-1, CompressionLevelType("gzip"))
    compression_lz4_level: int = _setting(9, CompressionLevelType("lz4"))
    compression_zstd_level: int = _setting(3, CompressionLevelType("zstd"))

    max_decompressed_message_bytes: int = _setting(_JAVA_ARRAY_MAX, IntegerType(1, _JAVA_ARRAY_MAX))

    # There is one replica, one format that is written, one tier, and no dead letters.
    message_format_version: str = _without_effect("3.0", VersionType())
    min_insync_replicas: int = _without_effect(1, IntegerType(1, I32_MAX))
    unclean_leader_election_enable: bool = _without_effect(False, BooleanType())
    remote_storage_enable: bool = _without_effect(False, BooleanType((False,)))
    remote_log_copy_disable: bool = _without_effect(False, BooleanType())
    remote_log_delete_on_disable: bool = _without_effect(False, BooleanType())
    local_retention_ms: int = _without_effect(-2, IntegerType(-2, I64_MAX))
    local_retention_bytes: int = _without_effect(-2, IntegerType(-2, I64_MAX))
    remote_copy_lag_ms: int = _without_effect(0, IntegerType(-1, I64_MAX))
    remote_copy_lag_bytes: int = _without_effect(-1, IntegerType(-1, I64_MAX))
    errors_deadletterqueue_group_enable: bool = _without_effect(False, BooleanType())

    def __post_init__(self) -> None:
        for setting in fields(self):
            setting.metadata["kind"].check(property_name(setting.name), getattr(self, setting.name))
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            least, most = self.min_compaction_lag_ms, self.max_compaction_lag_ms
            raise InvalidConfig(f"min.compaction.lag.ms {least} is above max.compaction.lag.ms {most}")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], base: LogConfig | None = None) -> LogConfig:
        """Build from Kafka's names and texts; other settings come from `base` (default: the defaults)."""
        values = {name.replace(".", "_"): parse_property(name, text) for name, text in properties.items()}
        changes: dict[str, Any] = dict(values)
        return replace(DEFAULTS if base is None else base, **changes)

    def properties(self) -> dict[str, str]:
        """Return all settings in the form that `from_properties` takes."""
        return {property_name(s.name): s.metadata["kind"].format(getattr(self, s.name)) for s in fields(self)}

    @property
    def compression(self) -> Compression:
        """The compression of appends. `producer` means that the producer decides, and offsetfs does not compress."""
        match self.compression_type:
            case "producer" | "uncompressed":
                return UNCOMPRESSED
            case "gzip":
                return Compression("gzip", self.compression_gzip_level)
            case "lz4":
                return Compression("lz4", self.compression_lz4_level)
            case "zstd":
                return Compression("zstd", self.compression_zstd_level)
        return Compression(self.compression_type)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old segments are removed by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The milliseconds for which a segment may stay active.

        In a compacted topic, records must leave the active segment to be compacted.
        """
        # As Kafka's LogConfig.maxSegmentMs (KIP-354).
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def timestamp_before_max_ms(self) -> int:
        """The milliseconds by which a record's timestamp may lie in the past.

        This setting, or the older setting for both directions.
        """
        newer = self.message_timestamp_before_max_ms
        return newer if newer != I64_MAX else self.message_timestamp_difference_max_ms

    @property
    def timestamp_after_max_ms(self) -> int:
        """The milliseconds by which a record's timestamp may lie in the future.

        This setting, or the older setting for both directions.
        """
        newer = self.message_timestamp_after_max_ms
        return newer if newer != I64_MAX else self.message_timestamp_difference_max_ms


def property_name(field_name: str) -> str:
    """Return Kafka's name of a field: `segment.bytes` for `segment_bytes`."""
    return field_name.replace("_", ".")


def check_name(name: str) -> None:
    """Raise InvalidConfig unless a setting of this name exists."""
    setting_type(_KINDS, name)


def parse_property(name: str, text: str, *, given_as: str | None = None) -> Value:
    """Parse `text` for the setting `name`; InvalidConfig with setting, value and range.

    `given_as`: the broker's name, under which the setting was given.
    """
    return parse_value({given_as or name: setting_type(_KINDS, name)}, given_as or name, text)


_KINDS: dict[str, SettingType] = {
    property_name(setting.name): setting.metadata["kind"] for setting in fields(LogConfig)
}

TOPIC_SETTING_NAMES = tuple(_KINDS)
"""All settings, by Kafka's name."""

TOPIC_SETTINGS_WITHOUT_EFFECT = frozenset(
    property_name(setting.name) for setting in fields(LogConfig) if not setting.metadata.get("has_effect", True)
)
"""Those that are stored and returned, and that nothing here reads."""

DEFAULTS = LogConfig()
"""Kafka's defaults."""
