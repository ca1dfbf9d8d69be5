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
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import TIMESTAMP_MAX, spread_json
from offsetfs.storage.records.record_json import JsonSpread
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
) -> Split:
    """Take the lines of `data[start:end]` for the partitions of one topic; `Accumulator.split_json` for all of them.

    The caller has called `check` of each. `writers` are those of one handle, one for each partition. Records without a
    key go to number `keyless`.
    """
    rules, touched = _rules(accumulators[0].log, timestamp), set[int]()
    while start < end:
        # Who wants to know where each record is hears its timestamp, too, and each has its own.
        until = data.index(b"\n", start) + 1 if writers[0].wants_offsets else end
        spread = _spread(accumulators, writers, keyless, data, start, until, timestamp, rules)
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


class _Rules(TypedDict):
    """What the topic asks of a record. See `spread_json`."""

    needs_key: bool
    earliest: int
    latest: int


def _rules(log: Log, now_ms: int) -> _Rules:
    """Return the rules that hold now; whose own time the log stamps may name any other."""
    config = log.config
    earliest: int = NO_TIMESTAMP
    latest = TIMESTAMP_MAX
    if config.message_timestamp_type == "CreateTime":
        earliest = max(earliest, now_ms - config.timestamp_before_max_ms)
        latest = min(latest, now_ms + config.timestamp_after_max_ms)
    return {"needs_key": log.is_compacted, "earliest": earliest, "latest": latest}


def _spread(
    accumulators: Sequence[Accumulator],
    writers: Sequence[Writer],
    keyless: int,
    data: bytes | bytearray,
    start: int,
    end: int,
    timestamp: int,
    rules: _Rules,
) -> JsonSpread:
    builders = [None if each.open_batch is None else each.open_batch.builder for each in accumulators]
    before = [(0, 0) if builder is None else (builder.count, builder.size) for builder in builders]
    spread = spread_json(builders, data, start, end, timestamp, keyless=keyless, **rules)
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
