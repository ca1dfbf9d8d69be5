"""Verification of a long log by several workers: each inspects a chunk, and one worker combines the results.

Checksums and batch contents take most of the time, and can be checked without the preceding batches. The other checks
(offsets, producers, epochs, indexes) need all batches in order, but only their headers:

    inspect_chunk          checks a chunk: damaged ranges, faults inside batches, where the next batch begins
    SegmentInspection.of   joins the chunks of one log, if they are contiguous
    batches_to_verify      the scan of a log; reads only headers of inspected ranges

The findings are the same as those of a single scan. A chunk begins where an index says that a batch begins. If a chunk
does not end where the next one begins (the index was wrong, or damage crosses the border), if the log has old formats,
or if the file was replaced meanwhile, the inspection is ignored and the whole log is scanned.

`split_valid` is the fast path: it finds the batches without findings. `offsetfs.storage.reference.valid_batches` has
the docstring of `valid_until`, which is compiled or in Python.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptBatch, CorruptIndex, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.native import select
from offsetfs.storage.records.columns.row_walk import Rows
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, MAGIC, PAYLOAD_BYTES_MAX, Batch, parse_header
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.units import I32_MAX
from offsetfs.storage.verify.batches import Fault, batch_faults
from offsetfs.storage.verify.walk import OnBreak, sound_rows

if TYPE_CHECKING:
    from offsetfs.storage.reference import valid_batches as _valid_batches
else:
    _valid_batches = select("valid_batches")

valid_until = _valid_batches.valid_until


def split_valid(rows: Rows, inflated_bytes_max: int) -> Iterator[tuple[Rows, bool]]:
    """Yield all batches in order: consecutive valid ones together, each other batch alone, with a flag for valid."""
    block, start = rows.block
    first = 0
    while first < len(rows):
        behind = valid_until(block, start, rows.numbers, first, inflated_bytes_max)
        is_valid = behind > first
        yield rows.part(first, max(behind, first + 1)), is_valid
        first = max(behind, first + 1)


_NO_LIMIT = I32_MAX + 1

DamagedRange = tuple[int, int, str, int | None]
"""A range without valid batches: its start, its end, the reason, and the offset if known."""

BatchWithFaults = tuple[int, list[Fault], int]
"""A valid batch with faults: its position, the faults, the number of its records."""

InspectedBatch = tuple[Batch, list[Fault], int]
"""A valid batch, its faults, the number of its records."""


@dataclass(frozen=True, slots=True)
class InspectedChunk:
    """The inspection of bytes `[start, end)` of a log file, as plain values that JSON can represent."""

    inode: int
    start: int
    end: int
    breaks: list[DamagedRange]
    faulty: list[BatchWithFaults]


def chunk_starts(directory: str, base: int, size: int, chunk_bytes: int) -> list[int]:
    """Return where chunks of about `chunk_bytes` begin in a log of `size` bytes; [0] if it should not be divided."""
    starts = [0]
    try:
        index = OffsetIndex.open(
            os.path.join(directory, segment_name(base, ".index")), base, bytes_max=_NO_LIMIT, followed=True
        )
    except (CorruptIndex, OSError):
        return starts
    while size - starts[-1] > chunk_bytes + chunk_bytes // 2:
        entry = index.upper_bound((base, starts[-1]), chunk_bytes)
        if entry is None or not starts[-1] < entry[1] < size:
            break
        starts.append(entry[1])
    index.close()
    return starts


def inspect_chunk(
    path: str, start: int, stop: int | None, *, inflated_bytes_max: int = PAYLOAD_BYTES_MAX
) -> InspectedChunk | None:
    """Inspect the batches that begin in `[start, stop)`; without `stop`, to the end of the file.

    Returns None if the log holds old formats or cannot be read.
    """
    breaks: list[DamagedRange] = []
    faulty: list[BatchWithFaults] = []
    end = start

    def on_break(error: StorageError, position: int, following: int) -> None:
        nonlocal end
        breaks.append((position, following, error.reason, error.offset))
        end = following

    try:
        with files.open_file(path) as log:
            status = log.stat()
            for rows in sound_rows(log, status.st_size, on_break, start=start, stop=stop):
                if rows.numbers[chain.MAGIC_BYTE] != MAGIC:
                    return None
                faulty += _faulty(rows, path, inflated_bytes_max)
                end = rows.end
    except OSError:
        return None
    return InspectedChunk(status.st_ino, start, end, breaks, faulty)


def _faulty(rows: Rows, path: str, inflated_bytes_max: int) -> Iterator[BatchWithFaults]:
    for part, is_valid in split_valid(rows, inflated_bytes_max):
        if not is_valid:
            batch = part.whole_batch(0, path)
            faults, count = batch_faults(batch, inflated_bytes_max)
            if faults or count != batch.header.count:
                yield part.position, faults, count


@dataclass(frozen=True, slots=True)
class SegmentInspection:
    """The inspection of a log file from its beginning to `end`."""

    inode: int
    end: int
    breaks: dict[int, DamagedRange]
    faulty: dict[int, BatchWithFaults]

    @classmethod
    def of(cls, chunks: Sequence[InspectedChunk | None]) -> SegmentInspection | None:
        """Join the chunks of one log, in their order; return None if they are not contiguous."""
        end = 0
        breaks: dict[int, DamagedRange] = {}
        faulty: dict[int, BatchWithFaults] = {}
        for chunk in chunks:
            if chunk is None or chunk.start != end or (chunks[0] and chunk.inode != chunks[0].inode):
                return None
            end = chunk.end
            breaks.update((entry[0], entry) for entry in chunk.breaks)
            faulty.update((entry[0], entry) for entry in chunk.faulty)
        return None if chunks[0] is None else cls(chunks[0].inode, end, breaks, faulty)

    def known(self, log: File, on_break: OnBreak) -> Generator[InspectedBatch, None, int]:
        """Yield the inspected batches, reading only headers, and whole markers; return where they end.

        An invalid tail is left out, because it may have been completed meanwhile.
        """
        position = 0
        while position < self.end:
            broken = self.breaks.get(position)
            if broken is not None:
                _, following, reason, offset = broken
                if following >= self.end:
                    break
                on_break(CorruptBatch(reason, path=log.path, position=position, offset=offset), position, following)
                position = following
                continue
            batch = _read_header(log, position)
            _, faults, count = self.faulty.get(position, (position, [], batch.header.count))
            yield batch, faults, count
            position += batch.header.size
        return position


def batches_to_verify(
    log: File, size: int, on_break: OnBreak, inspected: SegmentInspection | None
) -> Iterator[InspectedBatch | Rows]:
    """Yield the valid batches in the first `size` bytes; each is valid until the next one.

    `Rows` are yet to be inspected.
    """
    position = 0
    if inspected is not None and inspected.inode == log.stat().st_ino and inspected.end <= size:
        position = yield from inspected.known(log, on_break)
    yield from sound_rows(log, size, on_break, start=position)


def _read_header(log: File, position: int) -> Batch:
    """Return an inspected batch without its records, unless it is a marker."""
    head = log.read(position, HEADER_SIZE)
    header = parse_header(head, path=log.path, file_position=position)
    data = log.read(position, header.size) if header.is_control else head
    return Batch(header, memoryview(data), log.path, position)
