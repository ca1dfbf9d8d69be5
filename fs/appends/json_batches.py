"""Lines of JSON into the open batches of one partition, or of all partitions of a topic at once.

One call of compiled code takes lines in their order, each into the batch of its key's partition, until a line is wrong
or its batch has no room; then that batch is sealed, another one begun, and the next call goes on. So what was taken is
always a beginning of what was given, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from offsetfs.fs.appends.framing import Taken
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import TIMESTAMP_MAX, BatchBuilder
from offsetfs.storage.records.record_json import JsonSpread, Lane, spread_json
from offsetfs.storage.units import NO_TIMESTAMP

if TYPE_CHECKING:
    from offsetfs.fs.appends.accumulator import Accumulator


class Split(NamedTuple):
    """How far it came. `lane`: the partition that had no room; -1: it was not for that."""

    taken: Taken
    touched: set[int]
    """The partitions that got something."""
    lane: int = -1


def split(
    accumulators: Sequence[Accumulator],
    writers: Sequence[Writer],
    keyless: int,
    data: bytes | bytearray,
    start: int,
    end: int,
    timestamp: int,
    *,
    honors_partition: bool = False,
) -> Split:
    """Take the lines of `data[start:end]` for the partitions of one topic; `Accumulator.split_json` for all of them.

    The caller has called `check` of each. `writers` are those of one handle, one for each partition. Records without a
    key go to number `keyless`; with `honors_partition` those that name their `partition` go there.
    """
    rules, touched = _rules(accumulators[0], timestamp, honors_partition), set[int]()
    open_batches = _OpenBatches(accumulators, writers)
    while start < end:
        # Who wants to know where each record is hears its timestamp, too, and each has its own.
        until = data.index(b"\n", start) + 1 if writers[0].wants_offsets else end
        spread = spread_json(data, start, until, open_batches.lanes, keyless, timestamp, **rules)
        open_batches.grown(spread, spread.start - start)
        touched.update(spread.lanes)
        start, lane, needed = spread.start, spread.lane, HEADER_SIZE + spread.record_bytes
        if spread.fault is not None:
            return _ended(accumulators, Split(Taken(start, fault=spread.fault), touched))
        if spread.record_bytes and not open_batches.begin(lane, needed):
            return _ended(accumulators, Split(Taken(start, needed), touched, lane))
    return _ended(accumulators, Split(Taken(start), touched))


class _OpenBatches:
    """The open batch of each partition, as compiled code fills it. What is looked at is what has changed."""

    def __init__(self, accumulators: Sequence[Accumulator], writers: Sequence[Writer]) -> None:
        self._accumulators = accumulators
        self._writers = writers
        self.lanes: list[Lane | None] = []
        self._look()

    def _look(self) -> None:
        self.lanes = [
            None if each.open_batch is None or each.must_wait(writer) else each.open_batch.builder.lane
            for each, writer in zip(self._accumulators, self._writers, strict=True)
        ]

    def grown(self, spread: JsonSpread, given: int) -> None:
        """Take over what `given` bytes of lines became."""
        grown = {number: lane.position - self._builder(number).size for number, lane in spread.lanes.items()}
        total = sum(grown.values())
        for number, lane in spread.lanes.items():
            builder = self._builder(number)
            count, size = builder.count, builder.size
            builder.grown(lane)
            self.lanes[number] = builder.lane
            share = max(1, given * grown[number] // total)
            self._accumulators[number].note(self._writers[number], count, size, share, lane.max_timestamp)

    def begin(self, number: int, size: int) -> bool:
        """Queue the batch of a partition, and begin one for a record of `size`; False when there can be none now."""
        accumulator, writer = self._accumulators[number], self._writers[number]
        if accumulator.must_wait(writer):
            return False
        shortages = accumulator.shortages
        accumulator.seal()
        # When it was appended at once, and failed, nothing may follow the gap.
        if writer.code is not None or not accumulator.begin_anew(size):
            return False
        if accumulator.shortages != shortages:
            self._look()  # batches of other partitions gave way
        else:
            self.lanes[number] = self._builder(number).lane
        return True

    def _builder(self, number: int) -> BatchBuilder:
        batch = self._accumulators[number].open_batch
        assert batch is not None
        return batch.builder


class _Rules(TypedDict):
    """What the topic asks of a record. See `spread_json`."""

    needs_key: bool
    earliest: int
    latest: int
    honors_partition: bool
    values_as_text: bool


def _rules(accumulator: Accumulator, now_ms: int, honors_partition: bool) -> _Rules:
    """Return the rules that hold now; whose own time the log stamps may name any other."""
    log, config = accumulator.log, accumulator.log.config
    earliest: int = NO_TIMESTAMP
    latest = TIMESTAMP_MAX
    if config.message_timestamp_type == "CreateTime":
        earliest = max(earliest, now_ms - config.timestamp_before_max_ms)
        latest = min(latest, now_ms + config.timestamp_after_max_ms)
    return {
        "needs_key": log.is_compacted,
        "earliest": earliest,
        "latest": latest,
        "honors_partition": honors_partition,
        "values_as_text": accumulator.values_as_text,
    }


def _ended(accumulators: Sequence[Accumulator], split: Split) -> Split:
    for each in accumulators:
        each.seal_unless_lingering()
    return split
