"""Finds the batch of an offset in a segment.

An index entry is used only if the batch at its position agrees; otherwise the index is rebuilt from the log. A batch is
used only if it ends where the next batch or segment begins, because the checksum does not cover its offset. If the
chain of batches is broken, `offset_order` searches around the damage.

Follows Kafka's LogSegment.translateOffset, which scans from the index entry and reads the batch afterwards. Most
look-ups here take one read.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from offsetfs.storage.errors import UNREADABLE, CorruptBatch, MalformedBatch, UnsupportedFormat, WouldBlock
from offsetfs.storage.files import File
from offsetfs.storage.names import OFFSET_END
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import HEADER_SIZE, MAGIC, Batch, BatchHeader
from offsetfs.storage.records.format.batch_chain import CheckedBatch
from offsetfs.storage.segments import offset_order
from offsetfs.storage.segments.segment_interfaces import SearchableSegment, SegmentFiles

OFFSET_SIZE = 8

_Found = TypeVar("_Found", Batch, CheckedBatch)
_Taken = TypeVar("_Taken", Batch, CheckedBatch, covariant=True)


class _Take(Protocol[_Taken]):
    """Verifies the batch that was found: `batch_chain.load` or `batch_chain.check`."""

    def __call__(
        self, file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False
    ) -> _Taken: ...


def find(
    segment: SearchableSegment, offset: int, *, offset_end: int | None = None, nowait: bool = False
) -> Batch | None:
    """Return the first batch whose last offset is ≥ `offset`, with its checksum verified; see `Segment.find`."""
    return _search(segment, offset, offset_end, nowait, batch_chain.load)


def find_checked(
    segment: SearchableSegment, offset: int, *, offset_end: int | None = None, nowait: bool = False
) -> CheckedBatch | None:
    """Return what `find` returns, without the bytes of the batch; see `Segment.find_checked`."""

    def check(
        file: File, position: int, header: BatchHeader, seen: memoryview, *, nowait: bool = False
    ) -> CheckedBatch:
        if nowait and len(seen) < header.size and header.magic == MAGIC and segment.is_appended_here(position):
            # To read a batch of a megabyte again took a quarter of the processor time of its Fetch (decision 51).
            if not file.is_cached(position, header.size):
                raise WouldBlock("not in the page cache", path=file.path, position=position)
            return CheckedBatch(header, position, header.base_offset)
        try:
            return batch_chain.check(file, position, header, seen, nowait=nowait)
        except CorruptBatch:
            segment.note_damage()
            raise

    return _search(segment, offset, offset_end, nowait, check)


def _search(
    segment: SearchableSegment, offset: int, offset_end: int | None, nowait: bool, take: _Take[_Found]
) -> _Found | None:
    opened = segment.open_files(nowait=nowait)
    direct: _Found | None = None
    if (end := segment.end_before(offset)) is not None and end[0] < segment.size:
        # A reader that reads on needs no look-up. At the end of a log of small batches, half an index interval is
        # walked otherwise: 65 µs instead of 20.
        direct = _find_at(segment, opened.log, end[0], offset, offset_end, nowait, take, _block_bytes(end[1]))
    direct = direct or _find_directly(segment, opened, offset, offset_end, nowait, take)
    if direct is not None:
        return direct
    position = floor_position(segment, opened, offset, nowait)
    try:
        return _walk_to(segment, opened.log, position, offset, offset_end, nowait, take)
    except UNREADABLE:
        if nowait:
            raise WouldBlock("the search must skip damage", path=segment.log_path) from None
    entry_offset, _ = opened.index.lookup(offset)
    position = floor_position(segment, opened, entry_offset - 1, nowait) if position else 0
    found = offset_order.find_over_damage(
        opened.log, position, segment.size, offset, offset_min=segment.base_offset, offset_end=offset_end
    )
    return None if found is None else take(opened.log, found.position or 0, found.header, found.data)


def _find_directly(
    segment: SearchableSegment,
    opened: SegmentFiles,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: _Take[_Found],
) -> _Found | None:
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
    return _find_at(segment, opened.log, position, offset, offset_end, nowait, take, _block_bytes(space), last_offset)


def _block_bytes(size: int) -> int:
    """Return how much is read at the begin of a batch of this size, 0 if it is not known."""
    if not size:
        return batch_chain.PROBE_BYTES
    # Nothing is gained by the first bytes of a large batch.
    return HEADER_SIZE if size > batch_chain.PROBE_BYTES else size + OFFSET_SIZE


def _find_at(
    segment: SearchableSegment,
    log: File,
    position: int,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: _Take[_Found],
    block_bytes: int,
    last_offset: int | None = None,
) -> _Found | None:
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


def _walk_to(
    segment: SearchableSegment,
    log: File,
    position: int,
    offset: int,
    offset_end: int | None,
    nowait: bool,
    take: _Take[_Found],
) -> _Found | None:
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
            found = take(log, batch_position, header, seen, nowait=nowait)
            if found.base_offset > offset:
                if passed is None:  # a compacted log, or batches that a misdirected write put at the start
                    raise MalformedBatch(
                        f"offset {found.base_offset} is too high for the first batch",
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
            return found
        passed = batch_position, header, seen
    if passed is not None:
        take(log, *passed, nowait=nowait)
    return None


def ends_in_order(
    segment: SearchableSegment,
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


def reading_position(segment: SearchableSegment, offset: int, nowait: bool) -> int:
    """Return where a reader of `offset` and what follows begins; see `Segment.reading_position`.

    The batch before the first one that reaches the offset is read again where that one begins above it: headers are
    not verified here, and a damaged one may say that its batch ends too early.
    """
    if offset <= segment.base_offset:
        return 0
    opened = segment.open_files(nowait=nowait)
    before = floor_position(segment, opened, offset, nowait)
    for position, header, _ in batch_chain.walk(opened.log, before, segment.size, nowait=nowait):
        if header.last_offset >= offset:
            return position if header.base_offset <= offset else before
        before = position
    return before


def floor_position(segment: SearchableSegment, opened: SegmentFiles, offset: int, nowait: bool) -> int:
    """Return the position where a scan for `offset` starts: that of the index entry, if the batch there agrees."""
    entry_offset, position = opened.index.lookup(offset)
    if position == 0 or agrees(segment, opened.log, entry_offset, position, offset, nowait):
        return position
    # An index entry that disagrees never changes an answer. It costs a scan: once in a sealed segment, because its
    # indexes are rebuilt; at each look-up in the segment that is open for appends, until its next opening checks them.
    opened = segment.rebuild_indexes(nowait=nowait)
    entry_offset, position = opened.index.lookup(offset)
    return position if agrees(segment, opened.log, entry_offset, position, offset, nowait) else 0


def agrees(segment: SearchableSegment, log: File, entry_offset: int, position: int, offset: int, nowait: bool) -> bool:
    """Whether a batch begins at `position` whose offsets agree with the index entry.

    Before 0.11 the entry of a compressed set had the offset of its first record, which is known only after
    decompression. The set is decompressed if that matters: if it ends after `offset`, and may be the one that is
    searched for.
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
