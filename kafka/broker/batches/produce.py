"""Produce: appends the record batches of clients to the logs, and answers when they are as safe as `acks` asks.

    acks    answered when the batch is
    0       nothing is answered; an error closes the connection, as in Kafka, so that the producer notices
    1       in the segment file
    all     on disk, by group commit; in the segment file with `acks_all = "page-cache"`

Batches of usual sizes are appended on the event loop while the disk keeps up, others in threads, those of several
partitions at the same time. An error
concerns its partition only. Several batches for one partition are appended in the order of the request, as if each came
in a request of its own; of these Kafka appends the last one only. With acks=all, a connection goes on with its next
request while appended batches are synced (`response_queue`). `client_batches` has the checks of a batch; the log checks
the sequences of producers. Follows Kafka's `ReplicaManager.appendRecords`.
"""

from __future__ import annotations

import contextlib
import logging
import time
from contextlib import AbstractContextManager
from functools import partial

import trio

from offsetfs.common.loop_watch import LoopAppends
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.batches.client_batches import Refused, one_batch, sealed_batch
from offsetfs.kafka.broker.connections.connection import ProtocolError
from offsetfs.kafka.broker.connections.response_queue import DelayedResponse
from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.errors import code_of, message_of
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.broker.transactions.transaction import BUMPS_EPOCHS, TransactionError
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import TOPIC_IDS_VERSION
from offsetfs.kafka.protocol.messages import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    TopicProduceResponse,
)
from offsetfs.storage import INTERNAL_TOPICS, LOG_APPEND_TIME, Batch, Log, TopicPartition
from offsetfs.storage.errors import DecompressionLimit, MalformedBatch, StorageError
from offsetfs.storage.records import ZSTD, inflation_scope

_log = logging.getLogger(__name__)

INLINE_BYTES_MAX = 64 << 10
"""Smaller batches are appended on the event loop: a hand-over to a thread costs more than the write."""

INLINE_REQUEST_BYTES_MAX = (1 << 20) + 12
"""Larger ones, too, as long as those of a request have no more bytes than the default of `max.message.bytes`: half a
millisecond, in which other clients wait. The hand-over takes a third as long again of processor time."""

INLINE_TURN_S = 0.01
"""The time after a larger batch in which those of other partitions are appended in threads: many of them in one pass of
the event loop would add up."""

INLINE_COMPRESSED_BYTES_MAX = 16 << 10
"""The same for compressed batches, if they inflate to no more than `INLINE_BYTES_MAX`."""

THREADS_MAX = 16
"""Appends that run in threads at the same time, at most: limits the memory for inflated records."""

VERSION_MIN = 3
"""Older versions carry no v2 batches. They are advertised, and refused: librdkafka takes the absence of version 0 for
that of compression (KAFKA-18659)."""

_ABORTABLE_SINCE = 11  # clients know TRANSACTION_ABORTABLE (KIP-890)
_ADDS_PARTITIONS_SINCE = 12  # to the transaction, without AddPartitionsToTxn: clients with transaction.version 2
_TRY_AGAIN = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_NO_LEADER = ProduceResponseLeaderIdAndEpoch()
_ACKS_ALL = -1
_ACKS = (_ACKS_ALL, 0, 1)


class _Append:
    """The append to one partition, and its answer. `log` is None until the batch is appended."""

    __slots__ = ("count", "data", "last_offset", "log", "must_flush", "result", "topic", "transactional_id")

    def __init__(self, topic: str | None, data: PartitionProduceData, transactional_id: str | None) -> None:
        self.topic = topic
        self.data = data
        self.transactional_id = transactional_id
        self.result = PartitionProduceResponse(data.index, base_offset=-1, current_leader=_NO_LEADER)
        self.log: Log | None = None
        self.last_offset = -1
        self.count = 0
        self.must_flush = False
        """Whether `flush.messages` asks for a sync before the answer, whatever acks says."""

    @property
    def is_unsynced(self) -> bool:
        return self.log is not None and self.log.recovery_point <= self.last_offset

    def fail(self, error: Exception) -> None:
        result = self.result
        result.base_offset, result.error_message = -1, message_of(error)
        if isinstance(error, Refused):
            result.error_code = error.code
            result.record_errors.extend(BatchIndexAndErrorMessage(number, reason) for number, reason in error.records)
            return
        result.error_code = code_of(error)
        if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            _log.error("no append to %s-%d: %s", self.topic, self.data.index, error)


class Producing:
    """Answers Produce requests."""

    def __init__(
        self,
        topics: Topics,
        transactions: TransactionCoordinator,
        commits: LogSync,
        settings: ServerSettings,
        metrics: BrokerMetrics,
    ) -> None:
        self._topics = topics
        self._transactions = transactions
        self._commits = commits
        self._metrics = metrics
        self._syncs = settings.acks_all == "disk"
        self._limiter = trio.CapacityLimiter(THREADS_MAX)
        self._loop_appends = LoopAppends()
        self._inline_partition: tuple[str | None, int] = ("", 0)
        self._inline_until = 0.0

    async def produce(self, request: ProduceRequest, version: int) -> ProduceResponse | DelayedResponse | None:
        """Append the batches of a request; None where the client wants no answer (acks=0).

        A `DelayedResponse` when they have to be synced: its connection may go on with the next request.
        """
        refused = _refusal(version) or await self._loaded(request.transactional_id)
        response, appends, slices = ProduceResponse(), list[_Append](), Slices()
        self._topics.directory.refresh_config()  # offsetfs config may have changed settings
        for topic in (topic for topic in request.topic_data if topic.partition_data):
            name = topic.name if version < TOPIC_IDS_VERSION else self._topics.name_of(topic.topic_id)
            answer = TopicProduceResponse(name or "", topic.topic_id)
            response.responses.append(answer)
            for data in topic.partition_data:
                await slices.step()
                append = _Append(name, data, request.transactional_id)
                answer.partition_responses.append(append.result)
                appends.append(append)
        if refused is not None:
            for append in appends:
                append.fail(refused)
        else:
            if request.transactional_id is not None and version >= _ADDS_PARTITIONS_SINCE:
                await self._add_to_transaction(appends, request.transactional_id, version)
            if request.acks not in _ACKS:  # as ReplicaManager.handleProduceAppend, which looks at them after that
                for append in (append for append in appends if not append.result.error_code):
                    reason = f"acks={request.acks}: must be -1, 0 or 1"
                    append.fail(Refused(ErrorCode.INVALID_REQUIRED_ACKS, reason))
            await self._append_all([append for append in appends if not append.result.error_code], version)
            waits = request.acks == _ACKS_ALL and self._syncs
            unsynced = [append for append in appends if append.is_unsynced and (waits or append.must_flush)]
            if unsynced and request.acks:
                return DelayedResponse(partial(self._synced, response, unsynced), _free_records(appends))
        if request.acks:
            return response
        failed = next((append for append in appends if append.result.error_code), None)
        if failed is not None:
            raise ProtocolError(f"acks=0, and an error in {failed.topic}: {failed.result.error_message}")
        return None

    async def _loaded(self, transactional_id: str | None) -> Refused | None:
        """Read what is stored of a transactional id; return the error for a request that is to be sent again."""
        if transactional_id is not None:
            try:
                await self._transactions.current(transactional_id)
            except TransactionError as error:
                return Refused(ErrorCode.NOT_ENOUGH_REPLICAS, f"the state of the transaction: {error.code.name}")
        return None

    async def _add_to_transaction(self, appends: list[_Append], transactional_id: str, version: int) -> None:
        """Add the partitions of transactional batches to the transaction of their producer.

        That is on disk before the first batch: a partition with records of a transaction that does not know it would
        never get a marker.
        """
        added: dict[ProducerEpoch, list[tuple[_Append, TopicPartition]]] = {}
        for append in appends:
            partition = self._transactions.partition(append.topic or "", append.data.index)
            if partition is None or append.topic in INTERNAL_TOPICS:
                continue  # the append refuses it
            with contextlib.suppress(Refused, MalformedBatch):  # the same
                header = one_batch(memoryview(append.data.records or b""), version, str(partition)).header
                producer = ProducerEpoch(header.producer_id, header.producer_epoch)
                if header.is_transactional and not self._transactions.contains(transactional_id, producer, partition):
                    added.setdefault(producer, []).append((append, partition))
        for producer, batches in added.items():
            partitions = {partition for _, partition in batches}
            try:
                await self._transactions.extend(transactional_id, producer, partitions, client_version=BUMPS_EPOCHS)
            except TransactionError as error:
                for append, partition in batches:
                    append.fail(_not_in_transaction(partition, error.code, version))

    async def _append_all(self, appends: list[_Append], version: int) -> None:
        """Append in the order of the request within each partition."""
        slow: dict[tuple[str | None, int], list[_Append]] = {}
        left, slices = INLINE_REQUEST_BYTES_MAX, Slices()
        for append in appends:
            await slices.step()
            key, size = (append.topic, append.data.index), len(append.data.records or b"")
            if key in slow:  # after the batch before it
                slow[key].append(append)
            elif size > INLINE_BYTES_MAX and (size > left or not self._takes_turn(key)):
                slow[key] = [append]
            elif self._append_here(append, version):
                left -= size
            else:
                slow[key] = [append]
        if not slow:
            return
        with trio.CancelScope(shield=True):  # a thread goes on when its task is cancelled
            if len(slow) == 1:
                await self._append_in_threads(slow, version)
            else:
                async with trio.open_nursery() as nursery:
                    for _ in range(min(len(slow), THREADS_MAX)):
                        nursery.start_soon(self._append_in_threads, slow, version)

    def _takes_turn(self, partition: tuple[str | None, int]) -> bool:
        """Return whether a large batch for a partition may be appended on the event loop.

        One partition at a time may, if the disk keeps up.
        """
        now = time.perf_counter()
        if not self._loop_appends.are_quick:
            return False
        if partition != self._inline_partition and now < self._inline_until:
            return False
        self._inline_partition, self._inline_until = partition, now + INLINE_TURN_S
        return True

    def _append_here(self, append: _Append, version: int) -> bool:
        """Append on the event loop, or note the error; return False, unchanged, if that could take long."""
        try:
            log = self._topics.ready(append.topic, append.data.index)
            records = append.data.records
            if log is None and append.topic is not None and append.topic not in INTERNAL_TOPICS:
                self._topics.name(append.topic, append.data.index)  # UnknownPartition, before a task is made for it
            if log is None or records is None or append.topic in INTERNAL_TOPICS:
                return False
            batch = one_batch(memoryview(records), version, log.path)
            if not log.appends_at_once(batch.data) or not _is_quick(batch, log):
                return False
            with self._in_transaction(append, batch, log.partition, version):
                if len(records) > INLINE_BYTES_MAX:
                    self._loop_appends.run(partial(self._append, append, batch, log, version))
                else:
                    self._append(append, batch, log, version)
            self._count(append)
        except (Refused, StorageError, OSError, MemoryError) as error:
            append.fail(error)
        return True

    async def _append_in_threads(self, slow: dict[tuple[str | None, int], list[_Append]], version: int) -> None:
        """Append to one partition after the other. Several of these tasks take them from `slow`."""
        slices = Slices()
        while slow:
            for append in slow.pop(next(iter(slow))):
                await slices.step()  # an append that is refused does not wait
                await self._append_in_thread(append, version)

    async def _append_in_thread(self, append: _Append, version: int) -> None:
        try:
            if append.topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
            if append.topic in INTERNAL_TOPICS:  # a record of a client would become a group or a commit
                raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{append.topic} is written by the broker only")
            partition = self._topics.name(append.topic, append.data.index)
            work = partial(self._open_and_append, append, partition, version)
            batch = one_batch(memoryview(append.data.records or b""), version, str(partition))
            with self._in_transaction(append, batch, partition, version):
                await in_thread(work, limiter=self._limiter)
            self._count(append)
        except (Refused, StorageError, OSError, MemoryError) as error:
            append.fail(error)

    def _in_transaction(
        self, append: _Append, batch: Batch, partition: TopicPartition, version: int
    ) -> AbstractContextManager[None]:
        """Return a context in which the transaction of a batch does not end; Refused if it is not in one."""
        header = batch.header
        if not header.is_transactional:
            return contextlib.nullcontext()
        if append.transactional_id is None:
            reason = "a transactional batch in a request without a transactional id"
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, reason)
        producer = ProducerEpoch(header.producer_id, header.producer_epoch)
        code = self._transactions.verify(append.transactional_id, producer, partition)
        if code != ErrorCode.NONE:
            raise _not_in_transaction(partition, code, version)
        return self._transactions.appending(producer)

    def _open_and_append(self, append: _Append, partition: TopicPartition, version: int) -> None:
        log = self._topics.directory.writable_log(partition)
        with inflation_scope(contextlib.nullcontext):
            batch = one_batch(memoryview(append.data.records or b""), version, log.path)
            self._append(append, batch, log, version)

    @staticmethod
    def _append(append: _Append, batch: Batch, log: Log, version: int) -> None:
        append.result.log_start_offset = log.log_start_offset
        bumps_epochs = version >= _ADDS_PARTITIONS_SINCE
        appended = log.append(sealed_batch(batch, log), checks_producer=True, bumps_epochs=bumps_epochs)
        append.log, append.last_offset, append.count = log, appended.last_offset, batch.header.count
        append.must_flush = log.must_flush
        append.result.base_offset = appended.base_offset
        if log.config.message_timestamp_type == LOG_APPEND_TIME:
            append.result.log_append_time_ms = appended.timestamp

    def _count(self, append: _Append) -> None:
        self._metrics.produced(append.topic or "", append.count, len(append.data.records or b""))

    async def _synced(self, response: ProduceResponse, appends: list[_Append]) -> ProduceResponse:
        """Return the response when all is on disk. What is not gets an error: the client sends it again."""
        by_log: dict[Log | None, list[_Append]] = {}
        for append in appends:
            by_log.setdefault(append.log, []).append(append)
        if len(by_log) == 1:
            await self._sync_log(appends)
            return response
        async with trio.open_nursery() as nursery:
            for of_log in by_log.values():
                nursery.start_soon(self._sync_log, of_log)
        return response

    async def _sync_log(self, appends: list[_Append]) -> None:
        """Sync the log that all of these appends have changed."""
        last = max(appends, key=lambda append: append.last_offset)
        assert last.log is not None
        is_forced = any(append.must_flush for append in appends)
        try:
            await self._commits.sync(last.log, last.last_offset + 1, is_forced=is_forced)
        except (StorageError, OSError, MemoryError) as error:
            for append in appends:
                append.fail(error)


def _free_records(appends: list[_Append]) -> int:
    """Drop the records of a request, which are in the log; return their size."""
    size = 0
    for append in appends:
        size += len(append.data.records or b"")
        append.data.records = None
    return size


def _refusal(version: int) -> Refused | None:
    if version < VERSION_MIN:
        return Refused(ErrorCode.UNSUPPORTED_VERSION, f"Produce {version}; {VERSION_MIN} is the oldest version")
    return None


def _not_in_transaction(partition: TopicPartition, code: ErrorCode, version: int) -> Refused:
    """Return a code of the transaction coordinator as AddPartitionsToTxnManager and ReplicaManager return it."""
    reason = f"{partition} is not in an ongoing transaction of this producer: {code.name}"
    if code in _TRY_AGAIN or (code == ErrorCode.CONCURRENT_TRANSACTIONS and version < _ADDS_PARTITIONS_SINCE):
        code = ErrorCode.NOT_ENOUGH_REPLICAS  # older clients know it as an error that is tried again
    elif code == ErrorCode.INVALID_TXN_STATE and version >= _ABORTABLE_SINCE:
        code = ErrorCode.TRANSACTION_ABORTABLE
    elif code == ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return Refused(code, reason)


def _is_quick(batch: Batch, log: Log) -> bool:
    """Return whether the records are checked without a wait, and are not compressed again."""
    codec = batch.header.codec
    if log.config.compression_type != "producer" and log.config.compression.codec != codec:
        return False
    if not codec:
        return True
    # A zstd frame may ask for a window of 128 MiB, for which the inflation waits.
    if codec == ZSTD or batch.header.size > INLINE_COMPRESSED_BYTES_MAX:
        return False
    try:
        with contextlib.suppress(MalformedBatch):  # reported by the checks
            batch.payload(INLINE_BYTES_MAX)
    except DecompressionLimit:
        return False
    return True
