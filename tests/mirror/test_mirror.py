"""A mirror of a broker in the same process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
from running_broker import Running

from offsetfs.client.cluster import ClusterClient
from offsetfs.mirror.mirror import Mirror
from offsetfs.mirror.options import MirrorOptions
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
ONCE = MirrorOptions(once=True)


def append(log: Log, *values: bytes) -> None:
    builder = BatchBuilder(1 << 20, log.config.compression)
    for each in values:
        assert builder.append(None, each, (), 1_795_266_300_000)
    log.append(builder.seal())


def bytes_of(log: Log) -> bytes:
    return b"".join(Path(each.log_path).read_bytes()[: each.size] for each in log.snapshot())


async def mirrored(running: Running, directory: LogDirectory, options: MirrorOptions = ONCE) -> list[str]:
    """Mirror up to the ends of the source; return the events."""
    events = list[str]()
    async with ClusterClient([running.address]) as client:
        with trio.fail_after(5):
            await Mirror(directory, client, "source:9092", options, events.append).run()
    return events


async def test_all_partitions_arrive_to_the_byte(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    for name in source.partitions():
        for number in range(20):
            append(source.log(name), b"%s %d" % (str(name).encode(), number), b"x" * number)
    assert await mirrored(running, directory) == []
    assert directory.partitions() == source.partitions()
    for name in source.partitions():
        assert bytes_of(directory.log(name)) == bytes_of(source.log(name))
        assert directory.topic_id(name) == source.topic_id(name)


async def test_a_second_run_appends_what_is_new(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), b"one")
    await mirrored(running, directory)
    append(source.log(ORDERS), b"two")
    await mirrored(running, directory)
    assert bytes_of(directory.log(ORDERS)) == bytes_of(source.log(ORDERS))


async def test_only_topics_whose_whole_name_matches(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.create_partitions([TopicPartition("orders-old", 0), TopicPartition("__consumer_offsets", 0)])
    await mirrored(running, directory, MirrorOptions(topics=(re.compile("orders|.*offsets"),), once=True))
    assert {each.topic for each in directory.partitions()} == {"orders"}
    await mirrored(running, directory, MirrorOptions(topics=(re.compile("__consumer_offsets"),), once=True))
    assert {each.topic for each in directory.partitions()} == {"orders", "__consumer_offsets"}
