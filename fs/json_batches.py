"""Lines of JSON into the open batches of one partition, or of all partitions of a topic at once.

One call of compiled code takes lines in their order, each into the batch of its key's partition, until a line is wrong
or its batch has no room; then that batch is sealed, another one begun, and the next call goes on. So what was taken is
always a beginning of what was given, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.fs.framing import Taken
from offsetfs.fs.shared_sync import Writer
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import spread_json
from offsetfs.storage.records.record_json import JsonSpread

if TYPE_CHECKING:
    from offsetfs.fs.accumulator import Accumulator


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
) -> Split:
    """Take the lines of `data[start:end]` for the partitions of one topic; `Accumulator.split_json` for all of them.

    The caller has called `check` of each. `writers` are those of one handle, one for each partition. Records without a
    key go to number `keyless`.
    """
    needs_key, touched = accumulators[0].log.is_compacted, set[int]()
    while start < end:
        # Who wants to know where each record is hears its timestamp, too, and each has its own.
        until = data.index(b"\n", start) + 1 if writers[0].wants_offsets else end
        spread = _spread(accumulators, writers, keyless, data, start, until, timestamp, needs_key)
        touched.update(number for number, each in enumerate(spread.lanes) if each is not None)
        start, lane, needed = spread.start, spread.lane, HEADER_SIZE + spread.record_bytes
        if spread.fault is not None:
            return _ended(accumulators, Split(Taken(start, fault=spread.fault), touched))
        if spread.record_bytes:
            accumulators[lane].seal()
            # When it was appended at once, and failed, nothing may follow the gap.
            if writers[lane].code is not None or not accumulators[lane].begin_anew(needed):
                return _ended(accumulators, Split(Taken(start, needed), touched, lane))
    return _ended(accumulators, Split(Taken(start), touched))


def _spread(
    accumulators: Sequence[Accumulator],
    writers: Sequence[Writer],
    keyless: int,
    data: bytes | bytearray,
    start: int,
    end: int,
    timestamp: int,
    needs_key: bool,
) -> JsonSpread:
    builders = [None if each.open_batch is None else each.open_batch.builder for each in accumulators]
    before = [(0, 0) if builder is None else (builder.count, builder.size) for builder in builders]
    spread = spread_json(builders, data, start, end, timestamp, keyless=keyless, needs_key=needs_key)
    grown = [0 if lane is None else lane.position - size for lane, (_, size) in zip(spread.lanes, before, strict=True)]
    for number, lane in enumerate(spread.lanes):
        if lane is not None:
            given = max(1, (spread.start - start) * grown[number] // sum(grown))
            accumulators[number].note(writers[number], *before[number], given, lane.max_timestamp)
    return spread


def _ended(accumulators: Sequence[Accumulator], split: Split) -> Split:
    for each in accumulators:
        each.seal_unless_lingering()
    return split
