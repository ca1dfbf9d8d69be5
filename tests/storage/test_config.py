"""Kafka's topic settings: defaults, ranges, and what a refusal says."""

from dataclasses import fields, replace

import pytest

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.records.compression.compression import CODECS, LEVELS, Compression
from offsetfs.storage.settings.config import DEFAULTS, TOPIC_SETTING_NAMES, LogConfig, parse_property

pytestmark = pytest.mark.unit

LONG_MAX = "9223372036854775807"

KAFKA_DEFAULTS = {
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "segment.jitter.ms": "0",
    "segment.index.bytes": "10485760",
    "index.interval.bytes": "4096",
    "preallocate": "false",
    "flush.messages": LONG_MAX,
    "flush.ms": LONG_MAX,
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "file.delete.delay.ms": "60000",
    "delete.retention.ms": "86400000",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": LONG_MAX,
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": LONG_MAX,
    "message.timestamp.after.max.ms": LONG_MAX,
    "message.timestamp.difference.max.ms": LONG_MAX,
    "compression.type": "producer",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.zstd.level": "3",
    "message.format.version": "3.0",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "remote.storage.enable": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "local.retention.ms": "-2",
    "local.retention.bytes": "-2",
    "remote.copy.lag.ms": "0",
    "remote.copy.lag.bytes": "-1",
    "max.decompressed.message.bytes": "2147483639",
    "errors.deadletterqueue.group.enable": "false",
}


def test_the_defaults_are_those_of_kafka() -> None:
    assert DEFAULTS.properties() == KAFKA_DEFAULTS
    assert set(TOPIC_SETTING_NAMES) == set(KAFKA_DEFAULTS)


LEGAL = {
    "smallest segment": ("segment.bytes", "14", 14),
    "largest segment": ("segment.bytes", "2147483647", 2147483647),
    "smallest index": ("segment.index.bytes", "4", 4),
    "no interval": ("index.interval.bytes", "0", 0),
    "blanks around a number": ("segment.ms", " 1 ", 1),
    "plus sign": ("segment.ms", "+7", 7),
    "retention without limit": ("retention.ms", "-1", -1),
    "never": ("flush.ms", LONG_MAX, 2**63 - 1),
    "flag in capitals": ("preallocate", "TRUE", True),
    "one policy": ("cleanup.policy", "compact", ("compact",)),
    "both policies": ("cleanup.policy", "compact, delete", ("compact", "delete")),
    "a policy named twice": ("cleanup.policy", "delete,delete", ("delete",)),
    "no policy": ("cleanup.policy", "", ()),
    "ratio": ("min.cleanable.dirty.ratio", "0.25", 0.25),
    "ratio at its end": ("min.cleanable.dirty.ratio", "1", 1.0),
    "ratio with an exponent": ("min.cleanable.dirty.ratio", "5e-1", 0.5),
    "append time": ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
    "gzip's default level": ("compression.gzip.level", "-1", -1),
    "gzip's best": ("compression.gzip.level", "9", 9),
    "lz4's best": ("compression.lz4.level", "17", 17),
    "zstd's fastest": ("compression.zstd.level", "-131072", -131072),
    "zstd's best": ("compression.zstd.level", "22", 22),
    "format version": ("message.format.version", "2.8-IV1", "2.8-IV1"),
    "copies at once": ("remote.copy.lag.ms", "-1", -1),
    "largest record": ("max.decompressed.message.bytes", "2147483639", 2147483639),
    "dead letters": ("errors.deadletterqueue.group.enable", "true", True),
    "no tiering": ("remote.storage.enable", "false", False),
}


@pytest.mark.parametrize(("name", "text", "value"), LEGAL.values(), ids=LEGAL)
def test_a_legal_value_is_read_and_written_again(name: str, text: str, value: object) -> None:
    assert parse_property(name, text) == value
    config = LogConfig.from_properties({name: text})
    assert getattr(config, name.replace(".", "_")) == value
    assert LogConfig.from_properties(config.properties()) == config


ILLEGAL = {
    "segment below a record": ("segment.bytes", "13", "from 14 to 2147483647"),
    "segment beyond an i32": ("segment.bytes", "2147483648", "at most 2147483647"),
    "index below an entry": ("segment.index.bytes", "3", "from 4 to 2147483647"),
    "time to roll of zero": ("segment.ms", "0", ", 1 or greater"),
    "negative jitter": ("segment.jitter.ms", "-1", ", 0 or greater"),
    "flush every zero records": ("flush.messages", "0", ", 1 or greater"),
    "retention below unlimited": ("retention.ms", "-2", ", -1 or greater"),
    "beyond an i64": ("retention.ms", "9223372036854775808", "at most 9223372036854775807"),
    "very many digits": ("retention.ms", "9" * 100_000, "a whole number"),
    "no number": ("segment.bytes", "1k", "a whole number"),
    "empty": ("segment.bytes", "", "a whole number"),
    "underscores": ("segment.bytes", "1_000", "a whole number"),
    "fraction where none may be": ("segment.bytes", "14.0", "a whole number"),
    "digits beyond ASCII": ("segment.bytes", "٣٣", "a whole number"),
    "no flag": ("preallocate", "1", "true or false"),
    "unknown policy": ("cleanup.policy", "compact,keep", "a list of compact, delete"),
    "policy with an empty part": ("cleanup.policy", "compact,", "a list of compact, delete"),
    "ratio above one": ("min.cleanable.dirty.ratio", "1.01", "from 0 to 1"),
    "ratio that is not a number": ("min.cleanable.dirty.ratio", "nan", "from 0 to 1"),
    "infinite ratio": ("min.cleanable.dirty.ratio", "inf", "from 0 to 1"),
    "timestamp type in another case": ("message.timestamp.type", "createtime", "CreateTime, LogAppendTime"),
    "codec that is none": ("compression.type", "brotli", "uncompressed, gzip, snappy, lz4, zstd, producer"),
    "gzip level zero": ("compression.gzip.level", "0", "-1, or a whole number from 1 to 9"),
    "gzip level ten": ("compression.gzip.level", "10", "from 1 to 9"),
    "lz4 level zero": ("compression.lz4.level", "0", "from 1 to 17"),
    "zstd level too high": ("compression.zstd.level", "23", "from -131072 to 22"),
    "no version": ("message.format.version", "new", "a version of Kafka"),
    "lag below the local retention": ("remote.copy.lag.bytes", "-2", ", -1 or greater"),
    "no record at all": ("max.decompressed.message.bytes", "0", "from 1 to 2147483639"),
    "larger than an array of Java": ("max.decompressed.message.bytes", "2147483640", "at most 2147483639"),
    "tiered storage": ("remote.storage.enable", "true", "false"),
}


@pytest.mark.parametrize(("name", "text", "legal"), ILLEGAL.values(), ids=ILLEGAL)
def test_an_illegal_value_is_refused_with_setting_value_and_range(name: str, text: str, legal: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        LogConfig.from_properties({name: text})
    message = str(caught.value)
    assert name in message and legal in message
    assert text[:20] in message and len(message) < 300


UNKNOWN = {
    "a letter missing": ("segment.byte", "segment.bytes"),
    "underscores for dots": ("retention_ms", "retention.ms"),
    "a broker's name for it": ("log.segment.bytes", "segment.bytes"),
    "something quite different": ("x", ""),
    "nothing": ("", ""),
    "far too long": ("segment.bytes" * 10_000, ""),
    "control characters": ("segment.bytes\x1b[31m", "segment.bytes"),
}


@pytest.mark.parametrize(("name", "nearest"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_setting_is_refused_with_a_close_name_that_exists(name: str, nearest: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        LogConfig.from_properties({name: "1"})
    message = str(caught.value)
    assert nearest in message and ("did you mean" in message) == bool(nearest), "only a close name is offered"
    assert message.isprintable() and len(message) < 300


def test_what_is_not_named_comes_from_the_base() -> None:
    base = LogConfig.from_properties({"segment.bytes": "1000", "retention.ms": "5"})
    config = LogConfig.from_properties({"retention.ms": "6"}, base)
    assert (config.segment_bytes, config.retention_ms) == (1000, 6)
    assert LogConfig.from_properties({}, base) == base


def test_a_config_cannot_be_built_wrong_in_code_either() -> None:
    with pytest.raises(InvalidConfig, match=r"segment\.bytes is 1,"):
        LogConfig(segment_bytes=1)
    with pytest.raises(InvalidConfig, match=r"segment\.bytes is True,"):
        replace(DEFAULTS, segment_bytes=True)
    with pytest.raises(AttributeError):
        DEFAULTS.__setattr__("segment_bytes", 1000)


def test_records_may_not_have_to_wait_longer_for_compaction_than_they_may() -> None:
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms 10 is above max\.compaction\.lag\.ms 9"):
        LogConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=9)
    assert LogConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=10).min_compaction_lag_ms == 10


COMPRESSIONS = {
    "left to the producer": ({}, Compression("none")),
    "uncompressed": ({"compression.type": "uncompressed"}, Compression("none")),
    "gzip": ({"compression.type": "gzip"}, Compression("gzip", -1)),
    "gzip with a level": ({"compression.type": "gzip", "compression.gzip.level": "6"}, Compression("gzip", 6)),
    "level of another codec": ({"compression.type": "gzip", "compression.lz4.level": "6"}, Compression("gzip", -1)),
    "snappy": ({"compression.type": "snappy"}, Compression("snappy")),
    "lz4": ({"compression.type": "lz4"}, Compression("lz4", 9)),
    "zstd": ({"compression.type": "zstd", "compression.zstd.level": "-5"}, Compression("zstd", -5)),
}


@pytest.mark.parametrize(("properties", "expected"), COMPRESSIONS.values(), ids=COMPRESSIONS)
def test_a_topic_states_how_appends_are_compressed(properties: dict[str, str], expected: Compression) -> None:
    assert LogConfig.from_properties(properties).compression == expected


@pytest.mark.parametrize("codec", CODECS[1:])
def test_each_codec_is_a_compression_type_and_its_level_is_used(codec: str) -> None:
    assert LogConfig.from_properties({"compression.type": codec}).compression.name == codec
    if codec in LEVELS:
        setting, level = f"compression.{codec}.level", LEVELS[codec][-1]
        assert setting in TOPIC_SETTING_NAMES, f"storage/settings/config.py:LogConfig lacks {setting}"
        config = LogConfig.from_properties({"compression.type": codec, setting: str(level)})
        assert config.compression == Compression(codec, level), "storage/settings/config.py:LogConfig.compression"
        with pytest.raises(InvalidConfig, match=f"whole number from .* to {level}$"):
            parse_property(setting, str(level + 1))


def test_only_a_compacted_topic_rolls_for_the_sake_of_compaction() -> None:
    kept = LogConfig(segment_ms=100, max_compaction_lag_ms=10)
    assert (kept.is_compacted, kept.is_deleted, kept.roll_ms) == (False, True, 100)
    compacted = replace(kept, cleanup_policy=("compact",))
    assert (compacted.is_compacted, compacted.is_deleted, compacted.roll_ms) == (True, False, 10)


def test_limits_on_timestamps_fall_back_to_the_older_setting() -> None:
    config = LogConfig(message_timestamp_difference_max_ms=5)
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (5, 5)
    newer = replace(config, message_timestamp_before_max_ms=7)
    assert (newer.timestamp_before_max_ms, newer.timestamp_after_max_ms) == (7, 5)


def test_every_setting_has_its_kind() -> None:
    assert all("kind" in setting.metadata for setting in fields(LogConfig))
