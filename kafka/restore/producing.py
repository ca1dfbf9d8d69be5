"""Requests of Produce to the leaders of partitions: a batch of each of several partitions in one, acks=all.

A broker answers the requests of a connection one after the other, and with acks=all each takes as long as its
followers: a request with many partitions is answered as soon as one with a single one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import trio

from offsetfs.common.rate_limit import RateLimit
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.connection import BrokerConnection
from offsetfs.kafka.client.errors import ClientError, KafkaError
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.restore.limits import LimitCheck
from offsetfs.kafka.restore.partition_target import PartitionTarget, SentBatch
from offsetfs.storage import I32_MAX, READ_COMMITTED, Log, LogReader
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import BatchProducer, ProducedBatch, produced_batch

CHUNK_BYTES = 1 << 20
"""The bytes that are read at once; more if a single batch is larger."""

_SEQUENCES = I32_MAX + 1
"""The number of sequences of a producer; then they begin again at 0."""


class PartitionSource:
    """The committed records of a range of a log as batches of a producer, in order, a chunk at a time.

    Synchronous; one thread at a time may use it.
    """

    def __init__(self, log: Log, start: int | None, stop: int | None) -> None:
        """`start`, `stop`: the first offset, and the one behind the last; None: the ends of the log."""
        self.reader = LogReader(log, start=start, stop=stop, isolation=READ_COMMITTED)
        self._batches: Iterator[ProducedBatch] | None = None

    def chunk(self, producer: BatchProducer) -> list[ProducedBatch]:
        """Return the next batches, about `CHUNK_BYTES`; none at the end. Errors as of `LogReader`."""
        if self._batches is None:
            self._batches = self._produced(producer)
        batches: list[ProducedBatch] = []
        size = 0
        for batch in self._batches:
            batches.append(batch)
            size += len(batch.data)
            if size >= CHUNK_BYTES:
                break
        return batches

    def check(self, check: LimitCheck) -> None:
        """Show all batches to a check of the limits of the cluster; for a source that is not sent."""
        for batch in self._produced(BatchProducer(0, 0)):
            check.take(batch)

    def _produced(self, producer: BatchProducer) -> Iterator[ProducedBatch]:
        sequence = 0
        for batch, first, stop in self.reader.slices():
            produced = produced_batch(batch, first, stop, producer=producer, sequence=sequence)
            if produced is not None:
                sequence = (sequence + len(produced.offsets)) % _SEQUENCES
                yield produced


PARTITIONS_MAX = 32
"""Partitions that are restored at the same time: each has up to three megabytes in memory."""

REQUEST_BYTES_MAX = 4 << 20
REQUESTS_MAX = 5
"""Requests to one leader that are not answered."""

NAMES_VERSION_MAX = 12
"""Later versions of Produce have the ids of topics, which older brokers do not have."""

_ACKS_ALL = -1


class PartitionProducing:
    """Sends the batches of partitions to their leaders."""

    def __init__(
        self,
        client: ClusterClient,
        producer: BatchProducer,
        *,
        on_bytes: Callable[[int], None],
        rate: RateLimit,
    ) -> None:
        """`on_bytes`: called with the bytes of each batch that is acknowledged."""
        self._client = client
        self._producer = producer
        self._on_bytes = on_bytes
        self._rate = rate
        self._active: list[PartitionTarget] = []
        self._leaders: dict[str, dict[int, int]] = {}
        self._knows_leaders = False
        self._in_flight: Counter[int] = Counter()
        self._changed = trio.Event()
        self._partitions = trio.Semaphore(PARTITIONS_MAX)

    async def produce(self, sources: Iterable[tuple[PartitionTarget, PartitionSource]]) -> None:
        """Send until each partition is restored, or has failed: its `error` is set."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_all)
            async with trio.open_nursery() as partitions:
                for target, source in sources:
                    await self._partitions.acquire()
                    partitions.start_soon(self._restore, target, source)
            nursery.cancel_scope.cancel()

    async def _restore(self, target: PartitionTarget, source: PartitionSource) -> None:
        self._active.append(target)
        self._knows_leaders = self._knows_leaders and self._leader(target) is not None
        try:
            while target.error is None:
                batches = await trio.to_thread.run_sync(source.chunk, self._producer)
                target.put(batches)
                self._changed.set()
                if not batches:
                    break
                await target.wait_for_space()
        except (StorageError, OSError) as error:
            target.fail(error)
        await target.done.wait()
        self._active.remove(target)
        self._partitions.release()

    # --- to the leaders -----------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                # Before the partitions are looked at: a pause that ends amid that is over, and not one that never ends.
                begun_s = trio.current_time()
                if not self._knows_leaders:
                    await self._find_leaders()
                for leader in {self._leader(target) for target in self._active} - {None}:
                    if leader is not None:
                        await self._send(leader, nursery)
                with trio.move_on_at(min((target.wakes_at_s(begun_s) for target in self._active), default=math.inf)):
                    await self._changed.wait()

    async def _send(self, leader: int, nursery: trio.Nursery) -> None:
        """Send requests to a leader as long as there are batches for it."""
        while self._in_flight[leader] < REQUESTS_MAX:
            await self._rate.wait()
            sent = self._next_batches(leader)
            if not sent:
                return
            self._rate.take(sum(len(sent_batch.batch.data) for _, sent_batch in sent))
            try:
                connection = await self._client.connection(leader)
            except ClientError as error:
                self._refuse(sent, error)
                return
            self._in_flight[leader] += 1
            nursery.start_soon(partial(self._exchange, leader, connection, sent))
            # A request takes its place behind those before it when its task first runs: that is over after this.
            await trio.lowlevel.checkpoint()

    def _next_batches(self, leader: int) -> list[tuple[PartitionTarget, SentBatch]]:
        """Return a batch of each partition of a leader that has one, up to the size of a request."""
        chosen: list[tuple[PartitionTarget, SentBatch]] = []
        size, now_s = 0, trio.current_time()
        for target in self._active:
            if self._leader(target) == leader and size < REQUEST_BYTES_MAX:
                sent = target.next_sent(now_s)
                if sent is not None:
                    chosen.append((target, sent))
                    size += len(sent.batch.data)
        # The next request begins with the partitions that are not in this one.
        taken = [target for target, _ in chosen]
        self._active = [target for target in self._active if target not in taken] + taken
        return chosen

    async def _exchange(
        self, leader: int, connection: BrokerConnection, sent: list[tuple[PartitionTarget, SentBatch]]
    ) -> None:
        try:
            response = await connection.request(
                _request(sent, self._client.properties.request_timeout_ms), max_version=NAMES_VERSION_MAX
            )
            self._take(response, sent)
        except ClientError as error:
            self._refuse(sent, error)
        finally:
            self._in_flight[leader] -= 1
            self._changed.set()

    def _take(self, response: m.ProduceResponse, sent: list[tuple[PartitionTarget, SentBatch]]) -> None:
        rows = {(topic.name, row.index): row for topic in response.responses for row in topic.partition_responses}
        for target, sent_batch in sent:
            row = rows.get((target.partition.topic, target.partition.partition))
            if row is None or row.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if row is None else row.error_code
                self._refuse([(target, sent_batch)], KafkaError(code, None if row is None else row.error_message))
            else:
                target.acknowledged(sent_batch, row.base_offset)
                self._on_bytes(len(sent_batch.batch.data))

    def _refuse(self, sent: list[tuple[PartitionTarget, SentBatch]], error: ClientError) -> None:
        self._knows_leaders = False
        for target, sent_batch in sent:
            target.refused(sent_batch, error, trio.current_time())

    # --- leaders ------------------------------------------------------------------------------------------------------

    def _leader(self, target: PartitionTarget) -> int | None:
        """Return the node id of a leader; None where there is none now."""
        return self._leaders.get(target.partition.topic, {}).get(target.partition.partition)

    async def _find_leaders(self) -> None:
        """Ask for the leaders; where there is none, or no broker answers, the partitions wait."""
        self._knows_leaders = True
        topics = sorted({target.partition.topic for target in self._active})
        try:
            metadata = await self._client.metadata(topics, refresh=True)
        except ClientError as error:
            self._without_leaders(error)
            return
        self._leaders |= {
            name: {index: partition.leader for index, partition in topic.partitions.items() if partition.leader >= 0}
            for name, topic in metadata.topics.items()
        }
        self._without_leaders(KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, "the partition has no leader"))

    def _without_leaders(self, error: ClientError) -> None:
        """Let partitions without a leader wait."""
        now_s = trio.current_time()
        for target in self._active:
            if self._leader(target) is None:
                target.wait_for_leader(error, now_s)
                self._knows_leaders = False


def _request(sent: list[tuple[PartitionTarget, SentBatch]], timeout_ms: int) -> m.ProduceRequest:
    topics: dict[str, list[m.PartitionProduceData]] = {}
    for target, sent_batch in sent:
        rows = topics.setdefault(target.partition.topic, [])
        rows.append(m.PartitionProduceData(target.partition.partition, sent_batch.batch.data))
    data = [m.TopicProduceData(name, partition_data=rows) for name, rows in topics.items()]
    return m.ProduceRequest(None, _ACKS_ALL, timeout_ms, data)
