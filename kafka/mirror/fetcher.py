"""One broker of the source: requests to Fetch, and the appends of what it sends.

    request ──► response ──┬──► the next request, behind what this one has
                           └──► append, if large in a thread (checksums, one write for each partition)

One response arrives while the one before it is appended; a third waits at the broker. So memory is bounded, and a slow
disk slows the source down.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import trio

from offsetfs.common.loop_appends import LoopAppends
from offsetfs.common.rate_limit import RateLimit
from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.connection import BrokerConnection
from offsetfs.kafka.client.errors import ClientError, Disconnected, KafkaError, ResponseTooLarge, error_name
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.session import Asked, SessionRequest, SourceSession
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID
from offsetfs.kafka.protocol.shared_values import TOPIC_IDS_VERSION
from offsetfs.storage import OFFSET_MAX
from offsetfs.storage.errors import OffsetGap, StorageError, sentence
from offsetfs.storage.records import LastBatch, last_whole_batch

WAIT_MS = 500
"""How long a broker waits for records: Kafka's default of a consumer."""

PAUSE_S = 0.1
DISK_FULL_PAUSE_S = 10.0
THROTTLED_S_MAX = 10.0
"""The longest pause after a response without records because of a quota; the broker says how long it should be."""

LOOP_BYTES_MAX = 64 << 10
"""A response of up to so many bytes is appended on the event loop: that takes some 0.1 ms, and the way to a thread and
back takes 0.4 ms, more when other processes use the processor."""

GAPS_REPORTED = 10
"""How many gaps of a partition are reported each by itself."""

_FULL = (errno.ENOSPC, errno.EDQUOT)

MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which the metadata says more."""


def is_passing(code: int) -> bool:
    """Whether an error of a partition may pass: it is asked again, as by Kafka's consumer.

    An unknown error of the server, too, such as that of remote storage which does not answer. Not a damaged batch.
    """
    if code == ErrorCode.CORRUPT_MESSAGE:
        return False
    return code in MOVED or code == ErrorCode.UNKNOWN_SERVER_ERROR or KafkaError(code).is_retriable


_SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


class FetcherOwner(Protocol):
    """The interface of the mirror that a fetcher uses."""

    @property
    def rate(self) -> RateLimit: ...

    def partitions_of(self, node: int) -> Sequence[MirroredPartition]:
        """Return the partitions that are fetched from a broker."""

    def by_name(self, topic: str, topic_id: bytes, number: int) -> MirroredPartition | None:
        """Return a partition of a response."""

    def bytes_max(self) -> int:
        """Return how many bytes one response may have."""

    def node_failed(self, node: int, error: ClientError) -> None:
        """Record that a broker does not answer, for a reason that may pass; ask for the leaders again."""

    def node_answered(self, node: int) -> None:
        """Record that a broker answers."""

    def metadata_is_old(self) -> None:
        """Ask for the leaders again, soon."""

    def may_have_gaps(self, partition: MirroredPartition) -> bool:
        """Whether it is on record that offsets without records are no loss."""

    def appended(self, partition: MirroredPartition, count: int) -> None:
        """Count bytes that were appended."""

    def changed(self, partition: MirroredPartition) -> None:
        """Schedule a check of a partition: it is complete, has to be compared with its leader, or has failed."""

    def report(self, partition: MirroredPartition, text: str) -> None:
        """Report an event of a partition."""


@dataclass(slots=True, eq=False)
class Fetched:
    """Batches of one partition, on their way from the broker to the log."""

    partition: MirroredPartition
    generation: int
    offset: int
    records: memoryview
    last: LastBatch
    begins_by: int | None = None
    """The offset at which the records begin at the latest; None: gaps are no loss."""
    known_gap_end: int = UNKNOWN
    """Where the records may begin as well, because an earlier response has said so, too."""
    crosses_gap: bool = False
    """Whether they did, once they are appended."""


class NodeFetcher:
    """Fetches the partitions of one broker."""

    def __init__(self, node: int, client: ClusterClient, owner: FetcherOwner) -> None:
        self.node = node
        self._client = client
        self._owner = owner
        self._session = SourceSession()
        self._connection: BrokerConnection | None = None
        self._wake = trio.Event()
        self._alone = list[MirroredPartition]()
        """Partitions to fetch one by one, without a session: after a response that is too large, to find that with the
        batch, and after offsets without records, to learn whether the source has none."""
        self._loop_appends = LoopAppends()
        self.appending = trio.Lock()
        """Held while batches of this broker are appended."""

    def wake(self) -> None:
        """Check again which partitions can be fetched."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch and append until cancelled."""
        send, receive = trio.open_memory_channel[list[Fetched]](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._append_all, receive)
            await self._fetch_all(send)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _fetch_all(self, send: trio.MemorySendChannel[list[Fetched]]) -> None:
        while True:
            self._wake = trio.Event()
            now = trio.current_time()
            partitions = [each for each in self._owner.partitions_of(self.node) if each.can_fetch(now)]
            is_single = bool(self._alone)
            if is_single:
                one = self._alone.pop()
                partitions = [one] if one in partitions else []
                self._wake.set()
            if not partitions:
                with trio.move_on_after(PAUSE_S):
                    await self._wake.wait()
                continue
            await self._owner.rate.wait()
            try:
                fetched = await self._fetch(partitions, is_single=is_single)
            except ClientError as error:
                await self._failed(partitions, error)
                continue
            if fetched:
                await send.send(fetched)

    async def _failed(self, partitions: Sequence[MirroredPartition], error: ClientError) -> None:
        self._session.restart()
        self._owner.metadata_is_old()
        if error.is_retriable:
            self._owner.node_failed(self.node, error)
        if isinstance(error, ResponseTooLarge) and len(partitions) > 1:
            self._alone = list(partitions)
            await trio.sleep(PAUSE_S)
            return
        for each in partitions:
            each.read_replica = UNKNOWN  # if this broker is a follower, the leader may answer
            if isinstance(error, ResponseTooLarge):
                each.stop(f"the batch at offset {each.position} is too large: {error}")
            elif not error.is_retriable:
                each.stop(str(error))
            self._owner.changed(each)
        await trio.sleep(PAUSE_S)

    async def _fetch(self, partitions: Sequence[MirroredPartition], *, is_single: bool) -> list[Fetched]:
        """Return the batches of the next response; ClientError."""
        connection = await self._client.connection(self.node)
        if connection is not self._connection:
            self._connection = connection
            self._session.restart()
        has_ids = all(each.topic_id != NO_ID for each in partitions)
        version = connection.version_of(m.FetchRequest, max_version=None if has_ids else TOPIC_IDS_VERSION - 1)
        bytes_max = self._owner.rate.bytes_max(self._owner.bytes_max())
        request = self._session.request(
            partitions,
            version,
            bytes_max=bytes_max,
            wait_ms=0 if is_single else WAIT_MS,
            rack=self._client.properties.client_rack,
            is_single=is_single,
        )
        try:
            response = await connection.request(request.message, max_version=version)
        except Disconnected:
            self._session.restart()
            raise
        if response.error_code:
            self._session.restart()
            if response.error_code not in _SESSION_LOST:
                raise Disconnected(f"{connection}: Fetch: {error_name(response.error_code)}")
            self._owner.metadata_is_old()
            await trio.sleep(PAUSE_S)
            return []
        self._owner.node_answered(self.node)
        self._session.taken(response.session_id)
        fetched = self._take(request, response, is_single=is_single)
        if not fetched and response.throttle_time_ms > 0:
            await trio.sleep(min(response.throttle_time_ms / 1000, THROTTLED_S_MAX))
        return fetched

    def _take(self, request: SessionRequest, response: Any, *, is_single: bool) -> list[Fetched]:
        """Return the batches of a response, at the offsets that its own request has asked for."""
        fetched, size, with_error = list[Fetched](), 0, set[MirroredPartition]()
        for topic, number, data in data_of(response):
            records = records_of(data)
            size += len(records)  # also those that are not taken: others may have had no place beside them
            found = self._owner.by_name(topic.topic, topic.topic_id, number)
            asked = None if found is None else request.asked.get(found)
            if found is None or asked is None or found.node != self.node:
                continue
            if asked.generation != found.generation:
                continue  # asked for before the partition was moved
            if data.error_code:
                with_error.add(found)
            one = self._take_partition(found, data, asked.position, records)
            if one is not None:
                one.known_gap_end = found.gap_end if is_single else UNKNOWN
                fetched.append(one)
        self._owner.rate.take(size)
        if not size and response.throttle_time_ms <= 0:  # a quota empties responses, of brokers since 2.0 (KIP-219)
            for each, asked in request.asked.items():
                if each not in with_error and each.can_fetch(trio.current_time()):
                    self._note_end(each, asked)
        return fetched

    def _note_end(self, partition: MirroredPartition, asked: Asked) -> None:
        """Record that the source sends no more records: its last offsets may be without any."""
        is_at_end = asked.position == partition.end == partition.position
        if is_at_end and asked.generation == partition.generation and partition.high_watermark >= partition.stop_at:
            partition.empty_at = asked.position
            self._owner.changed(partition)

    def _take_partition(self, found: MirroredPartition, data: Any, offset: int, records: memoryview) -> Fetched | None:
        if data.error_code:
            self._take_error(found, data.error_code)
            return None
        if found.note_answer():
            self._owner.report(found, "the source answers again")
        if data.diverging_epoch.epoch != UNKNOWN:
            found.is_checked = False
            self._owner.changed(found)
            return None
        if data.preferred_read_replica not in (UNKNOWN, self.node):
            found.read_replica = data.preferred_read_replica
            self._owner.changed(found)
        found.high_watermark = max(data.high_watermark, 0)
        found.note_lag(trio.current_time())
        found.source_start = max(data.log_start_offset, found.source_start)
        if not records:
            return None
        last = last_whole_batch(records)
        if last is None:
            found.stop(f"the source sent {len(records)} bytes at offset {offset} that are not a whole batch")
            self._owner.changed(found)
            return None
        if found.position == offset and offset <= last.next_offset <= OFFSET_MAX:  # else the append finds out
            found.position = last.next_offset
            found.position_epoch = last.leader_epoch
        begins_by = None if self._owner.may_have_gaps(found) else found.end
        return Fetched(found, found.generation, offset, records, last, begins_by)

    def _take_error(self, found: MirroredPartition, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if found.read_replica != UNKNOWN:  # the follower may not have the record yet
                found.read_replica = UNKNOWN
            else:
                found.is_out_of_range = True
        elif is_passing(code):
            found.read_replica = UNKNOWN
            found.note_error(f"offset {found.end}: the source answers {error_name(code)}", trio.current_time())
            found.wait_until = trio.current_time() + PAUSE_S
            self._owner.metadata_is_old()
        else:
            found.stop(f"offset {found.end}: the source answers {error_name(code)}{_remedy(code)}")
        self._owner.changed(found)

    # --- appends ------------------------------------------------------------------------------------------------------

    async def _append_all(self, receive: trio.MemoryReceiveChannel[list[Fetched]]) -> None:
        async for fetched in receive:
            async with self.appending:
                now = [each for each in fetched if _is_next(each)]
                size = sum(len(each.records) for each in now)
                if size <= LOOP_BYTES_MAX and self._loop_appends.are_quick:
                    results = self._loop_appends.run(partial(_append, now))
                else:
                    with trio.CancelScope(shield=True):
                        results = await in_thread_or_here(partial(_append, now))
            for each, result in zip(now, results, strict=True):
                self._appended(each, result)
            for each in fetched:
                if each.generation == each.partition.generation and each not in now:
                    each.partition.restart(each.partition.end)
            self.wake()

    def _appended(self, fetched: Fetched, result: int | Exception) -> None:
        found = fetched.partition
        if isinstance(result, Exception):
            self._not_appended(found, result)
            return
        found.end = max(found.log.next_offset, found.end)
        found.empty_at, found.empty_since = UNKNOWN, math.inf
        self._note_gap(fetched)
        self._owner.appended(found, result)
        found.note_lag(trio.current_time())
        if found.end < fetched.last.next_offset:  # the batches behind a damaged one: the next response begins with it
            found.restart(found.end)
        found.failure = ""
        if found.is_at_stop:
            self._owner.changed(found)

    def _note_gap(self, fetched: Fetched) -> None:
        found, first = fetched.partition, fetched.offset
        if fetched.crosses_gap:
            found.gaps += 1
        if fetched.crosses_gap and found.gaps <= GAPS_REPORTED:
            more = "; further gaps are not reported" if found.gaps == GAPS_REPORTED else ""
            text = f"the source has no records from {first} to {found.gap_end - 1}, also when it is asked again"
            self._owner.report(found, f"{text}; it goes on behind them{more}")
        found.gap_end = UNKNOWN

    def _not_appended(self, found: MirroredPartition, error: Exception) -> None:
        found.restart(max(found.log.next_offset, found.end))
        if isinstance(error, OffsetGap) and error.offset is not None:
            found.gap_end = error.offset
            if found not in self._alone:
                self._alone.append(found)
            return
        if not isinstance(error, OSError) or error.errno not in _FULL:
            found.stop(sentence(error))
        else:
            text = f"{found.log.path}: {error.strerror}"
            if math.isinf(found.stop_at):
                found.wait_until = trio.current_time() + DISK_FULL_PAUSE_S
                if found.failure != text:
                    self._owner.report(found, f"{text}; it goes on when there is space")
                found.failure = text
            else:
                found.stop(f"{text}; make space, and start the mirror again")
        self._owner.changed(found)


def _is_next(fetched: Fetched) -> bool:
    found = fetched.partition
    return fetched.generation == found.generation and fetched.offset == found.end and not found.is_stopped


def _append(fetched: Sequence[Fetched]) -> list[int | Exception]:
    """Append batches to their logs, in a thread; return the bytes, or the error of each."""
    results = list[int | Exception]()
    for each in fetched:
        try:
            results.append(_append_one(each))
        except (StorageError, OSError, MemoryError) as error:
            results.append(error)
    return results


def _append_one(fetched: Fetched) -> int:
    """Append batches; a gap before them only if an earlier response had the same one."""
    log = fetched.partition.log
    try:
        return log.append_replicated(fetched.records, begins_by=fetched.begins_by)
    except OffsetGap as gap:
        if gap.offset is None or gap.offset != fetched.known_gap_end:
            raise
        done = log.append_replicated(fetched.records, begins_by=gap.offset)
        fetched.crosses_gap = True
        return done


def data_of(response: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield topic, number and data of each partition; those of versions before 4 have other names."""
    for topic in response.responses:
        for each in topic.partitions:
            yield topic, each.partition_index, each
        for each in topic.partition_responses:
            yield topic, each.partition, each


def records_of(data: Any) -> memoryview:
    """Return the batches in the data of a partition; those of versions before 4 are in another field."""
    records = data.records if hasattr(data, "records") else data.record_set
    return memoryview(b"" if records is None else records)


def _remedy(code: int) -> str:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return ": the user of --config needs READ and DESCRIBE of the topic"
    return ""
