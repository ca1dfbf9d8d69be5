"""Encodes JSON lines into the open batches of one partition, or of all partitions of a topic at once.

One call of compiled code encodes lines in order, each into the batch of its key's partition. It requests the batch of a
partition at the first record for it, and the next batch when that is full. So the cost of a call depends on its lines,
not on the number of partitions. A call stops at a wrong line, or if a new batch needs memory or a place in a queue that
is not free. The accepted lines are always a prefix of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from offsetfs.fs.appends.accumulator import Accumulator
from offsetfs.fs.appends.open_files import Writer
from offsetfs.storage.records import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    REFUSE,
    TIMESTAMP_MAX,
    BatchCursor,
    JsonRules,
    JsonSpread,
    LineFault,
    spread_json,
)


class Taken(NamedTuple):
    """The result of a framing step."""

    end: int
    """The position of the first byte that was not accepted."""
    needed: int = 0
    """The size of a batch with the record there, if it found no free buffer. 0: any batch suffices."""
    fault: LineFault | None = None
    """The error of the line there."""


class JsonAppend:
    """One call of `split`: JSON lines of a writer, and the open batches of the partitions that they go to."""

    def __init__(self, accumulators: Sequence[Accumulator], writer: Writer) -> None:
        self._accumulators = accumulators
        self._writer = writer
        self._given: set[int] = set()  # the partitions whose open batch this call of compiled code has
        self.touched: set[int] = set()
        """The numbers of the partitions whose batches records may have come into."""
        self.full = -1
        """The number of the partition without a free buffer; -1 if the split stopped for another reason."""

    def split(
        self,
        keyless: int,
        data: bytes | bytearray,
        start: int,
        end: int,
        timestamp: int,
        *,
        honors_partition: bool = False,
    ) -> Taken:
        """Append the lines of `data[start:end]`, each a JSON object; return how far it got, and why it stopped.

        Never waits. The caller has called `check`. A line that is no record is a `fault`; in a compacted log also a
        line without a key. Records without a key go to number `keyless`; with `honors_partition` those that name their
        `partition` go there. `timestamp`: for records without their own.
        """
        rules = _rules(self._accumulators[0], timestamp, honors_partition)
        none: list[BatchCursor | None] = [None] * len(self._accumulators)
        taken = Taken(start)
        while start < end and taken.fault is None and self.full < 0:
            # A writer with acknowledgments gets the timestamp of each record, so each call encodes one line.
            until = data.index(b"\n", start) + 1 if self._writer.wants_offsets else end
            self._given.clear()
            spread = spread_json(data, start, until, none, keyless, rules, self._cursor_for)
            self._grown(spread, spread.start - start)
            start = spread.start
            taken = Taken(start, fault=spread.fault)
            if spread.record_bytes:
                needed = HEADER_SIZE + spread.record_bytes
                if not self._begin(spread.partition, needed):
                    taken, self.full = Taken(start, needed), spread.partition
        for number in self.touched:
            self._accumulators[number].seal_unless_lingering()
        return taken

    def _cursor_for(self, number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        """Return a batch for a record. None if there is none now, or only if other batches are sealed.

        The first call for a partition returns the open batch, later calls a new one.
        """
        accumulator, writer = self._accumulators[number], self._writer
        if filled is not None:
            self._take_over(number, filled)
        if accumulator.must_wait(writer):
            return None
        batch = accumulator.open_batch
        if batch is not None and number in self._given:
            accumulator.seal()
            if writer.code is not None:  # the append at once failed: no record may follow the gap
                return None
            batch = None
        if batch is None:
            batch = accumulator.begin_if_free(HEADER_SIZE + record_bytes)
        if batch is None:
            return None
        self._given.add(number)
        self.touched.add(number)
        return batch.builder.cursor

    def _grown(self, spread: JsonSpread, given: int) -> None:
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
        accumulator.note(self._writer, count, size, given, cursor.max_timestamp)

    def _begin(self, number: int, size: int) -> bool:
        """Queue the batch of a partition, and start one for a record of `size`. False if that is not possible now."""
        accumulator, writer = self._accumulators[number], self._writer
        if accumulator.must_wait(writer):
            return False
        accumulator.seal()
        self.touched.add(number)
        # If the batch was appended at once and failed, no record may follow the gap.
        return writer.code is None and accumulator.begin_anew(size)


def _rules(accumulator: Accumulator, now_ms: int, honors_partition: bool) -> JsonRules:
    """Return the current rules. With LogAppendTime a record may have any timestamp, because the log replaces it."""
    log, config = accumulator.log, accumulator.log.config
    earliest: int = NO_TIMESTAMP
    latest = TIMESTAMP_MAX
    if config.message_timestamp_type == "CreateTime":
        earliest = max(earliest, now_ms - config.timestamp_before_max_ms)
        latest = min(latest, now_ms + config.timestamp_after_max_ms)
    values_as_text = accumulator.context.options.json_values != REFUSE
    return JsonRules(now_ms, log.is_compacted, earliest, latest, values_as_text, honors_partition)
