"""Reads the ranges of one task's split from the log directory, which the task opens itself.

Checksums are verified. An unreadable batch ends the query (FAILFAST), is left out (DROPMALFORMED), or is left out and
reported in a row of its own (PERMISSIVE), as in Spark's file readers. Damage that is left out without a row is logged
as a warning in the standard error of the executor. If retention removed records after the query was planned, that is a
loss, which `failOnDataLoss=false` permits.

Kafka takes any number as the time of a record. Spark cannot hold times before or beyond the microseconds of 64 bits,
which end in the year 294247: Arrow batches have the nearest time, or what the option `timesBeyondSpark` asks for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.pipeline.log_directories import ScanDirectories, opened
from offsetfs.pipeline.read_options import DROPMALFORMED, FAIL, FAILFAST, NULL, PERMISSIVE, ReadOptions
from offsetfs.pipeline.scan_range import DataLoss, Range, ends_of, is_another, lose_topic
from offsetfs.storage import READ_COMMITTED, READ_UNCOMMITTED, LogReader, TopicPartition
from offsetfs.storage.errors import OffsetOutOfRange, StorageError, UnknownPartition
from offsetfs.tables.arrow import CORRUPT, TIME_MAX_MS, TIME_MIN_MS, record_batches

if TYPE_CHECKING:
    from offsetfs.pipeline.decoding import PlannedDecoding
    from offsetfs.schemas.decoding import RecordDecoder

TIMESTAMP = "timestamp"
_LIMITS_US = TIME_MIN_MS * 1000, TIME_MAX_MS * 1000

_log = logging.getLogger(__name__)


class TimeBeyondSpark(ValueError):
    """A record has a time that Spark cannot hold, and `timesBeyondSpark` is `fail`."""


def scan(
    ranges: tuple[Range, ...], options: ReadOptions, schema: pa.Schema, decoding: PlannedDecoding | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the ranges as Arrow batches, in order; with `decoding`, values are decoded.

    Raises `DataLoss`, and at damage, unless `options.mode` says otherwise, `CorruptBatch`, `MalformedBatch`,
    `UnsupportedFormat`, `DecompressionLimit`.
    """
    with opened(options.paths, options.access, ends=ends_of(ranges)) as directory:
        decoder = None if decoding is None else decoding.decoder(directory)
        for part in ranges:
            if is_another(directory.topic_id(part.name), part.topic_id):
                lose_topic(part.name, options)
                continue
            yield from _RangeScan(part, options, schema, decoder).record_batches(directory)


def reader_of(
    directory: ScanDirectories, wanted: Range, options: ReadOptions, on_damage: Callable[[StorageError], None] | None
) -> LogReader:
    """Return the reader of a range, with the query's isolation level. Raises `UnknownPartition`.

    Its iterators raise `DataLoss` where records are gone, unless `failOnDataLoss` is false. `on_damage`: as
    `LogReader` takes it.
    """
    return LogReader(
        directory.log(wanted.name),
        start=wanted.start,
        stop=wanted.end,
        isolation=READ_COMMITTED if options.is_committed_only else READ_UNCOMMITTED,
        on_damage=on_damage,
        on_lost=lambda error: _lost(wanted, error, options),
    )


def log_left_out(name: TopicPartition, error: StorageError) -> None:
    """Log a warning that names the partition, path, position and offset of a batch that a query leaves out."""
    _log.warning("offsetfs: %s: a batch is left out (mode=FAILFAST ends the query instead): %s", name, error)


def _lost(wanted: Range, error: StorageError, options: ReadOptions) -> None:
    if options.fails_on_data_loss:
        raise DataLoss(f"{_loss(wanted, error)}; failOnDataLoss=false goes on")


def _loss(wanted: Range, error: StorageError) -> str:
    if not isinstance(error, OffsetOutOfRange):
        return f"{wanted.name} was deleted while it was read"
    if error.offset is not None and error.offset < error.log_start_offset:
        last = min(error.log_start_offset, wanted.end) - 1
        return f"{wanted.name}: the records from {error.offset} to {last} were removed while it was read"
    return f"{wanted.name}: the log was cut to offset {error.next_offset}, and offset {error.offset} is asked for"


@dataclass(slots=True)
class _RangeScan:
    """The scan of one range."""

    range: Range
    options: ReadOptions
    schema: pa.Schema
    decoder: RecordDecoder | None = None
    faults: list[StorageError] = field(default_factory=list)

    def record_batches(self, directory: ScanDirectories) -> Iterator[pa.RecordBatch]:
        on_fault = None if self.options.mode == FAILFAST else self._leave_out
        try:
            reader = reader_of(directory, self.range, self.options, on_fault)
        except UnknownPartition as error:
            _lost(self.range, error, self.options)
            return
        batches = self._batches(reader, on_fault)
        yield from _with_times(batches, self.range.name, self.options.times_beyond)
        if self.faults and self._has_corrupt_rows:
            yield self._corrupt_rows()

    def _batches(self, reader: LogReader, on_fault: Callable[[StorageError], None] | None) -> Iterator[pa.RecordBatch]:
        decoder, schema = self.decoder, self.schema
        if decoder is None:
            yield from record_batches(reader.slices(), self.range.name, schema, on_fault)
            return
        from offsetfs.pipeline.decoding import decoded_columns, decoders_of, raw_schema

        decoded = decoders_of(schema, decoder)
        scanned = raw_schema(schema, decoded) if decoded else schema
        for batch in record_batches(reader.slices(), self.range.name, scanned, on_fault):
            if not decoded:
                yield batch
                continue
            made = decoded_columns(batch, decoder, schema)
            yield pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)

    def _leave_out(self, error: StorageError) -> None:
        self.faults.append(error)
        # In PERMISSIVE mode with a column for it, the damage is a row; otherwise a log line is its only sign.
        if not self._has_corrupt_rows:
            log_left_out(self.range.name, error)

    @property
    def _has_corrupt_rows(self) -> bool:
        return self.options.mode == PERMISSIVE and CORRUPT in self.schema.names

    def _corrupt_rows(self) -> pa.RecordBatch:
        """Return a row for each fault with its position and reason; other columns are null."""
        assert self.options.mode != DROPMALFORMED
        count = len(self.faults)
        made = {
            "topic": [self.range.topic] * count,
            "partition": [self.range.partition] * count,
            "offset": [fault.offset for fault in self.faults],
            CORRUPT: [str(fault) for fault in self.faults],
        }
        arrays = [pa.array(made.get(field.name, [None] * count), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _with_times(batches: Iterable[pa.RecordBatch], name: TopicPartition, wanted: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches with times as the option wants them; log a warning with their number at the end."""
    count = 0
    for batch in batches:
        beyond = _beyond(batch)
        if beyond is not None:
            if wanted == FAIL:
                raise TimeBeyondSpark(
                    f"{name}: {pc.sum(beyond)} of {batch.num_rows} records have times that Spark cannot hold;"
                    " timesBeyondSpark=null makes them null"
                )
            count += pc.sum(beyond).as_py()
            batch = _with_nulls(batch, beyond) if wanted == NULL else batch
        yield batch
    if count:
        fate = "are null" if wanted == NULL else "are the nearest time that there is (timesBeyondSpark=null or fail)"
        _log.warning("offsetfs: %s: times of %d records that Spark cannot hold %s", name, count, fate)


def _beyond(batch: pa.RecordBatch) -> pa.Array | None:
    """Return which times are beyond the limits; None if there are none."""
    if TIMESTAMP not in batch.schema.names:
        return None
    times = batch.column(TIMESTAMP).cast(pa.int64())
    ends = pc.min_max(times).as_py()
    if ends["min"] is None or (ends["min"] > _LIMITS_US[0] and ends["max"] < _LIMITS_US[1]):
        return None
    return pc.or_(pc.less_equal(times, _LIMITS_US[0]), pc.greater_equal(times, _LIMITS_US[1]))


def _with_nulls(batch: pa.RecordBatch, beyond: pa.Array) -> pa.RecordBatch:
    place = batch.schema.names.index(TIMESTAMP)
    times = pc.if_else(beyond, pa.scalar(None, batch.schema.field(place).type), batch.column(place))
    return batch.set_column(place, batch.schema.field(place), times)
