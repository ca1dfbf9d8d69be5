"""Idempotent producers: repeats, sequences and epochs, across restarts; the ids that they get; DescribeProducers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.broker.produce_requests import NOW, batch, produced
from fixtures.broker.running import Running

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.partition import producer_loading

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
ID = 2000


def numbered(sequence: int, *, epoch: int = 0, producer_id: int = ID) -> bytes:
    return batch([(None, b"%d" % sequence), (None, b"")], producer_id=producer_id, epoch=epoch, sequence=sequence)


@asynccontextmanager
async def life(path: Path) -> AsyncIterator[tuple[Running, LogDirectory]]:
    """A broker that is closed cleanly at the end."""
    directory = LogDirectory.open(str(path))
    running = Running(directory)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.run)
            yield running, directory
            running.broker.stop()
    finally:
        directory.close()


async def test_repeats_are_answered_with_their_offsets_and_gaps_are_refused(
    running: Running, directory: LogDirectory
) -> None:
    for number in range(7):
        assert (await produced(running, "t", numbered(2 * number))).base_offset == 2 * number
    for number in range(2, 7):
        answer = await produced(running, "t", numbered(2 * number))
        assert (answer.error_code, answer.base_offset) == (0, 2 * number)
    for sequence in (2, 16):
        assert (await produced(running, "t", numbered(sequence))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await produced(running, "t", numbered(0, epoch=1))).base_offset == 14
    assert (await produced(running, "t", numbered(14))).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert directory.log(T).next_offset == 16


@pytest.mark.parametrize("rolls", [False, True])
async def test_the_last_five_batches_survive_a_restart(tmp_path: Path, rolls: bool) -> None:
    """Kafka knows one of them after a clean end. What a producer had in flight was refused."""
    async with life(tmp_path) as (running, directory):
        directory.create_partitions([T], {"segment.bytes": "300"} if rolls else {})
        for number in range(6):
            await produced(running, "t", numbered(2 * number))
    for _ in range(2):
        async with life(tmp_path) as (running, directory):
            for number in range(1, 6):
                answer = await produced(running, "t", numbered(2 * number))
                assert (answer.error_code, answer.base_offset) == (0, 2 * number)
            first = await produced(running, "t", numbered(0))
            assert first.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert directory.log(T).next_offset == 12
    async with life(tmp_path) as (running, directory):
        assert (await produced(running, "t", numbered(12))).base_offset == 12


async def test_no_more_than_the_end_of_a_large_log_is_read_for_the_last_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_loading, "RECENT_BYTES", 1000)
    async with life(tmp_path) as (running, directory):
        directory.create_partitions([T], {"index.interval.bytes": "100"})
        for number in range(200):
            await produced(running, "t", numbered(2 * number))
        segments = directory.log(T).snapshot()
        found = [header.base_sequence for header in producer_loading.recent_batches(segments)]
        assert found == [2 * number for number in range(200 - len(found), 200)] and 5 < len(found) < 30
    async with life(tmp_path) as (running, directory):
        for number in range(195, 200):
            assert (await produced(running, "t", numbered(2 * number))).base_offset == 2 * number


async def test_an_unknown_producer_may_begin_with_any_sequence(running: Running) -> None:
    """As in Kafka since 2.5: its batches may have been removed by retention."""
    assert (await produced(running, "t", numbered(7))).error_code == ErrorCode.NONE


@pytest.mark.damages  # `verify` does not know what expired
async def test_an_expired_producer_may_begin_again(running: Running, directory: LogDirectory) -> None:
    await produced(running, "t", numbered(0))
    assert directory.log(T).expire_producers(NOW + 1000, 1000) == 1
    assert (await produced(running, "t", numbered(0))).base_offset == 2


async def test_no_id_is_handed_out_twice(tmp_path: Path) -> None:
    """Each start takes other blocks of ids, far above those that a broker counts from 0."""
    found: list[int] = []
    for _ in range(3):
        async with life(tmp_path) as (running, _directory):
            for version in (0, 2, 5):
                answer = await running.send(22, "InitProducerId", version, m.InitProducerIdRequest(None))
                assert (answer.error_code, answer.producer_epoch) == (0, 0)
                found.append(answer.producer_id)
    assert len(set(found)) == len(found)
    assert all(2**40 <= each < 2**63 for each in found)


def test_ids_of_a_block_follow_each_other_and_blocks_do_not() -> None:
    from offsetfs.kafka.broker.transactions.transaction import BLOCK_SIZE, ProducerIds

    ids = ProducerIds()
    found = [ids.next() for _ in range(3 * BLOCK_SIZE)]
    assert len(set(found)) == 3 * BLOCK_SIZE
    starts = [each for each in found if each % BLOCK_SIZE == 0]
    assert len(starts) == 3 and max(starts) - min(starts) > 2 * BLOCK_SIZE


async def test_a_request_for_an_id_that_contradicts_itself_is_refused(running: Running) -> None:
    for request in (m.InitProducerIdRequest(None, producer_id=5), m.InitProducerIdRequest(None, producer_epoch=5)):
        answer = await running.send(22, "InitProducerId", 5, request)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


async def described(running: Running, *names: str) -> dict[str, Any]:
    topics = [m.DescribeProducersRequestTopicRequest(name, [0]) for name in names]
    response = await running.send(61, "DescribeProducers", 0, m.DescribeProducersRequest(topics))
    return {each.name: each.partitions[0] for each in response.topics}


async def test_describe_producers_shows_what_the_log_has(running: Running, directory: LogDirectory) -> None:
    await produced(running, "t", numbered(0))
    await produced(running, "t", numbered(2))
    await produced(running, "t", numbered(0, epoch=3, producer_id=ID + 1))
    answers = await described(running, "t", "nowhere", "a/b")
    first, second = sorted(answers["t"].active_producers, key=lambda each: each.producer_id)
    assert (first.producer_id, first.producer_epoch, first.last_sequence) == (ID, 0, 3)
    assert (first.last_timestamp, first.current_txn_start_offset, first.coordinator_epoch) == (NOW, -1, -1)
    assert (second.producer_id, second.producer_epoch, second.last_sequence) == (ID + 1, 3, 1)
    unknown, illegal = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [answers[name].error_code for name in ("nowhere", "a/b")] == [unknown, illegal]
