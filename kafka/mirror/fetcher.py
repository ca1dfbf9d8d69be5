"""One broker of the source: requests to Fetch, and the appends of what it sends.

    request ──► response ──┬──► the next request, behind what this one has
                           └──► append, if large in a thread (checksums, one write for each partition)

One response arrives while the one before it is appended; a third waits at the broker. So memory is bounded, and a slow
disk slows the source down.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from offsetfs.common.loop_watch import LoopAppends
from offsetfs.common.rate_limit import RateLimit
from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.client.connection import BrokerConnection
from offsetfs.kafka.client.errors import ClientError, Disconnected, ResponseTooLarge, error_name
from offsetfs.kafka.mirror.leaders import Leaders
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition, is_passing
from offsetfs.kafka.mirror.session import Asked, SessionRequest, SourceSession
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.mirror.upkeep import Upkeep
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID, TOPIC_IDS_VERSION
from offsetfs.storage import OFFSET_MAX
from offsetfs.storage.errors import OffsetGap, StorageError, sentence
from offsetfs.storage.records import LastBatch, last_whole_batch

WAIT_MS = 500
"""The time for which a broker waits for records: Kafka's default of a consumer."""

PAUSE_S = 0.1
DISK_FULL_PAUSE_S = 10.0
THROTTLED_S_MAX = 10.0
"""The longest pause after a response without records because of a quota; the broker says how long it should be."""

LOOP_BYTES_MAX = 64 << 10
"""Bytes of a response that are appended on the event loop, at most: the append takes some 0.1 ms, and the way to a
thread and back 0.4 ms, more when other processes use the processor."""

GAPS_REPORTED = 10
"""The gaps of a partition that are reported, at most."""

_FULL = (errno.ENOSPC, errno.EDQUOT)

_SESSION_LOST = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


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
    """An offset at which the records may begin as well, because an earlier response began there, too."""
    crosses_gap: bool = False
    """Whether they did, once they are appended."""


class NodeFetcher:
    """Fetches the partitions of one broker."""

    def __init__(
        self,
        node: int,
        state: MirrorState,
        leaders: Leaders,
        upkeep: Upkeep,
        rate: RateLimit,
        bytes_max: Callable[[], int],
    ) -> None:
        """`bytes_max`: returns how many bytes one response may have."""
        self.node = node
        self._state = state
        self._leaders = leaders
        self._upkeep = upkeep
        self._rate = rate
        self._bytes_max = bytes_max
        self._session = SourceSession()
        self._connection: BrokerConnection | None = None
        self.wake = trio.Event()
        """Set to check again which partitions can be fetched."""
        self._alone = list[MirroredPartition]()
        """Partitions to fetch one by one, without a session: after a response that is too large, to find that with the
        batch, and after offsets without records, to learn whether the source has none."""
        self._loop_appends = LoopAppends()
        self.appending = trio.Lock()
        """Held while batches of this broker are appended."""

    async def run(self) -> None:
        """Fetch and append until cancelled."""
        send, receive = trio.open_memory_channel[list[Fetched]](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._append_all, receive)
            await self._fetch_all(send)

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _fetch_all(self, send: trio.MemorySendChannel[list[Fetched]]) -> None:
        while True:
            self.wake = trio.Event()
            now = trio.current_time()
            partitions = [partition for partition in self._state.partitions_of(self.node) if partition.can_fetch(now)]
            is_single = bool(self._alone)
            if is_single:
                alone = self._alone.pop()
                partitions = [alone] if alone in partitions else []
                self.wake.set()
            if not partitions:
                with trio.move_on_after(PAUSE_S):
                    await self.wake.wait()
                continue
            await self._rate.wait()
            try:
                fetched = await self._fetch(partitions, is_single=is_single)
            except ClientError as error:
                await self._failed(partitions, error)
                continue
            if fetched:
                await send.send(fetched)

    async def _failed(self, partitions: Sequence[MirroredPartition], error: ClientError) -> None:
        self._session.restart()
        self._state.metadata_is_old()
        if error.is_retriable:
            self._leaders.node_failed(self.node, error)
        if isinstance(error, ResponseTooLarge) and len(partitions) > 1:
            self._alone = list(partitions)
            await trio.sleep(PAUSE_S)
            return
        for partition in partitions:
            partition.read_replica = UNKNOWN  # if this broker is a follower, the leader may answer
            if isinstance(error, ResponseTooLarge):
                partition.stop(f"the batch at offset {partition.position} is too large: {error}")
            elif not error.is_retriable:
                partition.stop(str(error))
            self._state.changed(partition)
        await trio.sleep(PAUSE_S)

    async def _fetch(self, partitions: Sequence[MirroredPartition], *, is_single: bool) -> list[Fetched]:
        """Return the batches of the next response; ClientError."""
        connection = await self._state.client.connection(self.node)
        if connection is not self._connection:
            self._connection = connection
            self._session.restart()
        has_ids = all(partition.topic_id != NO_ID for partition in partitions)
        version = connection.version_of(m.FetchRequest, max_version=None if has_ids else TOPIC_IDS_VERSION - 1)
        bytes_max = self._rate.bytes_max(self._bytes_max())
        request = self._session.request(
            partitions,
            version,
            bytes_max=bytes_max,
            wait_ms=0 if is_single else WAIT_MS,
            rack=self._state.client.properties.client_rack,
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
            self._state.metadata_is_old()
            await trio.sleep(PAUSE_S)
            return []
        self._leaders.node_answered(self.node)
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
            partition = self._state.by_name(topic.topic, topic.topic_id, number)
            asked = None if partition is None else request.asked.get(partition)
            if partition is None or asked is None or partition.node != self.node:
                continue
            if asked.generation != partition.generation:
                continue  # asked for before the partition was moved
            if data.error_code:
                with_error.add(partition)
            batches = self._take_partition(partition, data, asked.position, records)
            if batches is not None:
                batches.known_gap_end = partition.gap_end if is_single else UNKNOWN
                fetched.append(batches)
        self._rate.take(size)
        if not size and response.throttle_time_ms <= 0:  # a quota empties responses, of brokers since 2.0 (KIP-219)
            for asked_partition, asked in request.asked.items():
                if asked_partition not in with_error and asked_partition.can_fetch(trio.current_time()):
                    self._note_end(asked_partition, asked)
        return fetched

    def _note_end(self, partition: MirroredPartition, asked: Asked) -> None:
        """Record that the source sends no more records: its last offsets may be without any."""
        is_at_end = asked.position == partition.end == partition.position
        if is_at_end and asked.generation == partition.generation and partition.high_watermark >= partition.stop_at:
            partition.empty_at = asked.position
            self._state.changed(partition)

    def _take_partition(
        self, partition: MirroredPartition, data: Any, offset: int, records: memoryview
    ) -> Fetched | None:
        if data.error_code:
            self._take_error(partition, data.error_code)
            return None
        if partition.note_answer():
            self._state.report(partition, "the source answers again")
        if data.diverging_epoch.epoch != UNKNOWN:
            partition.is_checked = False
            self._state.changed(partition)
            return None
        if data.preferred_read_replica not in (UNKNOWN, self.node):
            partition.read_replica = data.preferred_read_replica
            self._state.changed(partition)
        partition.high_watermark = max(data.high_watermark, 0)
        partition.note_lag(trio.current_time())
        partition.source_start = max(data.log_start_offset, partition.source_start)
        if not records:
            return None
        last = last_whole_batch(records)
        if last is None:
            partition.stop(f"the source sent {len(records)} bytes at offset {offset} that are not a whole batch")
            self._state.changed(partition)
            return None
        if partition.position == offset and offset <= last.next_offset <= OFFSET_MAX:  # else the append finds out
            partition.position = last.next_offset
            partition.position_epoch = last.leader_epoch
        begins_by = None if self._state.directory.checkpoints.is_cleaned(partition.name) else partition.end
        return Fetched(partition, partition.generation, offset, records, last, begins_by)

    def _take_error(self, partition: MirroredPartition, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if partition.read_replica != UNKNOWN:  # the follower may not have the record yet
                partition.read_replica = UNKNOWN
            else:
                partition.is_out_of_range = True
        elif is_passing(code):
            partition.read_replica = UNKNOWN
            partition.note_error(f"offset {partition.end}: the source answers {error_name(code)}", trio.current_time())
            partition.wait_until = trio.current_time() + PAUSE_S
            self._state.metadata_is_old()
        else:
            partition.stop(f"offset {partition.end}: the source answers {error_name(code)}{_remedy(code)}")
        self._state.changed(partition)

    # --- appends ------------------------------------------------------------------------------------------------------

    async def _append_all(self, receive: trio.MemoryReceiveChannel[list[Fetched]]) -> None:
        async for fetched in receive:
            async with self.appending:
                now = [batches for batches in fetched if _is_next(batches)]
                size = sum(len(batches.records) for batches in now)
                if size <= LOOP_BYTES_MAX and self._loop_appends.are_quick:
                    results = self._loop_appends.run(partial(_append, now))
                else:
                    with trio.CancelScope(shield=True):
                        results = await in_thread_or_here(partial(_append, now))
            for batches, result in zip(now, results, strict=True):
                self._appended(batches, result)
            for batches in fetched:
                if batches.generation == batches.partition.generation and batches not in now:
                    batches.partition.restart(batches.partition.end)
            self.wake.set()

    def _appended(self, fetched: Fetched, result: int | Exception) -> None:
        partition = fetched.partition
        if isinstance(result, Exception):
            self._not_appended(partition, result)
            return
        partition.end = max(partition.log.next_offset, partition.end)
        partition.empty_at, partition.empty_since = UNKNOWN, math.inf
        self._note_gap(fetched)
        self._upkeep.appended(partition, result)
        partition.note_lag(trio.current_time())
        # Batches behind a damaged one were not appended: the next response begins with it.
        if partition.end < fetched.last.next_offset:
            partition.restart(partition.end)
        if not partition.is_stopped:  # a later response may have stopped it while this one was appended
            partition.failure = ""
        if partition.is_at_stop:
            self._state.changed(partition)

    def _note_gap(self, fetched: Fetched) -> None:
        partition, first = fetched.partition, fetched.offset
        if fetched.crosses_gap:
            partition.gaps += 1
        if fetched.crosses_gap and partition.gaps <= GAPS_REPORTED:
            more = "; further gaps are not reported" if partition.gaps == GAPS_REPORTED else ""
            text = f"the source has no records from {first} to {partition.gap_end - 1}, also when it is asked again"
            self._state.report(partition, f"{text}; the mirror continues behind them{more}")
        partition.gap_end = UNKNOWN

    def _not_appended(self, partition: MirroredPartition, error: Exception) -> None:
        partition.restart(max(partition.log.next_offset, partition.end))
        if isinstance(error, OffsetGap) and error.offset is not None:
            partition.gap_end = error.offset
            if partition not in self._alone:
                self._alone.append(partition)
            return
        if partition.is_stopped:  # while these batches were appended; the reason is on record
            return
        if not isinstance(error, OSError) or error.errno not in _FULL:
            partition.stop(sentence(error))
        else:
            text = f"{partition.log.path}: {error.strerror}"
            if math.isinf(partition.stop_at):
                partition.wait_until = trio.current_time() + DISK_FULL_PAUSE_S
                if partition.failure != text:
                    self._state.report(partition, f"{text}; the mirror continues when there is space")
                partition.failure = text
            else:
                partition.stop(f"{text}; make space, and start the mirror again")
        self._state.changed(partition)


def _is_next(fetched: Fetched) -> bool:
    partition = fetched.partition
    return fetched.generation == partition.generation and fetched.offset == partition.end and not partition.is_stopped


def _append(fetched: Sequence[Fetched]) -> list[int | Exception]:
    """Append batches to their logs, in a thread; return the bytes, or the error of each."""
    results = list[int | Exception]()
    for batches in fetched:
        try:
            results.append(_append_one(batches))
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
        for partition in topic.partitions:
            yield topic, partition.partition_index, partition
        for partition in topic.partition_responses:
            yield topic, partition.partition, partition


def records_of(data: Any) -> memoryview:
    """Return the batches in the data of a partition; those of versions before 4 are in another field."""
    records = data.records if hasattr(data, "records") else data.record_set
    return memoryview(b"" if records is None else records)


def _remedy(code: int) -> str:
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return ": the user of --config needs READ and DESCRIBE of the topic"
    return ""
