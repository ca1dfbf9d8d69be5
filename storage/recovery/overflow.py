"""Splits segments whose offsets do not fit their indexes: more than 2³¹−1 above the base offset.

Old brokers created such segments when their cleaner merged sparse segments (KAFKA-6264). No index can hold an entry for
those offsets, so look-ups there are slow, and a broker refuses the segment.

    0.log [ 0 1 … 2³¹−1 | 2³¹ … ]        becomes        0.log [ 0 1 … 2³¹−1 ]   2147483648.log [ 2³¹ … ]

A flipped bit in an offset, which no checksum covers, looks the same for a single batch. So the offsets must rise to the
end of the segment and stay below the next segment. In the last segment, a single such batch at the end is not trusted.

The new segments are swapped in (`swap`), so that after a crash either the old segment or the new ones are visible. They
keep the modification time of the old one. Follows Kafka's UnifiedLog.splitOverflowedSegment. If even the first batch
does not fit, Kafka renames the segment. Here an empty segment keeps the old base offset, so that an interrupted swap
covers the segment that it replaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptIndex, OffsetBeyondSegment, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.names import OFFSET_MAX, segment_name, segment_offset_max
from offsetfs.storage.partition import swap
from offsetfs.storage.partition.log_end import end_of_chain
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import chain
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.segments.segment_indexes import IndexBuilder
from offsetfs.storage.segments.transaction_index import SUFFIX, TransactionIndex

MEANING = "has offsets too large for its indexes; it will be split"

_COPY_BYTES = 1 << 20


@dataclass(slots=True)
class _Part:
    """A new segment: bytes `[start, end)` of the old segment, with offsets below `offset_end`."""

    base_offset: int
    start: int
    end: int
    builder: IndexBuilder
    offset_end: int = OFFSET_MAX


def find(segments: Sequence[Segment], end: int) -> Segment | None:
    """Return an overflowed segment of a log that ends at `end`, or None. Reads only segments that may overflow."""
    for segment, behind in zip(segments, [*(later.base_offset for later in segments[1:]), end], strict=True):
        if not _exceeds(segment, behind) or not _exceeds(segment, end_of_chain(segment)):
            continue
        if is_overflowed(segment, None if segment is segments[-1] else behind):
            return segment
    return None


def _exceeds(segment: Segment, end: int | None) -> bool:
    """Whether offsets below `end` are too large for the segment. None means that the end is unknown."""
    return end is not None and end - 1 - segment.base_offset > RELATIVE_OFFSET_MAX


def is_overflowed(segment: Segment, next_base_offset: int | None) -> bool:
    """Whether the whole segment is valid, and some of its offsets are too far above its base. Reads the whole segment.

    `next_base_offset`: the base offset of the next segment, None for the last one.
    """
    offset_max = OFFSET_MAX if next_base_offset is None else next_base_offset - 1
    beyond = 0
    try:
        with files.open_file(segment.log_path) as log:
            for rows in row_walk.sound_rows(
                log, 0, segment.size, offset_min=segment.base_offset, offset_max=offset_max
            ):
                beyond += sum(_exceeds(segment, end) for end in rows.next_offsets())
    except StorageError:
        return False
    # A single batch too high at the end of the log is more likely a flipped bit than an overflow: no next segment
    # contradicts it.
    return beyond > (1 if next_base_offset is None else 0)


def split(segment: Segment) -> list[str]:
    """Replace an overflowed segment with segments that can index all their offsets.

    Durable on return. Returns the paths of the old files, renamed to `.deleted`. The caller removes them. As long as
    they exist, recovery knows that gaps between the segments are not losses (`PendingSwaps.reaches`). Raises OSError:
    then the segment is unchanged, or the next opening completes the swap.
    """
    parts = _parts(segment)
    bases = [part.base_offset for part in parts]
    # Retention uses the time of the file where records have no timestamp.
    modified_ns = files.status(segment.log_path).st_mtime_ns
    try:
        with files.open_file(segment.log_path) as log:
            for part in parts:
                _write(segment, log, part, modified_ns)
    except OSError:
        swap.discard(segment.directory, bases)
        raise
    segment.pool.drop(segment)
    return swap.replace(segment.directory, bases, [segment.base_offset])


def _parts(segment: Segment) -> list[_Part]:
    interval = segment.config.index_interval_bytes
    parts = [_Part(segment.base_offset, 0, 0, IndexBuilder(segment.base_offset, interval))]
    with files.open_file(segment.log_path) as log:
        while (base := _fill(log, parts[-1], segment.size)) is not None:
            parts[-1].offset_end = base
            parts.append(_Part(base, parts[-1].end, parts[-1].end, IndexBuilder(base, interval)))
    for part in parts:
        part.builder.finish()
    return parts


def _fill(log: File, part: _Part, size: int) -> int | None:
    """Assign the batches that fit to `part`; return the base offset of the first batch that does not fit, or None."""
    offset_max = segment_offset_max(part.base_offset)
    try:
        for rows in row_walk.sound_rows(log, part.start, size, offset_min=part.base_offset, offset_max=offset_max):
            numbers = rows.numbers[:]
            for at in range(chain.POSITION, len(numbers), chain.COLUMNS):
                numbers[at] -= part.start
            part.builder.add_rows(numbers)
            part.end = rows.end
    except OffsetBeyondSegment as error:
        return error.offset
    return None


def _write(segment: Segment, log: File, part: _Part, modified_ns: int) -> None:
    """Write the files of a part as `.cleaned`. Their contents are synced, their names are not."""
    path = os.path.join(segment.directory, segment_name(part.base_offset, ".log" + swap.CLEANED))
    with files.created(path) as file:
        for position in range(part.start, part.end, _COPY_BYTES):
            file.write(position - part.start, log.read(position, min(_COPY_BYTES, part.end - position)))
        file.sync()
    files.set_modified(path, modified_ns)
    content = {".index": bytes(part.builder.offsets), ".timeindex": bytes(part.builder.times)}
    aborted = b"".join(_aborted(segment, part))
    if aborted:
        content[SUFFIX] = aborted
    swap.write_cleaned(segment.directory, part.base_offset, content)


def _aborted(segment: Segment, part: _Part) -> Iterator[bytes]:
    """Yield the entries of the transaction index that belong to a part: those whose markers lie in it."""
    try:
        index = TransactionIndex.read(segment.path(SUFFIX), segment.base_offset)
    except (OSError, CorruptIndex):
        return  # rebuilt from the log on the next look-up
    for entry in index.entries:
        if part.base_offset <= entry.last_offset < part.offset_end:
            yield entry.pack()
