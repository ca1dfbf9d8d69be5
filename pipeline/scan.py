"""What one task does: reads the ranges of its split from the log directory, which it opens for itself.

Checksums are verified. What cannot be read ends the query (FAILFAST), is left out (DROPMALFORMED), or is left out and
reported in a row of its own (PERMISSIVE), as Spark's readers of files name these modes. Damage that is left out without
a row is logged as a warning, which is in the standard error of the executor. Where records are gone that were
still there when the query was planned, retention was faster: that is a loss, which `failOnDataLoss=false` permits.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from offsetfs.pipeline.log_directories import LogDirectories, opened
from offsetfs.pipeline.read_options import DROPMALFORMED, FAILFAST, PERMISSIVE, ReadOptions
from offsetfs.pipeline.record_batches import record_batches
from offsetfs.pipeline.scan_range import DataLoss, Range, view_of
from offsetfs.pipeline.schema import CORRUPT
from offsetfs.storage.errors import StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.segments.segment_map import Segments

_log = logging.getLogger(__name__)


def scan(ranges: tuple[Range, ...], options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the records of the ranges as Arrow batches, in order.

    Raises `DataLoss`, and at damage, unless `options.mode` says otherwise, `CorruptBatch`, `MalformedBatch`,
    `UnsupportedFormat`, `DecompressionLimit`.
    """
    with opened(options.paths) as directory:
        for each in ranges:
            try:
                view = view_of(directory, each.name, options)
            except UnknownPartition:
                _lost(f"{each.name} was deleted while it was read", options)
                continue
            yield from _Reading(view, each, options, schema).record_batches()


def batches_of(
    directory: LogDirectories, wanted: Range, options: ReadOptions, on_damage: Callable[[StorageError], None]
) -> Iterator[Batch]:
    """Yield the batches that reach into a range and are shown. Damage ends it, or is reported, by `options.mode`."""
    reading = _Reading(view_of(directory, wanted.name, options), wanted, options, pa.schema([]))
    reported = 0
    for batch in reading.batches():
        while reported < len(reading.faults):
            on_damage(reading.faults[reported])
            reported += 1
        yield batch
    for fault in reading.faults[reported:]:
        on_damage(fault)


def log_left_out(name: TopicPartition, error: StorageError) -> None:
    """Log a warning that names the partition, path, position and offset of a batch that a query leaves out."""
    _log.warning("offsetfs: %s: a batch is left out (mode=FAILFAST ends the query instead): %s", name, error)


def _lost(sentence: str, options: ReadOptions) -> None:
    if options.fails_on_data_loss:
        raise DataLoss(f"{sentence}; failOnDataLoss=false goes on")


@dataclass(slots=True)
class _Reading:
    """One range in the course of being read."""

    view: LogView
    range: Range
    options: ReadOptions
    schema: pa.Schema
    offset: int = field(init=False)
    faults: list[StorageError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.offset = self.range.start

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        start, end, on_fault = self.range.start, self.range.end, None
        if self.options.mode != FAILFAST:
            on_fault = self._leave_out
        yield from record_batches(self.batches(), self.range.name, self.schema, start, end, on_fault)
        if self.faults and self._has_corrupt_rows:
            yield self._corrupt_rows()

    def batches(self) -> Iterator[Batch]:
        """Yield the batches that reach into the range and are shown; goes on when segments are replaced meanwhile."""
        while self.offset < self.range.end:
            self._check_start()
            segments = self.view.log.snapshot()
            try:
                yield from self._in(segments)
                return
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                self.view.log.refresh()
                if self.view.log.is_gone:
                    _lost(f"{self.range.name} was deleted while it was read", self.options)
                    return
                if self.view.log.snapshot() is segments:
                    raise

    def _in(self, segments: Segments) -> Iterator[Batch]:
        for segment in segments.from_floor(self.offset):
            on_damage = None if self.options.mode == FAILFAST else self._note
            for batch in segment.batches(segment.position_of(self.offset), on_damage=on_damage):
                if batch.base_offset >= self.range.end:
                    return
                if batch.header.last_offset >= self.offset:
                    self.offset = batch.header.next_offset
                    if self.view.shows(batch.header):
                        yield batch

    def _check_start(self) -> None:
        first = self.view.log.log_start_offset
        if self.offset < first:
            name, last = self.range.name, min(first, self.range.end)
            _lost(f"{name}: the records from {self.offset} to {last - 1} were removed while it was read", self.options)
            self.offset = first

    def _note(self, error: StorageError, position: int) -> None:
        self._leave_out(error)

    def _leave_out(self, error: StorageError) -> None:
        self.faults.append(error)
        if not self._has_corrupt_rows:
            log_left_out(self.range.name, error)

    @property
    def _has_corrupt_rows(self) -> bool:
        return self.options.mode == PERMISSIVE and CORRUPT in self.schema.names

    def _corrupt_rows(self) -> pa.RecordBatch:
        """Return a row for each fault: where it is, what it is, and nulls."""
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
