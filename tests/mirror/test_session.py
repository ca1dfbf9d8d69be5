"""Requests to Fetch for brokers of any version."""

from __future__ import annotations

import pytest

from offsetfs.kafka.mirror.partition import MirroredPartition
from offsetfs.kafka.mirror.session import SourceSession
from offsetfs.kafka.protocol import codec
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("version", range(18))
def test_a_request_has_only_what_its_version_can_carry(version: int, directory: LogDirectory) -> None:
    name = TopicPartition("orders", 0)
    known = MirroredPartition(name, bytes(range(16)), directory.create_partition(name), leader_epoch=7)
    known.position, known.position_epoch = 12, 5
    session = SourceSession()
    request = session.request([known], version, bytes_max=1 << 20, wait_ms=500, rack="rack-1").message
    assert codec.writer("FetchRequest", version)(request)
    (asked,) = request.topics[0].partitions
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (12, 5 if version >= 12 else -1)
    session.taken(3 if version >= 7 else 0)
    again = session.request([], version, bytes_max=1 << 20, wait_ms=500, rack="rack-1").message
    assert codec.writer("FetchRequest", version)(again)


@pytest.mark.parametrize("session_id", [0, 3])
def test_a_refused_session_keeps_what_was_asked_when_the_partition_moves(
    session_id: int, directory: LogDirectory
) -> None:
    name = TopicPartition("orders", 0)
    known = MirroredPartition(name, bytes(16), directory.create_partition(name))
    known.position, session = 40, SourceSession()
    request = session.request([known], 12, bytes_max=1 << 20, wait_ms=500, rack="")
    asked = request.asked[known]
    known.restart(7)  # an append took only a part of the response before
    session.taken(session_id)
    assert request.asked[known] == asked
    assert (asked.position, asked.generation == known.generation) == (40, False)


@pytest.mark.parametrize("version", [6, 7])
def test_a_single_request_has_no_session_and_ends_the_one_before(version: int, directory: LogDirectory) -> None:
    name = TopicPartition("orders", 0)
    known, session = MirroredPartition(name, bytes(16), directory.create_partition(name)), SourceSession()
    session.request([known], version, bytes_max=1, wait_ms=1, rack="")
    session.taken(3 if version >= 7 else 0)
    single = session.request([known], version, bytes_max=1, wait_ms=1, rack="", is_single=True).message
    assert (single.session_id, single.session_epoch, len(single.topics)) == (3 if version >= 7 else 0, -1, 1)
    session.taken(0)
    following = session.request([known], version, bytes_max=1, wait_ms=1, rack="").message
    assert (following.session_id, following.session_epoch) == (0, 0 if version >= 7 else -1)
    assert len(following.topics) == 1


def test_a_response_of_another_session_begins_a_new_one(directory: LogDirectory) -> None:
    session = SourceSession()
    session.request([], 12, bytes_max=1, wait_ms=1, rack="")
    session.taken(3)
    session.request([], 12, bytes_max=1, wait_ms=1, rack="")
    session.taken(4)
    following = session.request([], 12, bytes_max=1, wait_ms=1, rack="").message
    assert (following.session_id, following.session_epoch) == (0, 0)
