"""A range of a log, from one offset to another: batches, records, lines.

Batches are whole and their checksums are verified; records and lines begin and end at the offset that was asked for.
Control batches are never shown, nor what the isolation level leaves out. Reading goes on through rolls, retention and
compaction; only where records are gone that were still to come `OffsetOutOfRange` says so.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from offsetfs.storage.errors import OffsetOutOfRange
from offsetfs.storage.partition.isolation import LogView
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import Batch
from offsetfs.storage.records.batch_json import joined_json
from offsetfs.storage.records.record import Record
from offsetfs.storage.records.record_json import line_prefix
from offsetfs.storage.segments.segment_map import Segments


def batches(view: LogView, start: int, stop: int) -> Iterator[Batch]:
    """Yield the batches that reach into `[start, stop)`, but none that begins at or above the end of the view now.

    Raises `OffsetOutOfRange` where the log begins above `start`, `CorruptBatch` and the like at damage, OSError.
    """
    offset, stop = start, min(stop, view.end_offset())
    while offset < stop:
        _check(view.log, offset)
        segments = view.log.snapshot()
        try:
            for batch in _batches(segments, offset, stop):
                offset = batch.header.next_offset
                if view.shows(batch.header):
                    yield batch
            return
        except OSError as error:
            # A segment of this map was removed or replaced before it was opened: the map of now has what is left.
            if error.errno != errno.ESTALE or view.log.snapshot() is segments:
                raise


def _batches(segments: Segments, offset: int, stop: int) -> Iterator[Batch]:
    for segment in segments.from_floor(offset):
        for batch in segment.batches(segment.position_of(offset)):
            if batch.base_offset >= stop:
                return
            if batch.header.last_offset >= offset:
                yield batch


def _check(log: Log, offset: int) -> None:
    if offset < log.log_start_offset:
        raise OffsetOutOfRange(offset, log.log_start_offset, log.next_offset, log.path)


def records(view: LogView, start: int, stop: int) -> Iterator[Record]:
    """Yield the records in `[start, stop)`; raises as `batches`. Costs Python objects: `values` and `ndjson` do not."""
    for batch in batches(view, start, stop):
        for record in batch.records():
            if start <= record.offset < stop:
                yield record


def values(view: LogView, start: int, stop: int) -> Iterator[bytes | bytearray]:
    """Yield the values of `[start, stop)` with a newline behind each, a batch at a time; raises as `batches`."""
    for batch in batches(view, start, stop):
        if start <= batch.base_offset and batch.header.next_offset <= stop:
            yield batch.joined()
        else:
            shown = (record for record in batch.records() if start <= record.offset < stop)
            yield b"".join((record.value or b"") + b"\n" for record in shown)


def ndjson(view: LogView, start: int, stop: int) -> Iterator[bytes | bytearray]:
    """Yield the records in `[start, stop)` as lines of JSON, a batch at a time; raises as `batches`."""
    partition = view.log.partition
    prefix = line_prefix(partition.topic, partition.partition)
    for batch in batches(view, start, stop):
        yield joined_json(batch, prefix, offset_from=start, offset_to=stop)
