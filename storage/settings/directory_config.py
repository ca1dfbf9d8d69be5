"""The settings of a whole log directory, which Kafka keeps in `server.properties` for all its logs.

Kafka's names, defaults and ranges; validated when built, immutable afterwards. Only settings of the background tasks:
the broker's defaults for topics (`log.retention.ms`) are in `broker_settings`. Follows KafkaConfig, ServerLogConfigs,
CleanerConfig and TransactionLogConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings.config import property_name
from offsetfs.storage.settings.config_values import (
    BooleanType,
    IntegerType,
    NumberType,
    SettingType,
    Value,
    parse_value,
)
from offsetfs.storage.units import I32_MAX, I64_MAX

DOUBLE_MAX = 1.7976931348623157e308

MAP_ENTRY_BYTES = 24
"""The size of a key in the cleaner's offset map: an MD5 and an offset in Kafka."""


def _setting(default: Value, kind: SettingType) -> Any:
    return field(default=default, metadata={"kind": kind})


def _milliseconds(default: int, low: int, high: int = I64_MAX) -> Any:
    return _setting(default, IntegerType(low, high))


@dataclass(frozen=True, slots=True)
class DirectoryConfig:
    """The settings of one directory: `log.cleaner.threads` is the field `log_cleaner_threads`.

    Sizes are in bytes, `_ms` is milliseconds; 2⁶³−1 means never. InvalidConfig if one is out of range.
    """

    log_initial_task_delay_ms: int = _milliseconds(30_000, 0)
    log_retention_check_interval_ms: int = _milliseconds(300_000, 1)
    log_flush_scheduler_interval_ms: int = _milliseconds(I64_MAX, 1)
    log_flush_offset_checkpoint_interval_ms: int = _milliseconds(60_000, 1, I32_MAX)
    log_flush_start_offset_checkpoint_interval_ms: int = _milliseconds(60_000, 1, I32_MAX)
    num_recovery_threads_per_data_dir: int = _setting(2, IntegerType(1, I32_MAX))

    producer_id_expiration_ms: int = _milliseconds(86_400_000, 1, I32_MAX)
    producer_id_expiration_check_interval_ms: int = _milliseconds(600_000, 1, I32_MAX)

    log_cleaner_enable: bool = _setting(True, BooleanType())
    log_cleaner_threads: int = _setting(1, IntegerType(1, I32_MAX))
    log_cleaner_dedupe_buffer_size: int = _setting(128 << 20, IntegerType(0, I64_MAX))
    log_cleaner_io_buffer_load_factor: float = _setting(0.9, NumberType(0, 1))
    log_cleaner_io_max_bytes_per_second: float = _setting(DOUBLE_MAX, NumberType(0, DOUBLE_MAX))
    log_cleaner_backoff_ms: int = _milliseconds(15_000, 0)

    def __post_init__(self) -> None:
        for setting in fields(self):
            setting.metadata["kind"].check(property_name(setting.name), getattr(self, setting.name))
        # With a map for fewer than two keys no round would advance.
        if self.log_cleaner_enable and self.log_cleaner_keys_max <= 1:
            size, threads, factor = (
                self.log_cleaner_dedupe_buffer_size,
                self.log_cleaner_threads,
                self.log_cleaner_io_buffer_load_factor,
            )
            raise InvalidConfig(
                f"log.cleaner.dedupe.buffer.size {size} for log.cleaner.threads {threads} holds no two keys at "
                f"{MAP_ENTRY_BYTES} bytes each with log.cleaner.io.buffer.load.factor {factor}"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], base: DirectoryConfig | None = None) -> DirectoryConfig:
        """Build from Kafka's names and texts; other settings come from `base` (default: the defaults)."""
        values: dict[str, Any] = {n.replace(".", "_"): parse_value(_KINDS, n, text) for n, text in properties.items()}
        return replace(DIRECTORY_DEFAULTS if base is None else base, **values)

    def properties(self) -> dict[str, str]:
        """Return all settings in the form that `from_properties` takes."""
        return {property_name(s.name): s.metadata["kind"].format(getattr(self, s.name)) for s in fields(self)}

    @property
    def log_cleaner_keys_max(self) -> int:
        """The number of keys that fit into the offset map of one cleaner thread."""
        slots = self.log_cleaner_dedupe_buffer_size // self.log_cleaner_threads // MAP_ENTRY_BYTES
        return int(slots * self.log_cleaner_io_buffer_load_factor)


_KINDS: dict[str, SettingType] = {
    property_name(setting.name): setting.metadata["kind"] for setting in fields(DirectoryConfig)
}

DIRECTORY_SETTING_NAMES = tuple(_KINDS)
"""All settings, by Kafka's name."""

DIRECTORY_DEFAULTS = DirectoryConfig()
"""Kafka's defaults."""
