"""Kafka's settings of a broker: names, precedence and units, from files and from the metadata log."""

import os
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import BROKER, TOPIC, MetadataDirectory
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage.cluster import metadata_log
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.inherited_settings import BrokerContext
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.settings import config
from offsetfs.storage.settings.broker_settings import (
    BROKER_SETTING_NAMES,
    METADATA_LOG_DIR,
    metadata_log_directory_of,
    resolve_broker_settings,
    topic_setting_of,
)
from offsetfs.storage.settings.config import TOPIC_SETTING_NAMES
from offsetfs.storage.settings.directory_config import DIRECTORY_SETTING_NAMES
from offsetfs.storage.settings.properties_file import read_properties_file
from offsetfs.storage.settings.topic_settings import LOOK_INTERVAL_S

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("given", "topic"),
    [
        ({"log.retention.hours": "2"}, {"retention.ms": "7200000"}),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, {"retention.ms": "180000"}),
        ({"log.retention.ms": "4", "log.retention.minutes": "3"}, {"retention.ms": "4"}),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, {"retention.ms": "4"}),
        ({"log.retention.hours": "-5"}, {"retention.ms": "-1"}),
        ({"log.retention.bytes": "1000"}, {"retention.bytes": "1000"}),
        ({"log.roll.hours": "1"}, {"segment.ms": "3600000"}),
        ({"log.roll.hours": "1", "log.roll.ms": "9"}, {"segment.ms": "9"}),
        ({"log.roll.jitter.hours": "0"}, {"segment.jitter.ms": "0"}),
        ({"log.segment.bytes": "2048"}, {"segment.bytes": "2048"}),
        ({"log.index.size.max.bytes": "4096"}, {"segment.index.bytes": "4096"}),
        ({"log.index.interval.bytes": "1"}, {"index.interval.bytes": "1"}),
        ({"log.flush.interval.messages": "7"}, {"flush.messages": "7"}),
        ({"log.flush.scheduler.interval.ms": "7"}, {"flush.ms": "7"}),
        ({"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "8"}, {"flush.ms": "8"}),
        ({"log.cleanup.policy": "compact,delete"}, {"cleanup.policy": "compact,delete"}),
        ({"log.cleaner.min.cleanable.ratio": "0.1"}, {"min.cleanable.dirty.ratio": "0.1"}),
        ({"log.segment.delete.delay.ms": "1"}, {"file.delete.delay.ms": "1"}),
        ({"message.max.bytes": "99"}, {"max.message.bytes": "99"}),
        ({"log.message.timestamp.type": "LogAppendTime"}, {"message.timestamp.type": "LogAppendTime"}),
        ({"compression.type": "zstd"}, {"compression.type": "zstd"}),
    ],
    ids=lambda value: ",".join(value),
)
def test_a_brokers_name_stands_for_a_topic_setting(given: dict[str, str], topic: dict[str, str]) -> None:
    assert resolve_broker_settings(given).topic_defaults == topic


def test_every_topic_setting_with_a_default_of_the_broker_is_known() -> None:
    without = {"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable"}
    without.add("errors.deadletterqueue.group.enable")
    reached = {
        topic_setting_of(name, "1")[0]  # type: ignore[index]
        for name in BROKER_SETTING_NAMES
        if name not in DIRECTORY_SETTING_NAMES and name != METADATA_LOG_DIR
    }
    assert reached == set(TOPIC_SETTING_NAMES) - without, "storage/settings/broker_settings.py:_SYNONYMS"


def test_known_settings_without_effect_are_listed_and_unknown_ones_refused() -> None:
    unread = {
        "num.network.threads": "3",
        "listener.name.internal.ssl.key.password": "x",
        "min.insync.replicas": "2",
        "log.cleaner.io.buffer.size": "1048576",
        "replica.high.watermark.checkpoint.interval.ms": "200",
    }
    found = resolve_broker_settings({**unread, "log.cleaner.threads": "2"})
    assert found.without_effect == tuple(unread)
    assert found.topic_defaults == {"min.insync.replicas": "2"}, "stored, and returned to clients"
    assert found.directory == {"log.cleaner.threads": "2"}
    with pytest.raises(InvalidConfig, match=r"'log.retention.hour' is not .*did you mean log.retention.hours"):
        resolve_broker_settings({"log.retention.hour": "1"})
    for name in ("retention.ms", "flush.ms"):
        with pytest.raises(InvalidConfig, match="is not a setting of a Kafka broker"):
            resolve_broker_settings({name: "1"})


@pytest.mark.parametrize(
    "given",
    [
        {"log.retention.hours": "x"},
        {"log.retention.ms": "0"},
        {"log.roll.hours": "0"},
        {"log.roll.hours": "9" * 18},
        {"log.segment.bytes": "3"},
        {"log.cleanup.policy": "shred"},
        {"log.cleaner.threads": "0"},
    ],
    ids=lambda value: ",".join(value),
)
def test_an_illegal_value_names_its_setting(given: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        resolve_broker_settings(given)


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# comment\n! comment\n\nlog.dirs=/data/a,\\\n    /data/b\nnode.id: 7\r\nbroker.rack r1\n"
        "advertised.listeners = PLAINTEXT\\://h\\u0041:9092\nempty=\nlast=1\nlast=2\nno.value"
    )
    assert read_properties_file(os.fspath(path)) == {
        "log.dirs": "/data/a,/data/b",
        "node.id": "7",
        "broker.rack": "r1",
        "advertised.listeners": "PLAINTEXT://hA:9092",
        "empty": "",
        "last": "2",
        "no.value": "",
    }
    path.write_bytes(b"a=\xff")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        read_properties_file(os.fspath(path))


def test_the_metadata_log_of_a_broker_is_where_its_settings_say() -> None:
    where = metadata_log_directory_of
    assert where({}) is None
    assert where({"log.dir": "/a", "log.dirs": "/b, /c"}) == "/b"
    assert where({"log.dirs": "/b", "metadata.log.dir": "/m"}) == "/m"


# --- the settings of a cluster's topics ------------------------------------------------------------------------------


class Stopped:
    """The directory of a stopped broker, node 1, with one topic and the cluster's metadata log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        LogDirectory.open(os.fspath(path)).close()
        (path / "orders-0").mkdir()
        (path / "orders-0" / f"{0:020d}.log").touch()
        (path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
        self.metadata = MetadataDirectory(path)
        self.metadata.append(records.topics(orders=[1]))

    def set(self, resource: int, name: str, **settings: str | None) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.metadata.append([records.setting(resource, name, key, value) for key, value in named.items()])

    def open(self, broker: dict[str, str] | None = None, *, known: bool = False, **given: str) -> LogDirectory:
        return LogDirectory.open(
            os.fspath(self.path),
            read_only=True,
            defaults={key.replace("_", "."): value for key, value in given.items()},
            broker=BrokerContext(broker or {}, is_complete=known),
            clock=self.clock,
        )


@pytest.fixture
def stopped(tmp_path: Path) -> Stopped:
    return Stopped(tmp_path)


def test_kafkas_precedence_holds_between_all_places_of_a_setting(stopped: Stopped) -> None:
    def retention(broker: dict[str, str] | None = None, **given: Any) -> int:
        return stopped.open(broker, **given).config_of("orders").retention_ms

    static = {"log.retention.ms": "1"}
    assert retention() == config.DEFAULTS.retention_ms and retention(static) == 1
    stopped.set(BROKER, "", log_retention_ms="2")
    assert retention(static) == 2
    stopped.set(BROKER, "1", log_retention_ms="3")
    stopped.set(BROKER, "2", log_retention_ms="9")
    assert retention(static) == 3 and retention(static, retention_ms="4") == 4
    stopped.set(TOPIC, "orders", retention_ms="5")
    assert retention(static, retention_ms="4") == 5
    (stopped.path / ".offsetfs-topics.json").write_text('{"version":0,"topics":{"orders":{"retention.ms":"6"}}}')
    assert retention(static, retention_ms="4") == 6


def test_settings_of_the_directory_come_from_the_metadata_log_too(stopped: Stopped) -> None:
    stopped.set(BROKER, "", log_cleaner_threads="3", num_io_threads="9")
    assert stopped.open().config.log_cleaner_threads == 3


def test_a_topics_policy_is_known_from_the_metadata_log(stopped: Stopped) -> None:
    assert not stopped.open().knows_policy("orders"), "the broker's own default is in its server.properties"
    assert stopped.open({"log.segment.bytes": "99"}, known=True).knows_policy("orders")
    assert not stopped.open({"log.segment.bytes": "99"}).knows_policy("orders")
    assert stopped.open({"log.retention.hours": "1"}).knows_policy("orders")
    stopped.set(TOPIC, "orders", cleanup_policy="delete")
    assert not stopped.open().knows_policy("orders"), "its age is not known"
    stopped.set(TOPIC, "orders", retention_ms="5")
    assert stopped.open().knows_policy("orders")
    stopped.set(TOPIC, "orders", cleanup_policy="compact", retention_ms=None)
    directory = stopped.open()
    assert directory.knows_policy("orders") and directory.config_of("orders").is_compacted
    assert not directory.knows_policy("strays") and not stopped.open(known=True).knows_policy("strays")


def test_a_setting_that_is_illegal_here_is_reported_and_its_topic_left_alone(stopped: Stopped) -> None:
    stopped.set(TOPIC, "orders", retention_ms="soon", segment_bytes="2048", quantum_state="1")
    directory = stopped.open()
    assert directory.config_of("orders").segment_bytes == 2048 and not directory.knows_policy("orders")
    (problem,) = directory.inherited.layers.problems
    assert "topic orders" in problem and "retention.ms" in problem


def test_what_the_metadata_log_states_holds_while_a_directory_is_open(stopped: Stopped) -> None:
    directory = stopped.open()
    log = directory.log(ORDERS)
    stopped.set(TOPIC, "orders", segment_bytes="2048", cleanup_policy="compact")
    stopped.clock.advance(1000 * max(metadata_log.CHECK_INTERVAL_S, LOOK_INTERVAL_S))
    assert directory.refresh_config() is None
    assert log.config.segment_bytes == 2048 and log.is_compacted
