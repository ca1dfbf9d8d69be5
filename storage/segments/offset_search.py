"""The steps of `Segment.find`: tries of a place, and walks to the batch of an offset.

An index entry is used only if the batch at its position agrees; otherwise the index is rebuilt from the log. A batch is
used only if it ends where the next batch or segment begins, because the checksum does not cover its offset. If the
chain of batches is broken, `offset_order` searches around the damage.

Follows Kafka's LogSegment.translateOffset, which scans from the index entry and reads the batch afterwards. Most
look-ups here take one read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from offsetfs.storage.errors import UNREADABLE, MalformedBatch, UnsupportedFormat
from offsetfs.storage.files import File
from offsetfs.storage.names import OFFSET_END
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, Batch, BatchHeader
from offsetfs.storage.records.format.batch_chain import CheckedBatch

if TYPE_CHECKING:
    from offsetfs.storage.segments.segment import Segment
    from offsetfs.storage.segments.segment_files import SegmentFiles

OFFSET_SIZE = 8

Found = TypeVar("Found", Batch, CheckedBatch)
Taken = TypeVar("Taken", Batch, CheckedBatch, covariant=True)


class Take(Protocol[Taken]):
    """Verifies the batch that was found: `batch_chain.load`, or `Segment.check_batch`."""

    def __call__(
        self, file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False
    ) -> Taken: ...


def find_directly(
    segment: Segment,
    opened: SegmentFiles,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: Take[Found],
) -> Found | None:
    """Return the batch of an index entry that holds `offset`: the entry's own offset, or one in a large batch.

    An entry has the last offset of its batch, so an offset between two entries is in the batch of the later one, unless
    small batches lie between them. Takes one read instead of three, of no more bytes than lie before the next entry.
    The offset of the next batch is checked as well, because an index built from a damaged log has entries for misplaced
    batches. None means that the slow search is needed.
    """
    entries = opened.index.around(offset)
    # An entry for the offset itself, or a large batch between two entries, needs one read instead of an index look-up,
    # a scan and a read.
    if entries[0][0] != offset or entries[0][1] <= 0:
        before = entries.pop(0)[1]
        if not entries or entries[0][1] - before < 2 * segment.config.index_interval_bytes or entries[0][1] <= 0:
            return None
    last_offset, position = entries[0]
    space = max(entries[1][1] - position, HEADER_SIZE) if len(entries) > 1 else batch_chain.PROBE_BYTES
    return find_at(segment, opened.log, position, offset, offset_end, nowait, take, block_bytes_of(space), last_offset)


def block_bytes_of(size: int) -> int:
    """Return how much is read at the begin of a batch of this size, 0 if it is not known."""
    if not size:
        return batch_chain.PROBE_BYTES
    # Nothing is gained by the first bytes of a large batch.
    return HEADER_SIZE if size > batch_chain.PROBE_BYTES else size + OFFSET_SIZE


def find_at(
    segment: Segment,
    log: File,
    position: int,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: Take[Found],
    block_bytes: int,
    last_offset: int | None = None,
) -> Found | None:
    """Return the batch at `position` if it holds `offset` and ends with `last_offset`, or begins with `offset` where
    that is not known; else None.
    """
    try:
        header, seen = batch_chain.header_at(log, position, segment.size, block_bytes, nowait=nowait)
        # No checksum covers the base offset: a flipped bit there would return another batch for this offset.
        if last_offset is None:
            holds = header.base_offset == offset and not header.is_wrapper
        else:
            holds = header.base_offset <= offset <= header.last_offset == last_offset and not header.is_wrapper
        if holds and ends_in_order(segment, log, position, header, seen, offset_end, nowait):
            return take(log, position, header, seen, nowait=nowait)
    except (MalformedBatch, UnsupportedFormat):
        pass  # a wrong entry or a damaged batch: the slow search determines which
    return None


def walk_to(
    segment: Segment,
    log: File,
    position: int,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: Take[Found],
) -> Found | None:
    """Scan from `position` on; raise if the chain is broken or offsets do not rise, because then no offset is trusted.

    If no batch holds the offset, the batch before it is verified as well, because a damaged header can hide its end.
    """
    passed: tuple[int, BatchHeader, memoryview] | None = None
    for batch_position, header, seen in batch_chain.headers(log, position, segment.size, nowait=nowait):
        # A damaged last offset delta made a batch reach over the ones behind it, and their look-ups failed.
        if passed is not None and header.base_offset <= passed[1].last_offset:
            raise MalformedBatch(
                f"offset {header.base_offset} is too low at this position", path=log.path, position=batch_position
            )
        if header.last_offset >= offset:
            batch = take(log, batch_position, header, seen, nowait=nowait)
            if batch.base_offset > offset:
                if passed is None:  # a compacted log, or batches that a misdirected write put at the start
                    raise MalformedBatch(
                        f"offset {batch.base_offset} is too high for the first batch",
                        path=log.path,
                        position=batch_position,
                    )
                take(log, *passed, nowait=nowait)
            if not ends_in_order(segment, log, batch_position, header, seen, offset_end, nowait):
                raise MalformedBatch(
                    f"{header.last_offset} is not the last offset before the next batch",
                    path=log.path,
                    position=batch_position,
                )
            return batch
        passed = batch_position, header, seen
    if passed is not None:
        take(log, *passed, nowait=nowait)
    return None


def ends_in_order(
    segment: Segment,
    log: File,
    batch_position: int,
    header: BatchHeader,
    seen: memoryview,
    offset_end: int | None,
    nowait: bool,
) -> bool:
    """Whether the next batch, and the next segment at `offset_end`, begin where this batch ends.

    `seen`: bytes of the log file from `batch_position` on.
    """
    behind, following = batch_position + header.size, offset_end
    if behind + OFFSET_SIZE <= segment.size:
        begins = seen[header.size : header.size + OFFSET_SIZE]
        if len(begins) < OFFSET_SIZE:
            begins = memoryview(log.read(behind, OFFSET_SIZE, nowait=nowait))
        following = min(int.from_bytes(begins, "big"), OFFSET_END if offset_end is None else offset_end)
    return following is None or following > header.last_offset


def agrees(segment: Segment, log: File, entry_offset: int, position: int, offset: int, nowait: bool) -> bool:
    """Whether a batch begins at `position` whose offsets agree with the index entry.

    Before 0.11 the entry of a compressed set had the offset of its first record, which is known only after
    decompression. The set is decompressed if that matters: if it ends after `offset`, and may contain
    `offset`.
    """
    if not 0 <= position < segment.size or entry_offset > offset:  # the second condition detects an unsorted index
        return False
    try:
        header, seen = batch_chain.header_at(log, position, segment.size, HEADER_SIZE, nowait=nowait)
        if header.is_wrapper and header.last_offset > offset:
            first = batch_chain.load(log, position, header, seen, nowait=nowait).base_offset
        else:
            first = header.base_offset
    except UNREADABLE:
        return False
    return segment.base_offset <= first <= (offset if header.is_wrapper else entry_offset)
