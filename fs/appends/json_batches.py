"""Encodes JSON lines into the open batches of one partition, or of all partitions of a topic at once.

One call of compiled code encodes lines in order, each into the batch of its key's partition. It requests the batch of a
partition at the first record for it, and the next batch when that is full. So the cost of a call depends on its lines,
not on the number of partitions. A call stops at a wrong line, or if a new batch needs memory or a place in a queue that
is not free. The accepted lines are always a prefix of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from offsetfs.fs.appends.batches import AppendBatch
from offsetfs.fs.appends.framing import Taken
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.storage import Log
from offsetfs.storage.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    TIMESTAMP_MAX,
    BatchCursor,
    JsonRules,
    JsonSpread,
    spread_json,
)


class FillableBatch(Protocol):
    """The open batch of one partition, as this module fills it; see `Accumulator` for what each member does."""

    @property
    def values_as_text(self) -> bool: ...

    @property
    def log(self) -> Log: ...

    @property
    def open_batch(self) -> AppendBatch | None: ...

    def must_wait(self, writer: Writer) -> bool: ...

    def begin_if_free(self, size: int) -> AppendBatch | None: ...

    def begin_anew(self, size: int) -> bool: ...

    def note(self, writer: Writer, count: int, size: int, given: int, timestamp: int) -> None: ...

    def seal(self) -> None: ...

    def seal_unless_lingering(self) -> None: ...


class SplitResult(NamedTuple):
    """The result of `split`. `partition`: the partition without a free buffer; -1 if it stopped for another reason."""

    taken: Taken
    touched: set[int]
    """The partitions whose batches records may have come into."""
    partition: int = -1


def split(
    accumulators: Sequence[FillableBatch],
    writers: Sequence[Writer],
    keyless: int,
    data: bytes | bytearray,
    start: int,
    end: int,
    timestamp: int,
    *,
    honors_partition: bool = False,
) -> SplitResult:
    """Append the lines of `data[start:end]` to the partitions of one topic; as `Accumulator.split_json`.

    The caller has called `check` of each. `writers` are those of one handle, one for each partition. Records without a
    key go to number `keyless`; with `honors_partition` those that name their `partition` go there.
    """
    rules, open_batches = _rules(accumulators[0], timestamp, honors_partition), _OpenBatches(accumulators, writers)
    none: list[BatchCursor | None] = [None] * len(accumulators)
    taken, full = Taken(start), -1
    while start < end:
        # A writer with acknowledgments gets the timestamp of each record, so each call encodes one line.
        until = data.index(b"\n", start) + 1 if writers[0].wants_offsets else end
        open_batches.given.clear()
        spread = spread_json(data, start, until, none, keyless, rules, open_batches.cursor_for)
        open_batches.grown(spread, spread.start - start)
        start = spread.start
        taken = Taken(start, fault=spread.fault)
        if spread.record_bytes:
            needed = HEADER_SIZE + spread.record_bytes
            if not open_batches.begin(spread.partition, needed):
                taken, full = Taken(start, needed), spread.partition
        if taken.fault is not None or full >= 0:
            break
    for number in open_batches.touched:
        accumulators[number].seal_unless_lingering()
    return SplitResult(taken, open_batches.touched, full)


class _OpenBatches:
    """The open batch of each partition, as compiled code fills it."""

    def __init__(self, accumulators: Sequence[FillableBatch], writers: Sequence[Writer]) -> None:
        self._accumulators = accumulators
        self._writers = writers
        self.given: set[int] = set()
        """The partitions whose open batch this call of compiled code has."""
        self.touched: set[int] = set()
        """The partitions whose batches records may have come into, in any call."""

    def cursor_for(self, number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        """Return a batch for a record. None if there is none now, or only if other batches are sealed.

        The first call for a partition returns the open batch, later calls a new one.
        """
        accumulator, writer = self._accumulators[number], self._writers[number]
        if filled is not None:
            self._take_over(number, filled)
        if accumulator.must_wait(writer):
            return None
        batch = accumulator.open_batch
        if batch is not None and number in self.given:
            accumulator.seal()
            if writer.code is not None:  # the append at once failed: no record may follow the gap
                return None
            batch = None
        if batch is None:
            batch = accumulator.begin_if_free(HEADER_SIZE + record_bytes)
        if batch is None:
            return None
        self.given.add(number)
        self.touched.add(number)
        return batch.builder.cursor

    def grown(self, spread: JsonSpread, given: int) -> None:
        """Update the open batches after a call that consumed `given` bytes of lines."""
        batches = [self._accumulators[number].open_batch for number in spread.cursors]
        sizes = [batch.builder.size for batch in batches if batch is not None]
        growth = sum(cursor.position for cursor in spread.cursors.values()) - sum(sizes)
        for number, cursor in spread.cursors.items():
            self._take_over(number, cursor, given / growth)

    def _take_over(self, number: int, cursor: BatchCursor, given_per_byte: float = 1.0) -> None:
        """Continue the open batch of a partition at `cursor`. `given_per_byte`: bytes of lines per byte of records."""
        accumulator = self._accumulators[number]
        batch = accumulator.open_batch
        assert batch is not None
        builder = batch.builder
        count, size = builder.count, builder.size
        builder.grown(cursor)
        given = max(1, int((builder.size - size) * given_per_byte))
        accumulator.note(self._writers[number], count, size, given, cursor.max_timestamp)

    def begin(self, number: int, size: int) -> bool:
        """Queue the batch of a partition, and start one for a record of `size`. False if that is not possible now."""
        accumulator, writer = self._accumulators[number], self._writers[number]
        if accumulator.must_wait(writer):
            return False
        accumulator.seal()
        self.touched.add(number)
        # If the batch was appended at once and failed, no record may follow the gap.
        return writer.code is None and accumulator.begin_anew(size)


def _rules(accumulator: FillableBatch, now_ms: int, honors_partition: bool) -> JsonRules:
    """Return the current rules. With LogAppendTime a record may have any timestamp, because the log replaces it."""
    log, config = accumulator.log, accumulator.log.config
    earliest: int = NO_TIMESTAMP
    latest = TIMESTAMP_MAX
    if config.message_timestamp_type == "CreateTime":
        earliest = max(earliest, now_ms - config.timestamp_before_max_ms)
        latest = min(latest, now_ms + config.timestamp_after_max_ms)
    return JsonRules(now_ms, log.is_compacted, earliest, latest, accumulator.values_as_text, honors_partition)
