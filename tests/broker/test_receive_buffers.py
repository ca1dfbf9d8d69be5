"""Buffers of large requests: used again, but never while anything refers to their bytes."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import Running, decoded, framed, received, reserved_bytes

from offsetfs.kafka.broker.connections.request_limits import KEPT_BYTES_MAX, KEPT_SIZE_MAX, ReceiveBuffers
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)


def test_a_buffer_is_kept_for_a_request_that_fits() -> None:
    buffers, first = ReceiveBuffers(), bytearray(b"x" * 1000)
    buffers.keep(first)
    assert buffers.take(1001) is None
    assert buffers.take(1000) is first and first == b"x" * 1000
    assert buffers.take(1000) is None


@pytest.mark.parametrize(
    "view", [lambda buffer: memoryview(buffer)[7:9], lambda buffer: memoryview(buffer).toreadonly()]
)
def test_a_buffer_that_anything_refers_to_is_not_kept(view: Any) -> None:
    buffers, buffer = ReceiveBuffers(), bytearray(1000)
    held = view(buffer)
    buffers.keep(buffer)
    assert buffers.take(1) is None and len(buffer) == 1000
    held.release()
    buffers.keep(buffer)
    assert buffers.take(1) is buffer


def test_the_memory_of_kept_buffers_is_bounded() -> None:
    buffers = ReceiveBuffers()
    buffers.keep(bytearray(KEPT_SIZE_MAX + 1))
    assert buffers.take(1) is None
    for _ in range(100):
        buffers.keep(bytearray(KEPT_BYTES_MAX // 8))
    assert sum(buffers.take(1) is not None for _ in range(100)) == 8


async def exchanged(stream: trio.SocketStream, key: int, name: str, version: int, request: Any) -> Any:
    await stream.send_all(framed(key, name, version, request))
    return decoded(key, name, version, await received(stream))


def produce(data: bytes, acks: int) -> m.ProduceRequest:
    return m.ProduceRequest(
        acks=acks, topic_data=[m.TopicProduceData("t", partition_data=[m.PartitionProduceData(0, data)])]
    )


async def test_large_requests_share_a_buffer(directory: LogDirectory, running: Running) -> None:
    stream, values = await trio.open_tcp_stream(*running.address), list[bytes]()
    kept = running.broker._shared.buffers._kept
    async with stream:
        for number, size in enumerate((300_000, 290_000, 120_000, 310_000)):
            value = bytes([number]) * size
            answer = await exchanged(stream, 0, "Produce", 9, produce(batch([(None, value)]), -1 if number else 1))
            assert answer.responses[0].partition_responses[0].error_code == 0
            values.append(value)
            assert [len(each) for each in kept] == [3 * (1 << 17)]
    assert [each.value for each in LogReader(directory.log(T)).records()] == values


async def test_a_buffer_with_the_assignment_of_a_member_is_not_overwritten(running: Running) -> None:
    join = m.JoinGroupRequest(
        "g", 10_000, 10_000, protocol_type="consumer", protocols=[m.JoinGroupRequestProtocol("range", b"")]
    )
    stream, assignment = await trio.open_tcp_stream(*running.address), b"a" * 200_000
    async with stream:
        member = await exchanged(stream, 11, "JoinGroup", 3, join)
        for given in ([m.SyncGroupRequestAssignment(member.member_id, assignment)], []):
            sync = m.SyncGroupRequest("g", member.generation_id, member.member_id, assignments=given)
            answer = await exchanged(stream, 14, "SyncGroup", 3, sync)
            assert (answer.error_code, bytes(answer.assignment)) == (ErrorCode.NONE, assignment)
            for _ in range(3):
                await exchanged(stream, 0, "Produce", 9, produce(batch([(None, b"b" * 150_000)]), 1))


async def test_a_client_that_leaves_within_a_large_request_leaves_no_buffer_behind(running: Running) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    request = framed(0, "Produce", 9, produce(batch([(None, bytes(200_000))]), 1))
    await stream.send_all(request[:100_000])
    await stream.aclose()
    with trio.fail_after(30):
        while running.broker._connections or not running.broker._metrics.connections_accepted:
            await trio.sleep(0.001)
    assert not running.broker._shared.buffers._kept and not reserved_bytes(running.broker._shared.limits)
