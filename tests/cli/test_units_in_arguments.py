"""Durations and sizes with units, wherever a setting or an option takes a number of milliseconds, seconds or bytes."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from offsetfs.cli import exit_codes, run
from offsetfs.cli.arguments.archive_mounts import archive_mount
from offsetfs.cli.arguments.kafka_mounts import kafka_mount
from offsetfs.cli.arguments.numbers import DAYS_MS, SECONDS_MS, duration_type, size_type
from offsetfs.fs.options import MountOptions
from offsetfs.kafka.broker.settings_file import load_settings
from offsetfs.storage.settings import TopicSettings

pytestmark = pytest.mark.unit


def test_settings_of_topics_take_units(tmp_path: Path) -> None:
    log = os.fspath(tmp_path)
    assert run(["create", log, "orders", "-o", "retention.ms=7d", "-o", "segment.bytes=64m"]) == 0
    assert run(["config", log, "orders", "retention.ms=2weeks", "segment.bytes=64MB"]) == 0
    assert run(["config", log, "orders", "segment.ms=1h", "log.roll.hours=2d", "retention.bytes=1g"]) == 0
    assert TopicSettings(log).of("orders") == {
        "retention.ms": "1209600000",
        "segment.bytes": "67108864",
        "segment.ms": "172800000",
        "retention.bytes": "1073741824",
    }


def test_settings_of_a_served_directory_take_units(tmp_path: Path) -> None:
    loaded = load_settings(None, ["log.retention.hours=7d", "offsets.retention.minutes=1d"], os.fspath(tmp_path))
    assert loaded.broker.settings["log.retention.hours"] == "168"
    assert loaded.server.offsets_retention_minutes == 1440


def test_a_settings_file_has_plain_numbers_as_with_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.retention.ms=7d\n")
    (tmp_path / "log").mkdir()
    assert run(["config", os.fspath(tmp_path / "log"), "--config", os.fspath(path)]) == exit_codes.WRONG_CALL
    assert "log.retention.ms is '7d', but must be a whole number" in capsys.readouterr().err


def test_options_of_a_mount_take_units() -> None:
    options = MountOptions.parse(["linger-ms=1s,flush-ms=1m,buffer-bytes=1g,retention.ms=7d,log.segment.bytes=64m"])
    assert (options.linger_ms, options.flush_ms, options.buffer_bytes) == (1000, 60_000, 1 << 30)
    assert options.topic_defaults == {"retention.ms": "604800000"}
    assert options.broker_settings == {"log.segment.bytes": "67108864"}


def test_options_of_an_archive_mount_take_units() -> None:
    settings = archive_mount("s3://bucket/prefix", ["timeout=1m,cache-size=1t"]).settings
    assert (settings.timeout_s, settings.cache_size) == (60.0, 1 << 40)


def test_the_retention_of_a_mounted_cluster_takes_units() -> None:
    options = kafka_mount("kafka://127.0.0.1:1/", ["retention.ms=7d"]).source.options
    assert options.settings == {"retention.ms": "604800000"}


@pytest.mark.parametrize(
    ("unit_ms", "text", "number"),
    [(SECONDS_MS, "90", 90.0), (SECONDS_MS, "1.5", 1.5), (SECONDS_MS, "1m30s", 90.0), (DAYS_MS, "2weeks", 14.0)],
)
def test_an_option_takes_a_duration_in_its_unit_or_with_units(unit_ms: int, text: str, number: float) -> None:
    assert duration_type(unit_ms)(text) == number


@pytest.mark.parametrize("text", ["", "soon", "5x", "nan", "inf", "1e999"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration, such as 90, 90s, 15m or 7d"):
        duration_type(SECONDS_MS)(text)


def test_an_option_takes_a_size_with_a_unit() -> None:
    assert size_type(1 << 30)("20M") == 20 << 20
    with pytest.raises(click.BadParameter, match="'20x' is not a size"):
        size_type(1 << 30)("20x")
    with pytest.raises(click.BadParameter, match="2g must be at most 1073741824"):
        size_type(1 << 30)("2g")
