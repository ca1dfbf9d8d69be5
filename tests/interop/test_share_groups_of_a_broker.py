"""Share groups of a running broker: a mount beside it shows the start offsets that Kafka's own tool prints."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixtures.kafka.broker import KafkaBroker
from fixtures.mounts.left_mounts import unmount

from offsetfs import cli

pytestmark = pytest.mark.interop

SETTINGS = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    # Snapshots come often, so that the test sees both kinds of records.
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
}
SECONDS_MAX = 60
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
DESCRIBE = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def consume(kafka: KafkaBroker, count: int, *options: str) -> list[str]:
    """Read records as a member of the group `workers`; they are acknowledged unless an option says otherwise."""
    words = ("--topic", "orders", "--group", "workers", "--max-messages", str(count), "--timeout-ms", "30000")
    records = ("--command-property", f"max.poll.records={count}")
    return kafka.tool(CONSUMER, *words, *records, *options).stdout.split()


def start_offsets(kafka: KafkaBroker) -> dict[str, str]:
    """Return the start offsets as Kafka prints them, by partition."""
    described = kafka.tool(DESCRIBE, "--describe", "--group", "workers", "--offsets").stdout
    rows = re.findall(r"^workers\s+(\S+)\s+(\d+)\s+(\S+)", described, re.MULTILINE)
    return {f"{topic}-{partition}": offset for topic, partition, offset in rows}


def shown(path: Path) -> dict[str, dict[str, Any]]:
    state = json.loads((path / "groups/workers/state").read_text())
    assert state["type"] == "share"
    return {f"{each['topic']}-{each['partition']}": each for each in state["partitions"]}


def spans(partition: dict[str, Any]) -> list[tuple[int, int, str, int]]:
    return [tuple(batch.values()) for batch in partition["batches"]]


def test_progress_is_what_the_broker_states(new_kafka: Callable[..., KafkaBroker], tmp_path: Path) -> None:
    with new_kafka(settings=SETTINGS) as kafka:
        kafka.create_topic("orders", partitions=2)
        kafka.produce("orders", b"".join(b"%d\n" % number for number in range(20)))
        earliest = ("--add-config", "share.auto.offset.reset=earliest")
        config = ("--alter", "--entity-type", "groups", "--entity-name", "workers")
        kafka.tool("org.apache.kafka.tools.ConfigCommand", *config, *earliest)
        (tmp_path / "mnt").mkdir()
        assert cli.run(["mount", str(kafka.log_dir), str(tmp_path / "mnt"), "-o", "ro"]) == 0
        try:
            assert consume(kafka, 4) == ["0", "1", "2", "3"]
            first = shown(tmp_path / "mnt")
            assert first["orders-0"]["start_offset"] == 4 and start_offsets(kafka) == {"orders-0": "4", "orders-1": "-"}
            assert first["orders-1"]["start_offset"] == -1
            assert consume(kafka, 4, "--release") == ["4", "5", "6", "7"]
            # Each member acquires all records of the batch, and gives back what it was not asked for.
            assert (4, 19, "Available", 2) in spans(shown(tmp_path / "mnt")["orders-0"])
            assert consume(kafka, 4, "--reject") == ["4", "5", "6", "7"]
            last = shown(tmp_path / "mnt")["orders-0"]
            offset = int(start_offsets(kafka)["orders-0"])
            assert last["start_offset"] == offset in (4, 8) and last["lag"] == 12
            assert ((4, 7, "Archived", 3) in spans(last)) == (offset == 4)
            lag = (tmp_path / "mnt/groups/workers/lag").read_text().splitlines()
            assert lag[0].split() == ["PARTITION", "START", "END", "LAG"]
            assert lag[1].split() == ["orders-0", str(offset), "20", "12"] and lag[2].split()[1:] == ["-", "0", "-"]
            kafka.tool(DESCRIBE, "--delete", "--group", "workers")
            group = tmp_path / "mnt/groups/workers"
            deadline = time.monotonic() + SECONDS_MAX
            while group.exists():  # the kernel keeps the name of a directory for a second
                assert time.monotonic() < deadline, os.listdir(group)
            assert (tmp_path / "mnt/.offsetfs/errors").read_text() == ""
        finally:
            unmount(tmp_path / "mnt")
