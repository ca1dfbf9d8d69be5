"""Fetch: whole record batches from an offset on, as ranges of segment files that are sent without being copied.

Follows Kafka's `ReplicaManager.fetchMessages` for consumers: at least one batch even above the limits; an answer at
once for an error or when `min_bytes` are there, else after an append or `max_wait_ms`. Fetch sessions (KIP-227) are not
kept: the session id 0 makes clients send full requests.
"""

from __future__ import annotations

import math
from functools import partial

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.metrics import BrokerMetrics, waiting
from offsetfs.broker.partitions import Topics
from offsetfs.protocol.messages import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchRequestFetchPartition,
    FetchRequestFetchTopic,
    FetchResponse,
    FetchResponsePartitionData,
)
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError, WouldBlock

RESPONSE_BYTES_MAX = 55 << 20
"""Kafka's `fetch.max.bytes`: the size of a response, whatever the client asks for."""

_TOPIC_IDS_VERSION = 13
_READ_COMMITTED = 1
_NO_SESSION = 0
_SESSION_ENDS = -1


class Fetching:
    """Answers Fetch requests."""

    def __init__(self, topics: Topics, metrics: BrokerMetrics) -> None:
        self._topics = topics
        self._metrics = metrics

    async def fetch(self, request: FetchRequest, version: int) -> FetchResponse:
        """Return the batches that the request asks for; wait for `min_bytes`, at most `max_wait_ms`."""
        if request.session_id != _NO_SESSION and request.session_epoch not in (_NO_SESSION, _SESSION_ENDS):
            # Of another broker, or of this one before it was restarted.
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        deadline = trio.current_time() + max(request.max_wait_ms, 0) / 1000
        while True:
            growth = [event for topic in request.topics for event in self._growth(topic, version)]
            response, size, has_errors = await self._collect(request, version)
            left = deadline - trio.current_time()
            if size >= request.min_bytes or has_errors or left <= 0:
                self._count(response)
                return response
            del response  # holds files open
            with waiting():
                await _any_of(growth, left)

    def _count(self, response: FetchResponse) -> None:
        for topic in response.responses:
            size = sum(each.records.size for each in topic.partitions if each.records)
            if size:
                self._metrics.fetched(topic.topic, size)

    def _topic(self, topic: FetchRequestFetchTopic, version: int) -> str | None:
        return topic.topic if version < _TOPIC_IDS_VERSION else self._topics.name_of(topic.topic_id)

    def _growth(self, topic: FetchRequestFetchTopic, version: int) -> list[trio.Event]:
        name = self._topic(topic, version)
        if name is None:
            return []
        # Only what exists: an event for every name that clients invent would stay in memory.
        found = [self._topics.find(name, each.partition) for each in topic.partitions]
        return [self._topics.growth(each) for each in found if each is not None]

    async def _collect(self, request: FetchRequest, version: int) -> tuple[FetchResponse, int, bool]:
        """Return a response with what is there, its bytes of batches, and whether a partition has an error."""
        response, size, has_errors = FetchResponse(), 0, False
        response_max = min(request.max_bytes, RESPONSE_BYTES_MAX)
        is_committed = request.isolation_level == _READ_COMMITTED
        for topic in request.topics:
            name = self._topic(topic, version)
            answer = FetchableTopicResponse(topic=name or topic.topic, topic_id=topic.topic_id)
            response.responses.append(answer)
            for each in topic.partitions:
                bytes_max = min(each.partition_max_bytes, response_max - size)
                data = await self._partition(name, each, bytes_max, is_first=not size, is_committed=is_committed)
                answer.partitions.append(data)
                size += data.records.size if data.records else 0
                has_errors |= data.error_code != ErrorCode.NONE
        return response, size, has_errors

    async def _partition(
        self,
        topic: str | None,
        wanted: FetchRequestFetchPartition,
        bytes_max: int,
        *,
        is_first: bool,
        is_committed: bool,
    ) -> FetchResponsePartitionData:
        """Return the batches of one partition. The first one of a response is there whatever its size is."""
        data = FetchResponsePartitionData(
            partition_index=wanted.partition, high_watermark=-1, aborted_transactions=None
        )
        data.records = b""
        if topic is None:
            data.error_code = ErrorCode.UNKNOWN_TOPIC_ID
            return data
        try:
            log = self._topics.log(topic, wanted.partition)
            if not _is_epoch_known(log, wanted.current_leader_epoch):
                data.error_code = ErrorCode.UNKNOWN_LEADER_EPOCH
                return data
            work = partial(
                _fill, data, log, wanted.fetch_offset, bytes_max, is_first=is_first, is_committed=is_committed
            )
            try:
                work(nowait=True)
            except WouldBlock:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(partial(work, nowait=False))
        except (StorageError, OSError, MemoryError) as error:
            data.error_code, data.records, data.aborted_transactions = code_of(error), b"", None
        return data


def _is_epoch_known(log: Log, epoch: int) -> bool:
    return epoch <= max(log.leader_epoch, 0)


def _fill(
    data: FetchResponsePartitionData,
    log: Log,
    offset: int,
    bytes_max: int,
    *,
    is_first: bool,
    is_committed: bool,
    nowait: bool,
) -> None:
    stable = log.last_stable_offset(nowait=nowait)
    data.log_start_offset, data.high_watermark, data.last_stable_offset = log.log_start_offset, log.next_offset, stable
    end = stable if is_committed else log.next_offset
    found = log.find_range(offset, bytes_max, offset_end=end, needs_one=is_first, nowait=nowait)
    if found is not None:
        data.records = found
        if is_committed:
            aborted = log.aborted(offset, found.offset_end, nowait=nowait)
            data.aborted_transactions = [AbortedTransaction(producer, first) for producer, first, _ in aborted]
    elif is_committed:
        data.aborted_transactions = []


async def _any_of(events: list[trio.Event], timeout_s: float) -> None:
    """Return when one of the events is set, or after `timeout_s`."""
    with trio.move_on_after(timeout_s if timeout_s < math.inf else 0):
        async with trio.open_nursery() as nursery:

            async def wait(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            for event in events:
                nursery.start_soon(wait, event)
            await trio.sleep_forever()
