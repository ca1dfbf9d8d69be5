"""Produce: what a batch of a client must be."""

from __future__ import annotations

from typing import Any

import pytest
from running_broker import Running

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.protocol import messages as m
from offsetfs.storage import BatchBuilder, LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000


def batch(*records: tuple[bytes | None, bytes | None]) -> bytes:
    builder = BatchBuilder(1 << 16)
    for key, value in records:
        builder.append(key, value, (), NOW)
    return bytes(builder.seal().data)


async def produced(running: Running, topic: str, data: bytes, *, acks: int = 1, version: int = 9) -> Any:
    partition = m.PartitionProduceData(0, data)
    topics = [m.TopicProduceData(name=topic, partition_data=[partition])]
    response = await running.send(0, "Produce", version, m.ProduceRequest(acks=acks, topic_data=topics))
    return response.responses[0].partition_responses[0]


async def test_a_compacted_topic_takes_records_with_a_key_only(directory: LogDirectory, running: Running) -> None:
    """The check read another column, and refused records by their value."""
    directory.create_partitions([TopicPartition("latest", 0)], {"cleanup.policy": "compact"})
    keyless = await produced(running, "latest", batch((b"k", b"v"), (None, b"v")))
    assert keyless.error_code == ErrorCode.INVALID_RECORD
    assert (await produced(running, "latest", batch((b"k", b"v"), (b"k", None), (b"", b"")))).error_code == 0
    assert directory.log(TopicPartition("latest", 0)).next_offset == 3
