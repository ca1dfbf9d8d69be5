"""Compaction: of the records of a key only the latest stays, and that of a deleted key goes after a time.

A round goes twice over the log. The first walk takes the dirty part (`compaction_range`) and puts every key with its
latest offset into a map of bounded size. When that is full the round ends there, and the next begins where it ended.
The second walk takes everything up to there, in groups of neighbouring segments that together fit one, and copies what
is to stay (`offset_map`, `compaction_filter`). Each group is swapped in, crash-safe, before the next is begun.

    a record stays     behind what the map has seen, or when no later record of the map has its key
    a tombstone        stays for `delete.retention.ms` after the first round that met it as the latest (KIP-534)
    without a key      goes

Offsets never change; what goes leaves a gap. At any moment, and after a crash at any moment, the last value of every
key is there. A damaged batch ends the round before anything of its segment is touched: nothing is ever left out because
it cannot be read. Memory: the map, a megabyte each for reading and writing or as much as the largest batch has, and
what that inflates to. Follows Kafka's LogCleaner and Cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsetfs.storage.compaction import legacy_filter as compaction_legacy
from offsetfs.storage.compaction.batch_filter import BatchFilter
from offsetfs.storage.compaction.block_reader import BLOCK_BYTES, BlockReader
from offsetfs.storage.compaction.cleaned_transactions import CleanedTransactions
from offsetfs.storage.compaction.dirty_range import DirtyRange, find_dirty_range, most_dirty
from offsetfs.storage.compaction.offset_map import FULL, NO_ROOM, OTHER, SLOT_SIZE, Filter, Indexer, OffsetMap
from offsetfs.storage.compaction.segment_writer import BUFFER_BYTES, SegmentWriter
from offsetfs.storage.compaction.throttle import Throttle, unlimited
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import MAGIC, Batch
from offsetfs.storage.records.batch_header import Buffer
from offsetfs.storage.segments.segment import LOG_BYTES_MAX, Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX

__all__ = ["CompactionResult", "DirtyRange", "Throttle", "clean", "find_dirty_range", "groups", "most_dirty"]

MAP_BYTES = 128 << 20
LOAD_FACTOR = 0.9

_TIMESTAMP_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a round did. The checkpoint of the partition is to say `end_offset`: the log is clean up to there."""

    end_offset: int
    is_complete: bool
    """Whether all of the dirty part was taken; else the map was full."""

    keys: int
    bytes_indexed: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    records_without_key: int
    segments_before: int
    segments_after: int
    seconds: float


def clean(
    log: Log,
    range: DirtyRange,
    *,
    now_ms: int,
    map_bytes: int = MAP_BYTES,
    load_factor: float = LOAD_FACTOR,
    throttle: Throttle | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> CompactionResult:
    """Compact `log` as far as `range` and the map of `map_bytes` bytes allow. What was done is on disk after return.

    Raises `CorruptBatch`, `MalformedBatch`, `UnsupportedFormat`, `DecompressionLimit` for a batch that cannot be read:
    the partition is to be left alone from then on. `CompactionCancelled` once `is_cancelled` says so, which is asked
    every megabyte; `SegmentsChanged` when the log was truncated meanwhile; `LogFenced`, `ReadOnlyLog`, OSError. Groups
    of segments that were swapped in by then stay, the others are as they were, and no file is left over; the next round
    does it again.
    """
    started = log.clock.monotonic()
    with log.changing():
        pass  # what an unfinished round left behind goes with the first change: before there is anything of this one
    work = _Round(log, range, now_ms, map_bytes, load_factor, throttle or unlimited(), is_cancelled)
    done = work.run()
    return replace(done, seconds=log.clock.monotonic() - started)


class _Round:
    """One round over one log."""

    def __init__(
        self,
        log: Log,
        range: DirtyRange,
        now_ms: int,
        map_bytes: int,
        load_factor: float,
        throttle: Throttle,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.log = log
        self.range = range
        self.now_ms = now_ms
        self.throttle = throttle
        self.is_cancelled = is_cancelled
        self.segments = log.snapshot()
        self.map = OffsetMap(_map_bytes(range, map_bytes, load_factor), load_factor)
        self.block = bytearray(BLOCK_BYTES)
        self.buffer = bytearray(BUFFER_BYTES)
        self.bytes_indexed = self.bytes_read = self.bytes_written = 0

    def run(self) -> CompactionResult:
        is_complete = self._index()
        end_offset = self.map.latest_offset + 1
        tombstones_gone_ms = self._legacy_horizon_ms()
        walk = _Rewriting(self, tombstones_gone_ms)
        before = after = 0
        sealed = self._segments_below(min(end_offset, self.range.first_uncleanable))
        for group in groups(sealed, self.range.first_uncleanable):
            before += len(group)
            after += walk.rewrite(group)
        records = walk.records
        return CompactionResult(
            end_offset=end_offset,
            is_complete=is_complete,
            keys=self.map.count,
            bytes_indexed=self.bytes_indexed,
            bytes_read=self.bytes_read,
            bytes_written=self.bytes_written,
            records_read=records.records_read,
            records_kept=records.records_kept,
            records_without_key=records.records_without_key,
            segments_before=before,
            segments_after=after,
            seconds=0.0,
        )

    def _segments_below(self, offset: int) -> list[Segment]:
        return [segment for segment in self.segments if segment.base_offset < offset]

    def _legacy_horizon_ms(self) -> int:
        """Return the time before which a segment must have been changed for its tombstones of v0 and v1 to go."""
        clean_part = self._segments_below(self.range.first_dirty)
        if not clean_part:
            return 0
        return clean_part[-1].modified_ns // 1_000_000 - self.log.config.delete_retention_ms

    def source(self, segment: Segment, position: int = 0) -> BlockReader:
        return BlockReader(segment, position, self.throttle, self.is_cancelled, self.block)

    def end_of(self, segment: Segment) -> int:
        """Return the offset below which all batches of a sealed segment lie: where the next begins."""
        return next(s.base_offset for s in self.segments.from_floor(segment.base_offset + 1) if s is not segment)

    # --- the first walk ----------------------------------------------------------------------------------------------

    def _index(self) -> bool:
        """Put the dirty part into the map; False when that is full before the end."""
        begin, end = self.range.first_dirty, self.range.first_uncleanable
        if begin >= end:
            self.map.latest_offset = begin - 1
            return True
        indexer, transactions = Indexer(self.map, begin), CleanedTransactions(self.log)
        transactions.enter(begin, end)
        for segment in self.segments.from_floor(begin):
            if segment.base_offset >= end:
                break
            if not self._index_segment(segment, indexer, transactions):
                return False
            self.map.latest_offset = self.end_of(segment) - 1  # a gap at its end must not hold up the next round
        return True

    def _index_segment(self, segment: Segment, indexer: Indexer, transactions: CleanedTransactions) -> bool:
        position = segment.position_of(max(self.range.first_dirty, segment.base_offset))
        source = self.source(segment, position)
        end = self.end_of(segment)
        indexer.expect(segment.base_offset, end)
        try:
            while source.more():
                status = OTHER
                while status == OTHER:
                    source.start, status = indexer.run(source.block, source.start, source.end)
                    if status == FULL:
                        return False
                    if status == OTHER:
                        batch = source.batch()
                        _check_place(batch, indexer.floor, end)
                        if not _index_batch(batch, indexer, transactions):
                            return False
                        source.start += batch.header.size
        finally:
            self.bytes_indexed += source.bytes_read
        return True


class _Rewriting:
    """The second walk of a round: all its groups share what is known of transactions."""

    def __init__(self, round: _Round, tombstones_gone_ms: int) -> None:
        log, now_ms = round.log, round.now_ms
        self._round = round
        self._tombstones_gone_ms = tombstones_gone_ms
        producers = log.producers()
        # No record goes for the sake of a later one that a power cut could take. And gaps lie below the recovery point:
        # what is missing behind it is what a power cut took.
        log.flush()
        log.context.before_change()
        log.context.save_recovery_point(log.recovery_point)
        horizon_ms = min(now_ms + log.config.delete_retention_ms, _TIMESTAMP_MAX)
        last_offsets = {producer_id: entry.last_offset for producer_id, entry in producers.items()}
        self.records = Filter(round.map, round.range.first_uncleanable, now_ms, horizon_ms, last_offsets)
        self._transactions = CleanedTransactions(log)
        self._batches = BatchFilter(self.records, self._transactions, producers, now_ms, horizon_ms)

    def rewrite(self, group: Sequence[Segment]) -> int:
        """Write a group of segments anew and put what comes of it in their place; return the number of segments."""
        round = self._round
        output = SegmentWriter(group[0], group[0].base_offset, round.throttle, round.buffer)
        self._transactions.seen_aborted.clear()
        try:
            for segment in group:
                self._copy(segment, output)
            new = output.finish(self._transactions.seen_aborted, group[-1].modified_ns)
            round.log.replace_segments(new, group)
        except BaseException:
            output.discard()
            raise
        finally:
            round.bytes_written += output.bytes_written
        return len(new)

    def _copy(self, segment: Segment, output: SegmentWriter) -> None:
        round, records = self._round, self.records
        end = round.end_of(segment)
        tombstones_stay = segment.modified_ns // 1_000_000 > self._tombstones_gone_ms
        self._transactions.enter(segment.base_offset, end)
        records.expect(segment.base_offset, end)
        output.expect(end, segment.size)
        source = round.source(segment)
        try:
            while source.more():
                status = OTHER
                while status in (OTHER, NO_ROOM):
                    source.start, output.used, status = records.run(
                        source.block, source.start, source.end, output.buffer, output.used
                    )
                    if status == NO_ROOM:
                        output.make_room(_room(records.room_needed))
                    elif status == OTHER:
                        batch = source.batch()
                        _check_place(batch, records.floor, end)
                        output.put(self._filtered(batch, tombstones_stay))
                        source.start += batch.header.size
        finally:
            round.bytes_read += source.bytes_read

    def _filtered(self, batch: Batch, tombstones_stay: bool) -> Buffer:
        if batch.header.magic < MAGIC:
            return compaction_legacy.filtered(batch, self.records, tombstones_stay)
        kept = self._batches.filtered(batch)
        self.records.passed(batch.header.last_offset)
        return kept


def _index_batch(batch: Batch, indexer: Indexer, transactions: CleanedTransactions) -> bool:
    """Put the keys of a batch that the compiled walk did not take; False when the map is full."""
    header = batch.header
    if header.magic < MAGIC:
        return compaction_legacy.index(batch, indexer)
    if header.is_control:
        transactions.discards_marker(batch)
    elif not transactions.discards(header):
        return indexer.add(batch.payload(), header.count, header.base_offset, header.last_offset_delta)
    indexer.passed(header.last_offset)
    return True


def _check_place(batch: Batch, floor: int, limit: int) -> None:
    """Raise `MalformedBatch` for a batch that cannot be where it stands: its checksum does not cover its offset."""
    header = batch.header
    first = header.last_offset if header.is_wrapper else header.base_offset
    if not floor <= first <= header.last_offset < limit:
        reason = f"offsets {first} to {header.last_offset} where [{floor}, {limit}) is left"
        raise MalformedBatch(reason, path=batch.path, position=batch.position, offset=header.base_offset)


def _room(size: int) -> int:
    if size > LOG_BYTES_MAX:
        raise MalformedBatch(f"a batch that gets {size} bytes long with a delete horizon")
    return size


def _map_bytes(range: DirtyRange, map_bytes: int, load_factor: float) -> int:
    """Return what the map needs at the most: no more keys than offsets are dirty. A small map stays in the cache."""
    offsets = max(range.first_uncleanable - range.first_dirty, 1)
    return min(map_bytes, (int(offsets / load_factor) + 2) * SLOT_SIZE)


def groups(segments: Sequence[Segment], first_uncleanable: int) -> Iterator[list[Segment]]:
    """Yield neighbouring segments that become one: together they keep to what a segment, and its indexes, may have."""
    group: list[Segment] = []
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else first_uncleanable
        if group and not _joins(group, segment, end):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _joins(group: Sequence[Segment], segment: Segment, end: int) -> bool:
    """Whether a segment, which ends below the offset `end`, may join the group."""
    config = segment.config
    every = [*group, segment]
    if sum(each.size for each in every) > config.segment_bytes:
        return False
    index_bytes, time_bytes = zip(*(_index_bytes(each) for each in every), strict=True)
    if max(sum(index_bytes), sum(time_bytes)) > config.segment_index_bytes:
        return False
    return segment.size == 0 or end - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX


def _index_bytes(segment: Segment) -> tuple[int, int]:
    opened = segment.open_files()
    return 8 * opened.index.count, 12 * opened.time_index.count
