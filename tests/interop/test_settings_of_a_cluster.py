"""The settings of a stopped broker's topics hold for its directory: those that a real cluster has written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fixtures.kafka.broker import KafkaBroker

from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.interop


def test_settings_of_a_cluster_hold_for_its_stopped_brokers_directory(tmp_path: Path) -> None:
    log_dir = tmp_path / "broker" / "log"
    settings = {"metadata.log.dir": str(log_dir), "log.retention.hours": "50", "log.segment.bytes": "1048576"}
    broker = KafkaBroker(tmp_path / "broker", settings=settings)
    with broker:
        broker.create_topic("orders", configs={"retention.ms": "1", "segment.ms": "60000"})
        broker.create_topic("users", configs={"cleanup.policy": "compact"})
        broker.create_topic("plain")
        words = ("--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.roll.ms=7200000")
        broker.tool("org.apache.kafka.tools.ConfigCommand", *words)
        for topic in ("orders", "plain"):
            broker.produce(topic, b"one\ntwo\n")
        broker.stop()
    directory = LogDirectory.open(os.fspath(log_dir), read_only=True)
    metadata = directory.metadata
    assert metadata is not None
    image = metadata.refresh()
    assert metadata.problem is None and image.replica_count(TopicPartition("orders", 0)) == 1
    orders, users, plain = (directory.config_of(topic) for topic in ("orders", "users", "plain"))
    assert (orders.retention_ms, orders.segment_ms) == (1, 60_000)
    assert users.is_compacted and not users.is_deleted and plain.segment_ms == 7_200_000
    assert [directory.knows_policy(topic) for topic in ("orders", "users", "plain")] == [True, True, False]
    directory.close()
    assert run(["clean", os.fspath(log_dir)]) == exit_codes.DONE
    directory = LogDirectory.open(os.fspath(log_dir), read_only=True)
    for topic, start in (("orders", 2), ("plain", 0)):
        log = directory.log(TopicPartition(topic, 0))
        assert (log.log_start_offset, log.next_offset) == (start, 2)
    directory.close()
    with broker:
        assert broker.complaints() == []
        assert broker.consume("plain") == b"one\ntwo\n" and broker.consume("orders") == b""
