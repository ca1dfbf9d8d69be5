"""Compaction: keeps only the latest record of each key, and removes deleted keys after a delay.

A round scans the log twice. The first scan reads the dirty part (`dirty_range`) and stores each key with its latest
offset in a map of bounded size. If the map is full, the round ends there, and the next one continues there. The second
scan reads everything up to that offset, in groups of adjacent segments that together fit into one, and copies the
records to keep (`offset_map`, `batch_filter`). Each group is swapped in, crash-safe, before the next is started.

    a record stays     if it lies above the offsets in the map, or no later record in the map has its key
    a tombstone        stays for `delete.retention.ms` after the first round that found it to be the latest (KIP-534)
    without a key      is removed

Offsets never change; removed records leave gaps. At any time, also after a crash, the last value of every key is in the
log. A damaged batch ends the round before its segment is changed, so that no record is removed because it cannot be
read. Memory: the map, a megabyte each for reading and writing (or the size of the largest batch), and the decompressed
batch. Follows Kafka's LogCleaner and Cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsetfs.storage.compaction import legacy_filter as compaction_legacy
from offsetfs.storage.compaction.batch_filter import BatchFilter
from offsetfs.storage.compaction.block_reader import BLOCK_BYTES, BlockReader
from offsetfs.storage.compaction.cleaned_transactions import CleanedTransactions
from offsetfs.storage.compaction.dirty_range import DirtyRange, find_dirty_range, most_dirty
from offsetfs.storage.compaction.offset_map import FULL, NO_SPACE, OTHER, SLOT_SIZE, Filter, Indexer, OffsetMap
from offsetfs.storage.compaction.segment_writer import BUFFER_BYTES, SegmentWriter
from offsetfs.storage.compaction.throttle import Throttle, unlimited
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition import changes
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import MAGIC, Batch
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.segments.segment import LOG_BYTES_MAX, Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.units import I64_MAX

__all__ = ["CompactionResult", "DirtyRange", "Throttle", "clean", "find_dirty_range", "groups", "most_dirty"]

MAP_BYTES = 128 << 20
LOAD_FACTOR = 0.9


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a round. The caller records `end_offset` in the checkpoint: the log is clean below it."""

    end_offset: int
    is_complete: bool
    """Whether the whole dirty part was compacted; False if the map was full."""

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
    """Compact `log` as far as `range` and a map of `map_bytes` bytes allow. Durable on return.

    Raises `CorruptBatch`, `MalformedBatch`, `UnsupportedFormat` or `DecompressionLimit` for a batch that cannot be
    read; the partition should not be compacted again until it changes. Raises `CompactionCancelled` if `is_cancelled`
    returns True, which is checked every megabyte; `SegmentsChanged` if the log was truncated meanwhile; `LogFailed`,
    `ReadOnlyLog`, OSError. Groups that were already swapped in stay; other segments are unchanged, and no file is left
    over. The next round repeats the rest.
    """
    started = log.clock.monotonic()
    with log.changing():
        pass  # removes leftover files of an unfinished round, before this round creates its own
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
        # One segment map for the round: segments that roll during the round belong to the next one.
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
        """Return the time before which a segment must have been modified for its v0 and v1 tombstones to be removed."""
        clean_part = self._segments_below(self.range.first_dirty)
        if not clean_part:
            return 0
        # v0 and v1 have no delete horizon, so the time of the file stands for it, as in Kafka's Cleaner.doClean.
        return clean_part[-1].modified_ns // 1_000_000 - self.log.config.delete_retention_ms

    def source(self, segment: Segment, position: int = 0) -> BlockReader:
        return BlockReader(segment, position, self.throttle, self.is_cancelled, self.block)

    def end_of(self, segment: Segment) -> int:
        """Return the offset below which all batches of a sealed segment lie: the base offset of the next one."""
        return next(s.base_offset for s in self.segments.from_floor(segment.base_offset + 1) if s is not segment)

    # --- the first walk ----------------------------------------------------------------------------------------------

    def _index(self) -> bool:
        """Store the keys of the dirty part in the map; return False if the map was full before its end."""
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
            self.map.latest_offset = (
                self.end_of(segment) - 1
            )  # a gap at the end of the segment must not stop the next round here
        return True

    def _index_segment(self, segment: Segment, indexer: Indexer, transactions: CleanedTransactions) -> bool:
        position = segment.position_of(max(self.range.first_dirty, segment.base_offset))
        source = self.source(segment, position)
        end = self.end_of(segment)
        indexer.set_bounds(segment.base_offset, end)
        try:
            while source.more():
                status = OTHER
                while status == OTHER:
                    source.start, status = indexer.run(source.block, source.start, source.end)
                    # The keys that fit are compacted; the next round begins at the first key that did not
                    # (Cleaner.buildOffsetMap).
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
    """The second scan of a round. All groups share the state of transactions."""

    def __init__(self, round: _Round, tombstones_gone_ms: int) -> None:
        log, now_ms = round.log, round.now_ms
        self._round = round
        self._tombstones_gone_ms = tombstones_gone_ms
        producers = log.producers()
        # The order of these writes: a record may only be removed if the later record of its key survives a power cut,
        # so the log is synced first. The recovery point must lie above the gaps, because recovery takes a gap above it
        # for a loss.
        log.flush()
        log.context.before_change()
        log.context.save_recovery_point(log.recovery_point)
        horizon_ms = min(now_ms + log.config.delete_retention_ms, I64_MAX)
        last_offsets = {producer_id: entry.last_offset for producer_id, entry in producers.items()}
        self.records = Filter(round.map, round.range.first_uncleanable, now_ms, horizon_ms, last_offsets)
        self._transactions = CleanedTransactions(log)
        self._batches = BatchFilter(self.records, self._transactions, producers, now_ms, horizon_ms)

    def rewrite(self, group: Sequence[Segment]) -> int:
        """Rewrite a group of segments and swap in the result; return the number of new segments."""
        round = self._round
        output = SegmentWriter(group[0], group[0].base_offset, round.throttle, round.buffer)
        self._transactions.seen_aborted.clear()
        try:
            for segment in group:
                self._copy(segment, output)
            new = output.finish(self._transactions.seen_aborted, group[-1].modified_ns)
            changes.replace_segments(round.log, new, group)
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
        records.set_bounds(segment.base_offset, end)
        output.set_bounds(end, segment.size)
        source = round.source(segment)
        try:
            while source.more():
                status = OTHER
                while status in (OTHER, NO_SPACE):
                    source.start, output.used, status = records.run(
                        source.block, source.start, source.end, output.buffer, output.used
                    )
                    if status == NO_SPACE:
                        output.make_space(_with_horizon_size(records.space_needed))
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
        self.records.advance_to(batch.header.last_offset)
        return kept


def _index_batch(batch: Batch, indexer: Indexer, transactions: CleanedTransactions) -> bool:
    """Store the keys of a batch that the compiled code did not take; return False if the map is full."""
    header = batch.header
    if header.magic < MAGIC:
        return compaction_legacy.index(batch, indexer)
    if header.is_control:
        transactions.discards_marker(batch)
    elif not transactions.discards(header):
        return indexer.add(batch.payload(), header.count, header.base_offset, header.last_offset_delta)
    indexer.advance_to(header.last_offset)
    return True


def _check_place(batch: Batch, floor: int, limit: int) -> None:
    """Raise `MalformedBatch` if a batch's offset is impossible at its position; the checksum does not cover it."""
    header = batch.header
    first = header.last_offset if header.is_wrapper else header.base_offset
    if not floor <= first <= header.last_offset < limit:
        reason = f"offsets {first} to {header.last_offset} where [{floor}, {limit}) is left"
        raise MalformedBatch(reason, path=batch.path, position=batch.position, offset=header.base_offset)


def _with_horizon_size(size: int) -> int:
    if size > LOG_BYTES_MAX:
        raise MalformedBatch(f"a batch that gets {size} bytes long with a delete horizon")
    return size


def _map_bytes(range: DirtyRange, map_bytes: int, load_factor: float) -> int:
    """Return the size that the map needs at most: one key per dirty offset.

    A small map fits into the processor cache.
    """
    offsets = max(range.first_uncleanable - range.first_dirty, 1)
    # A look-up in a map of 128 MiB misses the processor caches each time.
    return min(map_bytes, (int(offsets / load_factor) + 2) * SLOT_SIZE)


def groups(segments: Sequence[Segment], first_uncleanable: int) -> Iterator[list[Segment]]:
    """Yield groups of adjacent segments that fit into one segment, with its indexes."""
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
    """Whether a segment that ends below the offset `end` fits into the group."""
    config = segment.config
    every = [*group, segment]
    if sum(segment.size for segment in every) > config.segment_bytes:
        return False
    index_bytes, time_bytes = zip(*(_index_bytes(segment) for segment in every), strict=True)
    # As Cleaner.groupSegmentsBySize: otherwise the merged segment could not be indexed.
    if max(sum(index_bytes), sum(time_bytes)) > config.segment_index_bytes:
        return False
    # KAFKA-6264: merging sparse segments beyond 2³¹ offsets made segments that a broker refuses.
    return segment.size == 0 or end - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX


def _index_bytes(segment: Segment) -> tuple[int, int]:
    opened = segment.open_files()
    return 8 * opened.index.count, 12 * opened.time_index.count
