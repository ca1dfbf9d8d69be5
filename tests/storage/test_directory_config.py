"""The settings of a whole directory: Kafka's names, defaults and ranges."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings.directory_config import (
    DIRECTORY_DEFAULTS,
    DIRECTORY_SETTING_NAMES,
    DOUBLE_MAX,
    DirectoryConfig,
)

pytestmark = pytest.mark.unit

LONG_MAX = 2**63 - 1

DEFAULTS = {
    "log.initial.task.delay.ms": "30000",
    "log.retention.check.interval.ms": "300000",
    "log.flush.scheduler.interval.ms": str(LONG_MAX),
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "num.recovery.threads.per.data.dir": "2",
    "producer.id.expiration.ms": "86400000",
    "producer.id.expiration.check.interval.ms": "600000",
    "log.cleaner.enable": "true",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.cleaner.io.buffer.load.factor": "0.9",
    "log.cleaner.io.max.bytes.per.second": "1.7976931348623157e+308",
    "log.cleaner.backoff.ms": "15000",
}


def test_the_defaults_of_a_directory_are_those_of_kafka_4_1() -> None:
    assert DIRECTORY_DEFAULTS.properties() == DEFAULTS
    assert sorted(DIRECTORY_SETTING_NAMES) == sorted(DEFAULTS)


def test_what_is_written_is_read_as_the_same() -> None:
    config = DirectoryConfig(log_cleaner_threads=3, log_cleaner_io_max_bytes_per_second=1e6, log_cleaner_enable=False)
    assert DirectoryConfig.from_properties(config.properties()) == config


LEGAL = {
    "no limit": ({"log.cleaner.io.max.bytes.per.second": str(DOUBLE_MAX)}, DOUBLE_MAX),
    "as Java writes it": ({"log.cleaner.io.max.bytes.per.second": "1.7976931348623157E308"}, DOUBLE_MAX),
    "a number of bytes": ({"log.cleaner.io.max.bytes.per.second": " 1048576 "}, 1048576.0),
}


@pytest.mark.parametrize(("properties", "rate"), LEGAL.values(), ids=LEGAL)
def test_a_rate_is_any_number_of_bytes(properties: dict[str, str], rate: float) -> None:
    assert DirectoryConfig.from_properties(properties).log_cleaner_io_max_bytes_per_second == rate


ILLEGAL = {
    "an unknown name": ({"log.cleaner.thread": "1"}, r"unknown setting 'log.cleaner.thread'.*log.cleaner.threads"),
    "a topic's name": ({"retention.ms": "1"}, r"unknown setting 'retention.ms'"),
    "an interval of nothing": (
        {"log.retention.check.interval.ms": "0"},
        r"log.retention.check.interval.ms is 0, but must be",
    ),
    "an interval beyond an int": (
        {"log.flush.offset.checkpoint.interval.ms": str(2**31)},
        "must be at most",
    ),
    "no thread": ({"num.recovery.threads.per.data.dir": "0"}, "num.recovery.threads.per.data.dir is 0"),
    "a rate below zero": ({"log.cleaner.io.max.bytes.per.second": "-1"}, "io.max.bytes.per.second is -1"),
    "a load beyond all": (
        {"log.cleaner.io.buffer.load.factor": "1.1"},
        "load.factor is 1.1, .*from 0 to 1",
    ),
    "not a number": ({"log.cleaner.backoff.ms": "soon"}, "log.cleaner.backoff.ms is 'soon'"),
    "a map for no two keys": ({"log.cleaner.dedupe.buffer.size": "47"}, "dedupe.buffer.size 47.*holds no two keys"),
    "a map divided among too many": (
        {"log.cleaner.dedupe.buffer.size": "4800", "log.cleaner.threads": "200"},
        "log.cleaner.threads 200 holds no two keys",
    ),
    "a map with no load": ({"log.cleaner.io.buffer.load.factor": "0"}, "load.factor 0.0"),
}


@pytest.mark.parametrize(("properties", "reason"), ILLEGAL.values(), ids=ILLEGAL)
def test_what_is_not_legal_is_refused_by_name(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        DirectoryConfig.from_properties(properties)


def test_a_cleaner_that_is_off_needs_no_map() -> None:
    config = DirectoryConfig.from_properties({"log.cleaner.enable": "false", "log.cleaner.dedupe.buffer.size": "0"})
    assert config.log_cleaner_keys_max == 0


def test_the_keys_of_a_cleaner_thread_follow_from_its_share_of_the_map() -> None:
    assert DIRECTORY_DEFAULTS.log_cleaner_keys_max == int((128 << 20) // 24 * 0.9)
    assert DirectoryConfig(log_cleaner_threads=2).log_cleaner_keys_max == int((64 << 20) // 24 * 0.9)


FIELD = "log_cleaner_threads"


def test_settings_do_not_change_once_they_are_built() -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(DIRECTORY_DEFAULTS, FIELD, 2)
