"""Record batches of clients before they are stored: checks, recompression.

Follows Kafka's `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords` and `LogValidator` for one v2
batch. As in Kafka, a batch is stored as it came unless the topic asks for another compression; a largest timestamp in
the header that is not the largest of the records is corrected, and the checksum renewed. No object is made for a record
of a valid batch. Stricter than Kafka: offset deltas must count from 0, no bytes may follow the batch, each byte of a
compressed record is checked (Kafka's brokers skip some, and store what its consumers refuse), a producer may not set
the time type to LogAppendTime, and what inflates beyond the limits of the engine is too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LOG_APPEND_TIME, Batch, Log, LogConfig, SealedBatch, read_batch
from offsetfs.storage.errors import DecompressionLimit, MalformedBatch
from offsetfs.storage.records import (
    CODECS,
    COLUMNS,
    HEADER_SIZE,
    KEY_SIZE,
    MAGIC,
    MAGIC_END,
    MAGIC_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_DELTA,
    ZSTD,
    Survey,
    declared_size,
    recompressed,
    set_max_timestamp,
)

RECORD_ERRORS_MAX = 1000
"""Records that an answer names, at most. Kafka names all: a batch may have a hundred thousand."""

NAMED_RECORDS_MAX = 1 << 18
"""The largest batch whose records are looked at one by one when some are refused: 64 bytes of memory for each."""

_ZSTD_VERSION = 7

RecordErrors = tuple[tuple[int, str], ...]
"""The numbers of the records that are the cause, and what is wrong with each."""


class Refused(Exception):
    """A batch that is not appended. `code` goes to the client, with the text as the message, and `records`."""

    def __init__(self, code: ErrorCode, reason: str, records: RecordErrors = ()) -> None:
        super().__init__(reason)
        self.code = code
        self.records = records


def one_batch(records: memoryview, version: int, path: str) -> Batch:
    """Return the one v2 batch in `records`. Its checksum is not verified yet. Refused, MalformedBatch."""
    size = len(records)
    # As Kafka, a batch that does not end in the request is none.
    if size < MAGIC_END or size < declared_size(records):
        raise Refused(ErrorCode.INVALID_RECORD, "no whole record batch in the request")
    if records[MAGIC_POSITION] < MAGIC:
        reason = f"message format v{records[MAGIC_POSITION]}: Produce {version} takes v2 only"
        raise Refused(ErrorCode.INVALID_RECORD, reason)
    batch = read_batch(records, path=path, check=False)
    if batch.header.size != size:
        raise Refused(ErrorCode.INVALID_RECORD, "more than one record batch for a partition")
    codec = batch.header.codec
    if codec == ZSTD and version < _ZSTD_VERSION:
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce 7 or later, not {version}")
    if codec >= len(CODECS):
        raise Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no compression codec {codec}")
    return batch


def sealed_batch(batch: Batch, log: Log) -> SealedBatch:
    """Check a client's batch and return it as it is to be appended to `log`: recompressed, if the topic asks for it.

    Refused, CorruptBatch, MalformedBatch.
    """
    config = log.config
    header = batch.header
    _check_size(header.size, config)
    try:
        batch.check()
        _check_header(batch)
        survey = batch.survey()
    except MalformedBatch as error:
        raise Refused(ErrorCode.INVALID_RECORD, error.reason) from None
    except DecompressionLimit as error:  # producers split a batch that is too large
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, error.reason) from None
    _check_records(batch, survey, log)
    _check_inflated_sizes(batch, config.max_decompressed_message_bytes)
    data = batch.data
    if config.compression_type != "producer" and config.compression.codec != header.codec:
        if not config.compression.codec:  # before the inflated records are copied
            _check_size(HEADER_SIZE + len(batch.payload()), config)
        data = memoryview(recompressed(batch, config.compression))
        _check_size(len(data), config)
    elif data.readonly:  # offsets are written into it
        data = memoryview(bytearray(data))
    batch.drop_payload()
    if len(data) > config.segment_bytes:
        reason = f"a batch of {len(data)} bytes; segment.bytes is {config.segment_bytes}"
        raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE, reason)
    if survey.latest != header.max_timestamp and config.message_timestamp_type != LOG_APPEND_TIME:
        set_max_timestamp(data, survey.latest)
    return SealedBatch(data, header.count, 0, survey.latest, len(data))


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        reason = f"a batch of {size} bytes; max.message.bytes is {config.max_message_bytes}"
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, reason)


def _check_header(batch: Batch) -> None:
    header = batch.header
    if header.base_offset:
        raise MalformedBatch(f"a base offset of {header.base_offset}; clients count from 0")
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise MalformedBatch(f"{header.count} records, and a last offset delta of {header.last_offset_delta}")
    if header.is_control:
        raise MalformedBatch("clients write no control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise MalformedBatch(f"a sequence of {header.base_sequence} from producer {header.producer_id}")
    if header.producer_id >= 0 and header.producer_epoch < 0:
        # Kafka appends it. A record without an epoch cannot be fenced, and `verify` reports it as damage.
        raise MalformedBatch(f"an epoch of {header.producer_epoch} from producer {header.producer_id}")


def _check_records(batch: Batch, survey: Survey, log: Log) -> None:
    """Check keys and timestamps. The answer names the records that are wrong."""
    config = log.config
    if log.is_compacted and survey.keyless:
        errors = _named(batch, _keyless(batch, "a compacted topic takes no records without a key"))
        reason = f"{survey.keyless} of {batch.header.count} records have no key; the topic is compacted"
        raise Refused(ErrorCode.INVALID_RECORD, reason, errors)
    if batch.header.timestamp_type == LOG_APPEND_TIME:
        raise Refused(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type to LogAppendTime")
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return
    now = log.clock.now_ms()
    earliest, latest = now - config.timestamp_before_max_ms, now + config.timestamp_after_max_ms
    if survey.earliest < earliest or survey.latest > latest:
        errors = _named(batch, _out_of_time(batch, earliest, latest))
        reason = (
            f"timestamps must lie in [{earliest}, {latest}] "
            "(message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
        )
        raise Refused(ErrorCode.INVALID_TIMESTAMP, reason, errors)


def _check_inflated_sizes(batch: Batch, size_max: int) -> None:
    """Check the records of a compressed batch. Kafka does not count the number of bytes before a record."""
    if not batch.header.codec or len(batch.payload()) <= size_max:
        return
    wrong = ((number, size) for number, size in enumerate(batch.record_sizes()) if size > size_max)
    first = next(wrong, None)
    if first is not None:
        number, size = first
        reason = f"record {number} decompresses to {size} bytes; max.decompressed.message.bytes is {size_max}"
        raise Refused(ErrorCode.INVALID_RECORD, reason)


def _named(batch: Batch, errors: Iterator[tuple[int, str]]) -> RecordErrors:
    return tuple(islice(errors, RECORD_ERRORS_MAX)) if batch.header.count <= NAMED_RECORDS_MAX else ()


def _keyless(batch: Batch, reason: str) -> Iterator[tuple[int, str]]:
    sizes: Sequence[int] = batch.rows()[KEY_SIZE::COLUMNS]
    return ((number, reason) for number, size in enumerate(sizes) if size < 0)


def _out_of_time(batch: Batch, earliest: int, latest: int) -> Iterator[tuple[int, str]]:
    for number, delta in enumerate(batch.rows()[TIMESTAMP_DELTA::COLUMNS]):
        timestamp = batch.timestamp_of(delta)
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            yield number, f"timestamp {timestamp} lies outside of [{earliest}, {latest}]"
