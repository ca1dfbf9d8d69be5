"""Requests that a producer sends without waiting for responses, acks=all: appended while earlier ones are synced."""

from __future__ import annotations

import errno
import math
import struct
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio
from fixtures.broker.produce_requests import GOOD, altered, batch, produced
from fixtures.broker.running import Running, decoded, framed, reserved_bytes

from offsetfs.kafka.broker.connections.request_limits import FREE_BYTES_MAX
from offsetfs.kafka.broker.connections.response_queue import RESPONSES_MAX
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.files import File

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
NAMES = [f"{number:0200}" for number in range(400)]
"""Topics that there are not, and more than 64 KiB of names."""
VERSIONS = framed(18, "ApiVersions", 0, m.ApiVersionsRequest())


class Syncs:
    """The syncs of segment files: each waits until `proceed` is set, and fails with `error`."""

    def __init__(self) -> None:
        self.began = 0
        self.proceed = threading.Event()
        self.error: OSError | None = None

    def sync(self, file: File) -> None:
        if file.path.endswith(".log"):
            self.began += 1
            assert self.proceed.wait(60)
            if self.error is not None:
                raise self.error


@pytest.fixture
async def syncs(running: Running, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Syncs]:
    """Syncs of a broker that has appended a batch to the topic."""
    assert (await produced(running, "t", GOOD)).error_code == 0
    found = Syncs()
    monkeypatch.setattr(File, "sync", lambda file: found.sync(file))
    yield found
    found.proceed.set()


@pytest.fixture
async def stream(running: Running, syncs: Syncs) -> AsyncIterator[trio.SocketStream]:
    found = await trio.open_tcp_stream(*running.address)
    yield found
    await found.aclose()


def request(number: int, data: bytes = GOOD, *, acks: int = -1, topic: str = "t") -> bytes:
    """A Produce request whose correlation id is `number`."""
    topics = [m.TopicProduceData(topic, partition_data=[m.PartitionProduceData(0, data)])]
    whole = framed(0, "Produce", 9, m.ProduceRequest(acks=acks, topic_data=topics))
    return whole[:8] + struct.pack(">i", number) + whole[12:]


async def frames(stream: trio.SocketStream, count: int | None = None) -> list[bytes]:
    """Return the next responses without their sizes; without `count`, all until the broker closes the connection."""
    data, found = b"", list[bytes]()
    with trio.fail_after(30):
        while len(found) != count:
            more = await stream.receive_some()
            if not more:
                break
            data += more
            while len(data) >= 4 and len(data) >= 4 + (size := int.from_bytes(data[:4], "big")):
                found.append(data[4 : 4 + size])
                data = data[4 + size :]
    assert not data
    return found


def answers(found: list[bytes]) -> list[tuple[int, int, ErrorCode]]:
    """Return the correlation id, the base offset and the error code of Produce responses."""
    decoded_ones = [(int.from_bytes(each[:4], "big"), decoded(0, "Produce", 9, each)) for each in found]
    parts = [(number, each.responses[0].partition_responses[0]) for number, each in decoded_ones]
    return [(number, each.base_offset, ErrorCode(each.error_code)) for number, each in parts]


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.sleep(0.001)


async def test_batches_that_arrive_during_a_sync_share_the_next_one(
    directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    """Each request of a producer had a sync of its own: the next one was read after the response."""
    log = directory.log(T)
    await stream.send_all(request(1))
    await until(lambda: syncs.began == 1)
    await stream.send_all(b"".join(request(number) for number in range(2, 11)))
    await until(lambda: log.next_offset == 11)
    assert (syncs.began, log.recovery_point) == (1, 0)
    syncs.proceed.set()
    assert answers(await frames(stream, 10)) == [(number, number, ErrorCode.NONE) for number in range(1, 11)]
    assert (syncs.began, log.recovery_point) == (2, 11)


async def test_responses_keep_the_order_of_the_requests(
    directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    """Some wait for a sync, some do not, some are refused, one is appended in a thread, and one has no response."""
    requests = [
        request(1),
        request(2, acks=1),
        request(3, altered(GOOD, base_offset=7)),
        request(4),
        request(5, acks=0),
        request(6, topic="nowhere"),
        request(7, batch([(None, bytes(100_000))])),
        request(8, acks=7),
        request(9, acks=1),
    ]
    await stream.send_all(b"".join(requests))
    await until(lambda: directory.log(T).next_offset == 7)
    with trio.move_on_after(0.02) as early:
        await stream.receive_some()
    assert early.cancelled_caught
    syncs.proceed.set()
    assert answers(await frames(stream, 8)) == [
        (1, 1, ErrorCode.NONE),
        (2, 2, ErrorCode.NONE),
        (3, -1, ErrorCode.INVALID_RECORD),
        (4, 3, ErrorCode.NONE),
        (6, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (7, 5, ErrorCode.NONE),
        (8, -1, ErrorCode.INVALID_REQUIRED_ACKS),
        (9, 6, ErrorCode.NONE),
    ]


async def test_another_request_waits_for_the_responses_before_it(
    running: Running, stream: trio.SocketStream, syncs: Syncs
) -> None:
    counts = running.broker._metrics.apis
    await stream.send_all(request(1) + request(2) + VERSIONS + request(3))
    await until(lambda: counts["Produce"].requests == 3)
    await trio.sleep(0.01)
    assert not counts["ApiVersions"].requests
    syncs.proceed.set()
    found = await frames(stream, 4)
    assert [number for number, *_ in answers([*found[:2], found[3]])] == [1, 2, 3]
    assert decoded(18, "ApiVersions", 0, found[2]).api_keys


@pytest.mark.expect_log("no append to t-0")
async def test_a_failed_sync_is_an_error_of_each_request_that_waited_for_it(
    directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    syncs.error = OSError(errno.EIO, "Input/output error")
    await stream.send_all(request(1) + request(2) + request(3, acks=7))
    await until(lambda: directory.log(T).next_offset == 3)
    syncs.proceed.set()
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    refused = ErrorCode.INVALID_REQUIRED_ACKS
    assert answers(await frames(stream, 3)) == [(1, -1, failed), (2, -1, failed), (3, -1, refused)]
    with pytest.raises(OSError, match="Input/output error"):
        directory.close()


@pytest.mark.expect_log("connection closed: acks=0, and an error in nowhere")
async def test_a_connection_that_is_closed_for_an_error_gets_the_responses_before_it(
    stream: trio.SocketStream, syncs: Syncs
) -> None:
    await stream.send_all(request(1) + request(2) + request(3, acks=0, topic="nowhere") + request(4))
    await until(lambda: syncs.began == 1)
    syncs.proceed.set()
    assert [number for number, *_ in answers(await frames(stream))] == [1, 2]


@pytest.mark.expect_log("ProduceRequest of version 9 from 127.0.0.1 failed")
async def test_a_bug_while_a_response_waits_is_an_error_of_that_response(
    stream: trio.SocketStream, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, failures = LogSync.sync, [KeyError("a bug")]

    async def fails_once(*arguments: Any, **options: Any) -> None:
        if failures:
            raise failures.pop()
        await synced(*arguments, **options)

    monkeypatch.setattr(LogSync, "sync", fails_once)
    syncs.proceed.set()
    await stream.send_all(request(1) + request(2))
    found = answers(await frames(stream, 2))
    assert found == [(1, -1, ErrorCode.UNKNOWN_SERVER_ERROR), (2, 2, ErrorCode.NONE)]


async def test_a_producer_that_does_not_wait_is_stopped_by_the_limit(
    directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    log = directory.log(T)
    await stream.send_all(b"".join(request(number) for number in range(3 * RESPONSES_MAX)))
    await until(lambda: log.next_offset == 1 + RESPONSES_MAX)
    await trio.sleep(0.01)
    assert log.next_offset == 1 + RESPONSES_MAX
    syncs.proceed.set()
    found = answers(await frames(stream, 3 * RESPONSES_MAX))
    assert [(number, code) for number, _, code in found] == [(each, 0) for each in range(3 * RESPONSES_MAX)]


async def test_a_response_that_waits_holds_no_memory_of_its_records(
    running: Running, directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    """Unlike the request, and unlike names and partitions that the response repeats."""
    limits = running.broker._shared.limits
    await stream.send_all(request(1, batch([(None, bytes(1_000_000))])))
    await until(lambda: syncs.began == 1)
    assert not reserved_bytes(limits)
    topics = [m.TopicProduceData(name, partition_data=[m.PartitionProduceData(0, GOOD)]) for name in ["t", *NAMES]]
    await stream.send_all(framed(0, "Produce", 9, m.ProduceRequest(acks=-1, topic_data=topics)) + request(2))
    await until(lambda: directory.log(T).next_offset == 3)
    await trio.sleep(0.01)
    assert reserved_bytes(limits) > FREE_BYTES_MAX
    assert directory.log(T).next_offset == 3, "nothing more is read"
    syncs.proceed.set()
    assert len(await frames(stream, 3)) == 3
    await until(lambda: not reserved_bytes(limits))


async def test_a_client_that_leaves_during_a_sync_leaves_nothing_behind(
    running: Running, directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    limits = running.broker._shared.limits
    places = limits._free_slots
    await stream.send_all(request(1) + request(2))
    await until(lambda: directory.log(T).next_offset == 3)
    assert limits._free_slots == places - 2
    await stream.aclose()
    await trio.sleep(0.01)
    syncs.proceed.set()
    await until(lambda: not running.broker._connections)
    assert limits._free_slots == places
    assert directory.log(T).recovery_point == 3


async def test_a_connection_whose_batches_are_synced_is_not_idle(
    running: Running, stream: trio.SocketStream, syncs: Syncs
) -> None:
    await stream.send_all(request(1))
    await until(lambda: syncs.began == 1)
    (connection,) = [each for each in running.broker._connections if not each._responses.is_empty]
    assert connection.waiting_since == math.inf
    answered = trio.current_time()
    syncs.proceed.set()
    await frames(stream, 1)
    await until(lambda: answered <= connection.waiting_since < math.inf)


async def test_what_was_read_is_answered_when_the_broker_ends(
    running: Running, directory: LogDirectory, stream: trio.SocketStream, syncs: Syncs
) -> None:
    await stream.send_all(request(1) + request(2) + request(3, acks=1))
    await until(lambda: directory.log(T).next_offset == 4)
    running.broker.stop()
    await trio.sleep(0.01)
    syncs.proceed.set()
    assert answers(await frames(stream)) == [(number, number, ErrorCode.NONE) for number in (1, 2, 3)]
    await until(lambda: not running.broker._connections)
    assert directory.log(T).recovery_point >= 3
