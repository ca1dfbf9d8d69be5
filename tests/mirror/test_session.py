"""Requests to Fetch for brokers of any version."""

from __future__ import annotations

import pytest

from offsetfs.mirror.partition import MirroredPartition
from offsetfs.mirror.session import SourceSession
from offsetfs.protocol import codec
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("version", range(18))
def test_a_request_has_only_what_its_version_can_carry(version: int, directory: LogDirectory) -> None:
    name = TopicPartition("orders", 0)
    known = MirroredPartition(name, bytes(range(16)), directory.create_partition(name), leader_epoch=7)
    known.position, known.position_epoch = 12, 5
    session = SourceSession()
    request = session.request([known], version, bytes_max=1 << 20, wait_ms=500, rack="rack-1")
    assert codec.writer("FetchRequest", version)(request)
    (asked,) = request.topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (12, 5 if version >= 12 else -1)
    session.taken(3 if version >= 7 else 0)
    again = session.request([], version, bytes_max=1 << 20, wait_ms=500, rack="rack-1")
    assert codec.writer("FetchRequest", version)(again)
