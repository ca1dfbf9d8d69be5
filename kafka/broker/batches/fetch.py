"""Fetch: whole record batches from an offset on, as ranges of segment files that are sent without being copied.

Follows Kafka's `ReplicaManager.fetchMessages` and `DelayedFetch` for consumers: at least one batch even above the
limits; an answer at once for an error or when `min_bytes` are there, else after a change or `max_wait_ms`.

A request looks at the partitions whose log has changed since it, or its session, looked at them last. A change wakes
a request for that partition only. So idle partitions in a session cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.batches.fetch_session import FetchContext, FetchedPartition, FetchSessions, ReadPermission
from offsetfs.kafka.broker.batches.log_queries import epoch_error
from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.connections.api import UntilClosed
from offsetfs.kafka.broker.errors import code_of
from offsetfs.kafka.broker.metrics import BrokerMetrics, waiting
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics, Watcher, leader_epoch_of
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import READ_COMMITTED
from offsetfs.kafka.protocol.messages import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
    FetchResponseSnapshotId,
)
from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.errors import OffsetOutOfRange, StorageError, UnknownPartition, WouldBlock

_LEADER_VERSION = 16
_NO_EPOCH_END, _NO_LEADER = FetchResponseEpochEndOffset(), FetchResponseLeaderIdAndEpoch()
_NO_SNAPSHOT = FetchResponseSnapshotId()
_NO_TRANSACTIONS: list[AbortedTransaction] = []
"""The parts of most responses, which nothing changes."""

_UNKNOWN_TOPIC = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

SCAN_INTERVAL_S = 5.0
"""The interval at which partitions of an idle session are compared with their logs: a microsecond each."""

READ_ONLY_POLL_S, READ_ONLY_POLL_S_PER_PARTITION = 0.1, 0.0005
"""The interval at which a waiting request looks for records of another process: two stat calls for each partition."""


class _ClientLeft(Exception):
    """The client of a request that waits has left, or the broker ends."""


class Fetching:
    """Answers Fetch requests."""

    def __init__(self, topics: Topics, node: BrokerNode, settings: ServerSettings, metrics: BrokerMetrics) -> None:
        self._topics = topics
        self._node = node
        self._metrics = metrics
        self._bytes_max = settings.fetch_max_bytes
        self._sessions = FetchSessions(topics, settings.max_incremental_fetch_session_cache_slots)

    async def fetch(
        self,
        request: FetchRequest,
        version: int,
        permission: ReadPermission | None = None,
        until_closed: UntilClosed = trio.CancelScope,
    ) -> FetchResponse | None:
        """Return the batches that the request asks for; wait for `min_bytes`, at most `max_wait_ms`.

        `permission`: which topics the client may read; None: all of them. None if the wait was cancelled by
        `until_closed`, because the client left.
        """
        context = await self._sessions.context(request, version)
        if isinstance(context, ErrorCode):
            return FetchResponse(error_code=context)
        context.permit(permission)
        try:
            await self._collect(context, request, until_closed)
            if context.is_superseded:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            return await self._response(context, request, version)
        except _ClientLeft:
            return None
        finally:
            for partition in context.looked_at:
                partition.data = None  # holds files open

    # --- the response ------------------------------------------------------------------------------------------------

    async def _response(self, context: FetchContext, request: FetchRequest, version: int) -> FetchResponse:
        session = context.session
        if context.begins_session:
            session = self._sessions.begin(context, request, version)
        response = FetchResponse(session_id=0 if session is None else session.session_id)
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        slices = Slices()
        for partition in context.looked_at:
            await slices.step()
            data = partition.data
            if data is None or not (partition.must_be_sent(data) or context.session is None):
                continue
            name = partition.key[0]
            topic = topics.get(name)
            if topic is None:
                topic = FetchableTopicResponse(topic=name) if isinstance(name, str) else _by_id(name)
                topics[name] = topic
                response.responses.append(topic)
            if data.error_code == ErrorCode.FENCED_LEADER_EPOCH and version >= _LEADER_VERSION:
                data = self._fenced(partition, response)
            topic.partitions.append(data)
            if data.records:
                self._metrics.fetched("" if partition.name is None else partition.name.topic, data.records.size)
                if session is not None:
                    session.moved_to_end(partition.key)
        return response

    def _fenced(self, partition: FetchedPartition, response: FetchResponse) -> FetchResponsePartitionData:
        """Return the error with the leader and its epoch, which saves the client a Metadata request (KIP-951)."""
        node = self._node
        response.node_endpoints[:] = [FetchResponseNodeEndpoint(node.node_id, node.host, node.port)]
        epoch = 0 if partition.log is None else leader_epoch_of(partition.log)
        return _failed(partition, ErrorCode.FENCED_LEADER_EPOCH, FetchResponseLeaderIdAndEpoch(node.node_id, epoch))

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _collect(self, context: FetchContext, request: FetchRequest, until_closed: UntilClosed) -> None:
        """Look at the partitions until there is enough to send, or until `max_wait_ms` have passed."""
        deadline = math.nan  # set after the first look, as by Kafka's DelayedFetch
        bytes_min = min(request.min_bytes, self._bytes_max)
        partitions, session = context.partitions, context.session
        watcher, own = None if session is None else session.watcher, None
        try:
            is_idle = watcher is not None and self._is_idle(context, watcher.take())
            due = [] if is_idle else await self._due(partitions.values())
            while True:
                for partition in due:
                    context.looked_at[partition] = None
                is_lost = await self._open(due, context)
                size = await self._look(due, request)
                has_news = size >= bytes_min or is_lost or _is_over(due) or context.is_superseded
                if not has_news:
                    now = trio.current_time()
                    if math.isnan(deadline):
                        deadline = now + max(request.max_wait_ms, 0) / 1000
                    left = 0.0 if self._topics.is_closing else deadline - now
                    has_news = left <= 0
                # Where no partition exists there is nothing that could change.
                if has_news or all(partition.log is None for partition in partitions.values()):
                    self._end_look(context, due)
                    return
                if watcher is None:
                    watcher = own = Watcher(self._topics)
                if own is not None:
                    _watch(partitions.values(), own)
                unfinished = [partition for partition in due if partition.is_unfinished]
                for partition in unfinished:
                    if partition.log is not None:
                        partition.data = None  # holds a file open
                due = await self._next_due(partitions.values(), unfinished, watcher, left, until_closed)
                if due and session is not None:
                    session.is_idle = False
        finally:
            if own is not None:
                own.close()

    @staticmethod
    def _end_look(context: FetchContext, due: Sequence[FetchedPartition]) -> None:
        """Note in the session whether everything was looked at. After an error or a cancellation it was not."""
        session = context.session
        if session is None:
            return
        if context.is_superseded:  # the later request must see the changes that this one was woken for
            for partition in due:
                if partition.name is not None:
                    session.watcher.wake(partition.name)
        else:
            session.is_idle = not any(partition.is_unfinished for partition in due)

    def _is_idle(self, context: FetchContext, changed: set[TopicPartition]) -> bool:
        """Return whether a request of a session has nothing to look at.

        Appends and deletions are reported. Retention is not, so that the logs are compared every `SCAN_INTERVAL_S`.
        """
        session, now = context.session, trio.current_time()
        if session is None or self._topics.directory.read_only:
            return False
        if session.is_idle and not changed and now < session.scan_due_s:
            return True
        session.is_idle, session.scan_due_s = False, now + SCAN_INTERVAL_S
        return False

    async def _due(self, partitions: Iterable[FetchedPartition]) -> list[FetchedPartition]:
        """Return the partitions that must be looked at, with what another process has written."""
        if self._topics.directory.read_only:
            logs = [partition.log for partition in partitions if partition.log is not None]
            if logs:
                await in_thread(partial(_refresh, logs))
        return [partition for partition in partitions if partition.is_due]

    async def _next_due(
        self,
        partitions: Iterable[FetchedPartition],
        unfinished: list[FetchedPartition],
        watcher: Watcher,
        seconds: float,
        until_closed: UntilClosed,
    ) -> list[FetchedPartition]:
        """Wait for a change; return the partitions that must be looked at again; _ClientLeft."""
        if self._topics.directory.read_only:
            count = sum(1 for _ in partitions)
            await _wait(watcher, min(seconds, READ_ONLY_POLL_S + count * READ_ONLY_POLL_S_PER_PARTITION), until_closed)
            watcher.take()
            return await self._due(partitions)
        await _wait(watcher, seconds, until_closed)
        changed = watcher.take()
        if not changed:
            return unfinished
        known = set(unfinished)
        return unfinished + [
            partition for partition in partitions if partition.name in changed and partition not in known
        ]

    # --- one look ----------------------------------------------------------------------------------------------------

    async def _open(self, due: Sequence[FetchedPartition], context: FetchContext) -> bool:
        """Find the logs of partitions; return whether one is gone that was there."""
        watcher = None if context.session is None else context.session.watcher
        closed, is_lost, slices = list[FetchedPartition](), False, Slices()
        for partition in due:
            await slices.step()
            if partition.log is not None and not partition.log.is_gone:
                continue
            was_known, partition.log = partition.name is not None, None
            if self._open_here(partition, context):
                continue
            code = self._find(partition, context.permission)
            if code != ErrorCode.NONE:
                partition.is_unfinished = True
                partition.data = _failed(partition, code)
                is_lost = is_lost or was_known
                continue
            assert partition.name is not None
            if watcher is not None:
                watcher.add(partition.name)
            if self._topics.directory.opened(partition.name) is None:
                closed.append(partition)
            else:
                self._open_log(partition)
        if closed:
            with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
                await in_thread(partial(self._open_logs, closed))
        return is_lost

    def _open_here(self, partition: FetchedPartition, context: FetchContext) -> bool:
        """Take the log of a partition that has a name and is open, as most requests without a session ask for."""
        topic, number = partition.key
        if isinstance(topic, bytes) or context.session is not None or context.permission is not None:
            return False
        log = self._topics.ready(topic, number)
        if log is None or log.read_only:
            return False
        partition.name, partition.log = log.partition, log
        return True

    def _find(self, partition: FetchedPartition, permission: ReadPermission | None) -> ErrorCode:
        """Find the name of a partition; return an error if the partition does not exist, or may not be read."""
        topic, number = partition.key
        name = self._topics.name_of(topic) if isinstance(topic, bytes) else topic
        if name is not None and permission is not None and not permission.allows(name):
            partition.name = None
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        try:
            partition.name = None if name is None else self._topics.name(name, number)
        except UnknownPartition:
            partition.name = None
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_ID if partition.name is None else ErrorCode.NONE

    def _open_logs(self, partitions: Iterable[FetchedPartition]) -> None:
        for partition in partitions:
            self._open_log(partition)

    def _open_log(self, partition: FetchedPartition) -> None:
        assert partition.name is not None
        try:
            partition.log = self._topics.directory.log(partition.name)
            partition.log.refresh()
        except (StorageError, OSError, MemoryError) as error:
            partition.log, partition.is_unfinished = None, True
            partition.data = _failed(partition, code_of(error))

    async def _look(self, due: Iterable[FetchedPartition], request: FetchRequest) -> int:
        """Find what there is to send of partitions; return its size."""
        bytes_left, size = min(request.max_bytes, self._bytes_max), 0
        is_committed, slices = request.isolation_level == READ_COMMITTED, Slices()
        for partition in due:
            await slices.step()
            log = partition.log
            if log is None:
                continue
            bytes_max = min(partition.wanted.partition_max_bytes, bytes_left - size)
            work = partial(_read, partition, log, bytes_max, needs_one=not size, is_committed=is_committed)
            try:
                try:
                    data = work(nowait=True)
                except WouldBlock:
                    with trio.CancelScope(shield=True):
                        data = await in_thread(partial(work, nowait=False))
            except (StorageError, OSError, MemoryError) as error:
                partition.is_unfinished = True
                # The files of a log that was deleted meanwhile have other names.
                data = _failed(partition, _missing(partition) if log.is_gone else code_of(error))
            partition.data = data
            size += data.records.size if data.records else 0
        return size


async def _wait(watcher: Watcher, seconds: float, until_closed: UntilClosed) -> None:
    with waiting(), until_closed() as scope:
        await watcher.wait(seconds)
    if scope.cancelled_caught:
        raise _ClientLeft


def _watch(partitions: Iterable[FetchedPartition], watcher: Watcher) -> None:
    """Watch the partitions that exist."""
    for partition in partitions:
        if partition.name is not None and partition.log is not None:
            watcher.add(partition.name)
            # The log has changed, or was deleted, while logs were looked at in a thread.
            if partition.state is not partition.log.state or partition.log.is_gone:
                watcher.wake(partition.name)


def _is_over(due: Sequence[FetchedPartition]) -> bool:
    """Return whether a partition has an error that is answered at once: any but that of a topic that never existed."""
    return any(
        partition.data is not None
        and (
            (partition.data.error_code != ErrorCode.NONE and (partition.name is not None or partition.log is not None))
            or partition.data.diverging_epoch.epoch >= 0
        )
        for partition in due
    )


def _refresh(logs: Iterable[Log]) -> None:
    for log in logs:
        log.refresh()


def _by_id(topic_id: bytes) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic_id=topic_id)


def _missing(partition: FetchedPartition) -> ErrorCode:
    """Return the error of a partition that was deleted."""
    return ErrorCode.UNKNOWN_TOPIC_ID if isinstance(partition.key[0], bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failed(
    partition: FetchedPartition, code: ErrorCode, leader: FetchResponseLeaderIdAndEpoch | None = None
) -> FetchResponsePartitionData:
    return FetchResponsePartitionData(
        partition_index=partition.key[1],
        error_code=code,
        high_watermark=-1,
        diverging_epoch=_NO_EPOCH_END,
        current_leader=leader or _NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=_NO_TRANSACTIONS if code in _UNKNOWN_TOPIC else None,  # as Kafka
        records=b"",
    )


def _read(
    partition: FetchedPartition, log: Log, bytes_max: int, *, needs_one: bool, is_committed: bool, nowait: bool
) -> FetchResponsePartitionData:
    """Return what there is of one partition, at most `bytes_max` bytes; with `needs_one` at least one batch."""
    wanted = partition.wanted
    offset = wanted.fetch_offset
    state = log.state
    if wanted.current_leader_epoch >= 0:  # as FetchRequest.optionalEpoch
        code = epoch_error(log, wanted.current_leader_epoch)
        if code != ErrorCode.NONE:
            partition.is_unfinished = True
            return _failed(partition, code)
    start, end = state.log_start_offset, state.next_offset
    stable = min(log.last_stable_offset(nowait=nowait), end)
    data = FetchResponsePartitionData(
        partition_index=wanted.partition,
        high_watermark=end,
        last_stable_offset=stable,
        log_start_offset=start,
        diverging_epoch=_NO_EPOCH_END,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=[] if is_committed else None,
        records=b"",
    )
    if wanted.last_fetched_epoch >= 0:
        diverging = _diverging(log, wanted.last_fetched_epoch, offset)
        if diverging is not None:
            data.diverging_epoch = diverging
            partition.is_unfinished = True
            return data
    if not start <= offset <= end:
        raise OffsetOutOfRange(offset, start, end, log.path)
    end = stable if is_committed else end
    has_more = offset < end
    if has_more and (bytes_max > 0 or needs_one):
        batches = log.find_range(offset, bytes_max, offset_end=end, needs_one=needs_one, nowait=nowait)
        if batches is not None:
            data.records = batches
            if is_committed:
                aborted = log.aborted(offset, batches.offset_end, nowait=nowait)
                data.aborted_transactions = [AbortedTransaction(producer, first) for producer, first, _ in aborted]
    partition.state, partition.is_unfinished = state, has_more
    return data


def _diverging(log: Log, epoch: int, offset: int) -> FetchResponseEpochEndOffset | None:
    """Return where the log ends that the client has read, if that differs from this one (KIP-595)."""
    end = log.epochs.end_of(epoch, log.next_offset)
    if end is None or offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)
    if end[0] < epoch or end[1] < offset:
        return FetchResponseEpochEndOffset(*end)
    return None
