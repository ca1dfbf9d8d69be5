"""The other client of a broker that is attacked: what it notices, and whether it gets back what it has produced."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from typing import Any

import trio
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import decoded, framed, received
from fixtures.hostile.targets import Target
from hostile_attacks import HONEST_TOPIC, VERSIONS

from offsetfs.kafka.protocol import messages as m

RECORD_BYTES = 100_000
"""Its requests take memory that is limited."""

INTERVAL_S, CONNECT_INTERVAL_S = 0.01, 0.1

PARTITION = 1

_FETCH_BYTES = 8 << 20
_OWN_BYTES = 16
"""The begin of a batch, which the broker writes: offset, size and leader epoch."""


class HonestClient:
    """Produces and reads a record every 10 ms over one connection, and opens a new connection every 100 ms."""

    def __init__(self, target: Target, listener: str) -> None:
        self._target = target
        self._listener = listener
        self._batch = batch([(b"key", random.Random(1).randbytes(RECORD_BYTES))], times=[1])
        self.latencies_s: list[float] = []
        self.connect_latencies_s: list[float] = []
        self._first = self._next = -1
        """Offsets: of its first record, and behind the last one that was acknowledged."""

    async def run(self) -> None:
        """Go on until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._connect_often)
            nursery.start_soon(self._produce_often)

    def begin(self) -> None:
        """Forget the latencies so far."""
        self.latencies_s.clear()
        self.connect_latencies_s.clear()

    async def _connect_often(self) -> None:
        while True:
            begun_s = time.perf_counter()
            try:
                stream = await self._target.connect(self._listener)
                await stream.send_all(VERSIONS)
                if not await received(stream):
                    raise SystemExit("the broker has closed a new connection of the other client")
            finally:  # also for one that waits at the end of an attack
                self.connect_latencies_s.append(time.perf_counter() - begun_s)
            await stream.aclose()
            await trio.sleep(CONNECT_INTERVAL_S)

    async def _produce_often(self) -> None:
        partitions = [m.FetchRequestFetchPartition(PARTITION, partition_max_bytes=100)]
        topics = [m.FetchRequestFetchTopic(HONEST_TOPIC, partitions=partitions)]
        async with await self._target.connect(self._listener) as stream:
            while True:
                begun_s = time.perf_counter()
                try:
                    await self._produce(stream)
                    await _asked(stream, 1, "Fetch", 11, m.FetchRequest(topics=topics))
                finally:
                    self.latencies_s.append(time.perf_counter() - begun_s)
                await trio.sleep(INTERVAL_S)

    async def _produce(self, stream: trio.abc.Stream) -> None:
        data = [m.TopicProduceData(HONEST_TOPIC, partition_data=[m.PartitionProduceData(PARTITION, self._batch)])]
        request = m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
        found = (await _asked(stream, 0, "Produce", 9, request)).responses[0].partition_responses[0]
        if found.error_code or self._next not in (-1, found.base_offset):
            raise SystemExit(f"error {found.error_code}, offset {found.base_offset} where {self._next} was expected")
        self._first = found.base_offset if self._first < 0 else self._first
        self._next = found.base_offset + 1

    async def check(self) -> str:
        """Read all that was acknowledged, and delete it; return what is missing or different, "" for nothing."""
        async with await self._target.connect(self._listener) as stream:
            offset = self._first
            while offset < self._next:
                batches = await _fetched(stream, offset)
                if not batches:
                    return f"no record at offset {offset}, but at {self._next - 1} there was one"
                for each in batches:
                    if each[:8] != struct.pack(">q", offset) or each[_OWN_BYTES:] != self._batch[_OWN_BYTES:]:
                        return f"another record at offset {offset}"
                    offset += 1
            partitions = [m.DeleteRecordsPartition(PARTITION, self._next)]
            request = m.DeleteRecordsRequest([m.DeleteRecordsTopic(HONEST_TOPIC, partitions)], 10_000)
            deleted = await _asked(stream, 21, "DeleteRecords", 2, request)
            return f"{deleted}" if deleted.topics[0].partitions[0].error_code else ""


async def _fetched(stream: trio.abc.Stream, offset: int) -> Sequence[bytes]:
    """Return the batches from an offset on that fit into a response."""
    wanted = m.FetchRequestFetchPartition(PARTITION, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
    topics = [m.FetchRequestFetchTopic(HONEST_TOPIC, partitions=[wanted])]
    request = m.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES, session_epoch=-1, topics=topics)
    data = bytes((await _asked(stream, 1, "Fetch", 11, request)).responses[0].partitions[0].records or b"")
    found, position = [], 0
    while position + 12 <= len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if end <= len(data):
            found.append(data[position:end])
        position = end
    return found


async def _asked(stream: trio.abc.Stream, key: int, name: str, version: int, request: Any) -> Any:
    await stream.send_all(framed(key, name, version, request))
    answer = await received(stream)
    if not answer:
        raise SystemExit("the broker has closed the connection of the other client")
    return decoded(key, name, version, answer)
