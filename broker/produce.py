"""Produce: validates the record batches of clients and appends them to the logs.

Follows Kafka's `LogValidator` and `UnifiedLog.append` for one v2 batch per partition. A batch is appended as it came,
with its compression; only base offset, leader epoch and, for LogAppendTime, the time are written into it, all of which
lie outside of the checksum or renew it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

import trio

from offsetfs.broker.error_codes import ErrorCode, code_of
from offsetfs.broker.group_commit import GroupCommit
from offsetfs.broker.metrics import BrokerMetrics
from offsetfs.broker.partitions import Topics
from offsetfs.protocol.messages import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from offsetfs.storage import INTERNAL_TOPICS, Batch, Log, SealedBatch, read_batch
from offsetfs.storage.errors import MalformedBatch, PolicyViolation, StorageError
from offsetfs.storage.records import COLUMNS, KEY_SIZE

_log = logging.getLogger(__name__)

INLINE_BYTES_MAX = 64 << 10
"""Smaller batches are appended on the event loop: a hand-over to a thread costs more than the write."""

_MAGIC = 2
_ZSTD = 4
_ZSTD_VERSION = 7
_TOPIC_IDS_VERSION = 13
_ACKS_ALL = -1


class Refused(Exception):
    """A batch that is not appended. `code` goes to the client, with the text as the message."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Done:
    log: Log
    base_offset: int
    last_offset: int
    append_time: int


class Producing:
    """Answers Produce requests."""

    def __init__(self, topics: Topics, commits: GroupCommit, metrics: BrokerMetrics) -> None:
        self._topics = topics
        self._commits = commits
        self._metrics = metrics

    async def produce(self, request: ProduceRequest, version: int) -> ProduceResponse | None:
        """Append the batches of a request; None where the client wants no answer (acks=0)."""
        response = ProduceResponse()
        self._topics.directory.refresh_config()  # offsetfs config may have changed settings
        appended: list[tuple[_Done, PartitionProduceResponse]] = []
        for topic in request.topic_data:
            name = topic.name if version < _TOPIC_IDS_VERSION else self._topics.name_of(topic.topic_id)
            answer = TopicProduceResponse(name=name or "", topic_id=topic.topic_id)
            response.responses.append(answer)
            for each in topic.partition_data:
                result = PartitionProduceResponse(index=each.index, base_offset=-1, log_append_time_ms=-1)
                answer.partition_responses.append(result)
                try:
                    done = await self._append(name, each, request.acks, version)
                except Refused as error:
                    result.error_code, result.error_message = error.code, str(error)
                except (StorageError, OSError, MemoryError) as error:
                    result.error_code, result.error_message = code_of(error), str(error)
                else:
                    result.base_offset, result.log_append_time_ms = done.base_offset, done.append_time
                    result.log_start_offset = done.log.log_start_offset
                    appended.append((done, result))
        if request.acks == _ACKS_ALL:
            await self._sync(appended)
        return response if request.acks else None

    async def _append(self, topic: str | None, data: PartitionProduceData, acks: int, version: int) -> _Done:
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        if acks not in (-1, 0, 1):
            raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}: must be -1, 0 or 1")
        if topic in INTERNAL_TOPICS:  # a record of a client would become a group or a commit
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by the broker only")
        log = self._topics.log(topic, data.index)
        batch = validated(data.records, log, version)
        header = batch.header
        owned = memoryview(bytearray(batch.data))  # the offsets are written into it
        sealed = SealedBatch(owned, header.count, 0, header.max_timestamp, header.size)
        if header.size <= INLINE_BYTES_MAX:
            appended = log.append(sealed, checks_producer=True)
        else:
            with trio.CancelScope(shield=True):
                appended = await trio.to_thread.run_sync(partial(log.append, sealed, checks_producer=True))
        self._metrics.produced(topic, header.count, header.size)
        is_append_time = log.config.message_timestamp_type == "LogAppendTime"
        return _Done(log, appended.base_offset, appended.last_offset, appended.timestamp if is_append_time else -1)

    async def _sync(self, appended: list[tuple[_Done, PartitionProduceResponse]]) -> None:
        """Wait until all of `appended` is on disk. What is not gets an error: the client sends it again."""

        async def one(done: _Done, result: PartitionProduceResponse) -> None:
            try:
                await self._commits.sync(done.log, done.last_offset + 1)
            except (StorageError, OSError, MemoryError) as error:
                _log.error("sync of %s failed: %s", done.log.path, error)
                result.error_code, result.error_message, result.base_offset = code_of(error), str(error), -1

        async with trio.open_nursery() as nursery:
            for done, result in appended:
                nursery.start_soon(one, done, result)


def validated(records: memoryview | None, log: Log, version: int) -> Batch:
    """Return the one batch in `records`; Refused, PolicyViolation, CorruptBatch or MalformedBatch."""
    if not records:
        raise Refused(ErrorCode.INVALID_RECORD, "no record batch in the request")
    batch = read_batch(records, path=log.path)
    header = batch.header
    if header.magic != _MAGIC:
        raise Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"message format v{header.magic}: only v2 is accepted")
    if header.size != len(records):
        raise Refused(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        reason = f"{header.count} records, and a last offset delta of {header.last_offset_delta}"
        raise Refused(ErrorCode.INVALID_RECORD, reason)
    if header.is_control:
        raise Refused(ErrorCode.INVALID_RECORD, "clients write no control records")
    if header.is_transactional:  # nothing would end the transaction: read_committed consumers would wait forever
        raise Refused(ErrorCode.INVALID_TXN_STATE, "transactions are not supported")
    if header.codec == _ZSTD and version < _ZSTD_VERSION:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce 7 or later")
    if header.size > log.config.max_message_bytes:
        size_max = log.config.max_message_bytes
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.size} bytes; max.message.bytes is {size_max}")
    try:
        _check_records(batch, needs_keys=log.is_compacted)
    except MalformedBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    return batch


def _check_records(batch: Batch, *, needs_keys: bool) -> None:
    """Check that all records are whole: their count, deltas, keys. No object is made for a record."""
    rows = batch.rows()
    if len(rows) // COLUMNS != batch.header.count:
        raise MalformedBatch(f"{len(rows) // COLUMNS} records, and the header says {batch.header.count}")
    if needs_keys and any(size < 0 for size in rows[KEY_SIZE::COLUMNS]):
        raise PolicyViolation("a compacted topic takes no records without a key")
