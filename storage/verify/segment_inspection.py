"""Verifying a long log by several: each looks into a stretch of it, one puts together what they found.

What takes time is checksums and what is inside of batches, and neither has to know what stands before. The rest
(offsets, producers, epochs, indexes) is told of all batches in their order, but asks for headers only:

    inspect              a stretch, by anybody: what is not sound, what is wrong inside, where the next batch begins
    Inspected.of         the stretches of one log, if they join
    looked_into          the walk over a log; of what is known it reads headers

Findings are the same as those of one walk. A stretch begins where an index says that a batch does. Where one does not
end at the beginning of the next (the index was wrong, or damage lies across the cut), where the log holds old formats,
or is another one by now, nothing is taken as known, and the log is walked through as ever.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.errors import CorruptBatch, CorruptIndex, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.names import segment_name
from offsetfs.storage.records import chain
from offsetfs.storage.records.batch import HEADER_SIZE, MAGIC, PAYLOAD_BYTES_MAX, Batch, parse_header
from offsetfs.storage.records.row_walk import Rows
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.verify.batches import Fault, batch_faults
from offsetfs.storage.verify.valid_batches import split_valid
from offsetfs.storage.verify.walk import OnBreak, sound_rows

_NO_LIMIT = 1 << 31

DamagedRange = tuple[int, int, str, int | None]
"""Bytes that are no sound batch: where they begin, where the next one does, why, the offset if it is known."""

BatchWithFaults = tuple[int, list[Fault], int]
"""A sound batch to which there is something to say: its position, the faults, the number of its records."""

InspectedBatch = tuple[Batch, list[Fault], int]
"""A sound batch, what is wrong in it, the number of its records."""


@dataclass(frozen=True, slots=True)
class InspectedChunk:
    """What is known of `[start, end)` of a log file; plain values, which JSON can carry."""

    inode: int
    start: int
    end: int
    breaks: list[DamagedRange]
    odd: list[BatchWithFaults]


def chunk_starts(directory: str, base: int, size: int, stretch_bytes: int) -> list[int]:
    """Return where stretches of about `stretch_bytes` begin in a log of `size` bytes; [0] when it is not to be cut."""
    starts = [0]
    try:
        index = OffsetIndex.open(
            os.path.join(directory, segment_name(base, ".index")), base, bytes_max=_NO_LIMIT, followed=True
        )
    except (CorruptIndex, OSError):
        return starts
    while size - starts[-1] > stretch_bytes + stretch_bytes // 2:
        entry = index.upper_bound((base, starts[-1]), stretch_bytes)
        if entry is None or not starts[-1] < entry[1] < size:
            break
        starts.append(entry[1])
    index.close()
    return starts


def inspect_chunk(
    path: str, start: int, stop: int | None, *, inflated_bytes_max: int = PAYLOAD_BYTES_MAX
) -> InspectedChunk | None:
    """Look into the batches that begin in `[start, stop)`, to the end of the file without `stop`.

    Return None where that is no use: the log holds old formats, or cannot be read.
    """
    breaks: list[DamagedRange] = []
    odd: list[BatchWithFaults] = []
    end = start

    def on_break(error: StorageError, position: int, following: int) -> None:
        nonlocal end
        breaks.append((position, following, error.reason, error.offset))
        end = following

    try:
        with files.opened(path) as log:
            status = log.stat()
            for rows in sound_rows(log, status.st_size, on_break, start=start, stop=stop):
                if rows.numbers[chain.MAGIC_BYTE] != MAGIC:
                    return None
                odd += _odd(rows, path, inflated_bytes_max)
                end = rows.end
    except OSError:
        return None
    return InspectedChunk(status.st_ino, start, end, breaks, odd)


def _odd(rows: Rows, path: str, inflated_bytes_max: int) -> Iterator[BatchWithFaults]:
    for part, is_quiet in split_valid(rows, inflated_bytes_max):
        if not is_quiet:
            batch = part.whole_batch(0, path)
            found, count = batch_faults(batch, inflated_bytes_max)
            if found or count != batch.header.count:
                yield part.position, found, count


@dataclass(frozen=True, slots=True)
class SegmentInspection:
    """What is known of a log file from its beginning to `end`."""

    inode: int
    end: int
    breaks: dict[int, DamagedRange]
    odd: dict[int, BatchWithFaults]

    @classmethod
    def of(cls, stretches: Sequence[InspectedChunk | None]) -> SegmentInspection | None:
        """Return what the stretches of one log come to, in their order; None when they do not join."""
        end = 0
        breaks: dict[int, DamagedRange] = {}
        odd: dict[int, BatchWithFaults] = {}
        for stretch in stretches:
            if stretch is None or stretch.start != end or (stretches[0] and stretch.inode != stretches[0].inode):
                return None
            end = stretch.end
            breaks.update((each[0], each) for each in stretch.breaks)
            odd.update((each[0], each) for each in stretch.odd)
        return None if stretches[0] is None else cls(stretches[0].inode, end, breaks, odd)

    def known(self, log: File, on_break: OnBreak) -> Generator[InspectedBatch, None, int]:
        """Yield the batches that are known, reading headers only, and markers whole; return where they end.

        A tail that was not sound is left out: by now it may be.
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
            batch = _headed(log, position)
            _, found, count = self.odd.get(position, (position, [], batch.header.count))
            yield batch, found, count
            position += batch.header.size
        return position


def batches_to_verify(
    log: File, size: int, on_break: OnBreak, inspected: SegmentInspection | None
) -> Iterator[InspectedBatch | Rows]:
    """Yield the sound batches in the first `size` bytes, each valid until the next is asked for; `Rows` are to be
    looked into."""
    position = 0
    if inspected is not None and inspected.inode == log.stat().st_ino and inspected.end <= size:
        position = yield from inspected.known(log, on_break)
    yield from sound_rows(log, size, on_break, start=position)


def _headed(log: File, position: int) -> Batch:
    """Return a batch that was found sound, of whose records nobody asks again, but of a marker's."""
    head = log.read(position, HEADER_SIZE)
    header = parse_header(head, path=log.path, file_position=position)
    data = log.read(position, header.size) if header.is_control else head
    return Batch(header, memoryview(data), log.path, position)
