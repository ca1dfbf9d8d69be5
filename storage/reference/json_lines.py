"""Lines of JSON into a batch, in Python: the reference that tests compare `native/json_lines.pyx` with.

A line is taken whole or not at all, and the first that is wrong stops the work (`json_line` says what is wrong).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.partitioner import partition_of
from offsetfs.storage.records.json.json_line import OUT_OF_TIME, JsonRecord, LineFault, WrongLine, parse
from offsetfs.storage.reference import codec
from offsetfs.storage.units import I32_MAX, I64_MAX, wrapped

Buffer = codec.Buffer


ASKED_MAX = 2
"""The number of calls of `cursor_for` for one record: for the open batch, and for a new batch."""


class JsonRules(NamedTuple):
    """The rules for a line."""

    now_ms: int
    """The timestamp of records that name none."""

    needs_key: bool = False
    """Refuses records without a key."""

    earliest: int = -1
    latest: int = I64_MAX
    """Any other timestamp outside of these two is refused, except -1, which is none."""

    values_as_text: bool = False
    """A `value` that is no string is taken as its text; else it is refused."""

    honors_partition: bool = False
    """A record that names its `partition` goes there, and one that names a partition that is not there is refused; else
    the field is ignored. Only for `spread_json`."""


class JsonSplit(NamedTuple):
    """The progress of `split_json`. The sums are those of the records of this call."""

    start: int
    position: int
    offset_delta: int
    base_timestamp: int | None
    max_timestamp: int
    """-1 when no record was written."""

    values_bytes: int
    """The bytes of the values and a newline for each."""

    record_bytes: int
    """The size of the next record as the first of a batch, if it did not fit; else 0."""

    fault: LineFault | None
    """The fault of the line that begins at `start`."""


CursorFor = Callable[[int, int, BatchCursor | None], BatchCursor | None]
"""Provides an open batch: `cursor_for(partition, record_bytes, filled)`. See `spread_json`."""


class JsonSpread(NamedTuple):
    """The progress of `spread_json`."""

    start: int
    cursors: dict[int, BatchCursor]
    """Those of batches that got records, by partition and without their targets; not what `cursor_for` was given."""

    partition: int
    """The partition of the next record, if it did not fit there; else -1."""

    record_bytes: int
    """Its size as the first of a batch. Else 0."""

    fault: LineFault | None
    """The fault of the line that begins at `start`."""


def split_json(
    source: Buffer,
    start: int,
    end: int,
    cursor: BatchCursor,
    rules: JsonRules,
    count_max: int,
) -> JsonSplit:
    """Write each whole line of `source[start:end]` as a record into `cursor`.

    A line ends at a newline; blank lines are stepped over. The timestamp of the first record of a batch becomes its
    base timestamp. Timestamp deltas wrap around as a Java long does, and so come back right.

    Stops when no newline is left, the next record does not fit, `count_max` records are written, the offset delta would
    pass 2^31 - 1, or a line is wrong (`fault`). Returns where to go on.
    """
    target, position, offset_delta, base_timestamp = (
        cursor.target,
        cursor.position,
        cursor.offset_delta,
        cursor.base_timestamp,
    )
    now_ms = rules.now_ms
    assert target is not None
    if not 0 <= start <= end <= len(source) or not 0 <= position <= len(target):
        raise ValueError("split outside of its buffers")
    if offset_delta < 0 or now_ms < -1:
        raise ValueError(f"an offset delta of {offset_delta}" if offset_delta < 0 else f"a timestamp of {now_ms}")
    first, lines = start, bytes(memoryview(source)[start:end])
    max_timestamp, values_bytes, record_bytes, fault = -1, 0, 0, None
    while count_max > 0 and offset_delta <= I32_MAX:
        newline = lines.find(b"\n", start - first)
        if newline < 0:
            break
        try:
            line = lines[start - first : newline]
            record = parse(line, needs_key=rules.needs_key, values_as_text=rules.values_as_text)
            _check_time(record, rules)
        except WrongLine as wrong:
            fault = wrong.fault
            break
        if record is not None:
            timestamp = now_ms if record.timestamp is None else record.timestamp
            base = timestamp if base_timestamp is None else base_timestamp
            encoded = _encoded(record, wrapped(timestamp - base), offset_delta)
            if len(encoded) > len(target) - position:
                record_bytes = len(_encoded(record, 0, 0))
                break
            target[position : position + len(encoded)] = encoded
            position, base_timestamp = position + len(encoded), base
            max_timestamp = max(max_timestamp, timestamp)
            values_bytes += len(record.value or b"") + 1
            offset_delta, count_max = offset_delta + 1, count_max - 1
        start = first + newline + 1
    return JsonSplit(start, position, offset_delta, base_timestamp, max_timestamp, values_bytes, record_bytes, fault)


def spread_json(
    source: Buffer,
    start: int,
    end: int,
    cursors: Sequence[BatchCursor | None],
    keyless: int,
    rules: JsonRules,
    cursor_for: CursorFor | None = None,
) -> JsonSpread:
    """Write each whole line of `source[start:end]` as a record into the batch of its partition.

    `cursors`: one for each partition. `partitioner` chooses the partition of a key; records without a key go to
    `keyless`. All as in `split_json`, in the order of the lines: it stops at the first wrong line, or at a line
    whose batch has no space or is None.

    If `cursor_for` is given, it is called before that last case stops the work, at most `ASKED_MAX` times for a record.
    It gets the partition, the size of the record as the first of a batch, and what this call has written into the
    batch, None where that is nothing, which is not in the result then. The cursor that it returns is filled next; with
    None the work stops. What it raises is raised, and then no batch counts as written to.
    """
    if not 0 <= keyless < len(cursors):
        raise ValueError(f"partition {keyless} of {len(cursors)}")
    if not 0 <= start <= end <= len(source) or rules.now_ms < -1:
        raise ValueError("split outside of its buffers" if rules.now_ms >= -1 else f"a timestamp of {rules.now_ms}")
    for cursor in cursors:
        if cursor is not None and not (0 <= cursor.position <= len(cursor.target or b"") and cursor.offset_delta >= 0):
            raise ValueError(f"a cursor of position {cursor.position} and offset delta {cursor.offset_delta}")
    now, begun = list(cursors), list(cursors)
    while (newline := bytes(memoryview(source)[start:end]).find(b"\n")) >= 0:
        line_end = start + newline + 1
        try:
            line = bytes(memoryview(source)[start : line_end - 1])
            count = len(cursors) if rules.honors_partition else 0
            record = parse(line, needs_key=rules.needs_key, partitions=count, values_as_text=rules.values_as_text)
            _check_time(record, rules)
        except WrongLine as wrong:
            return JsonSpread(start, _changed(now, begun), -1, 0, wrong.fault)
        if record is not None:
            number, asked = _partition_for(record, len(cursors), keyless), 0
            while (filled := _filled(now[number], source, start, line_end, rules)) is None:
                record_bytes = len(_encoded(record, 0, 0))
                if cursor_for is not None and asked < ASKED_MAX:
                    made = _changed([now[number]], [begun[number]]).get(0)
                    now[number] = begun[number] = cursor_for(number, record_bytes, made)
                    asked += 1
                    if now[number] is not None:
                        continue
                return JsonSpread(start, _changed(now, begun), number, record_bytes, None)
            now[number] = filled
        start = line_end
    return JsonSpread(start, _changed(now, begun), -1, 0, None)


def _filled(cursor: BatchCursor | None, source: Buffer, start: int, end: int, rules: JsonRules) -> BatchCursor | None:
    """Return the cursor with the record of one line, None where it does not fit."""
    if cursor is None:
        return None
    split = split_json(source, start, end, cursor, JsonRules(rules.now_ms, values_as_text=rules.values_as_text), 1)
    if split.start == start:
        return None
    return BatchCursor(
        cursor.target,
        split.position,
        split.offset_delta,
        split.base_timestamp,
        max(cursor.max_timestamp, split.max_timestamp),
        cursor.values_bytes + split.values_bytes,
    )


def _partition_for(record: JsonRecord, count: int, keyless: int) -> int:
    if record.partition is not None:
        return record.partition
    return keyless if record.key is None else partition_of(record.key, count)


def _check_time(record: JsonRecord | None, rules: JsonRules) -> None:
    if record is not None:
        timestamp = rules.now_ms if record.timestamp is None else record.timestamp
        if timestamp != -1 and not rules.earliest <= timestamp <= rules.latest:
            raise WrongLine(LineFault(0, OUT_OF_TIME))


def _changed(now: Sequence[BatchCursor | None], before: Sequence[BatchCursor | None]) -> dict[int, BatchCursor]:
    return {
        number: cursor._replace(target=None)
        for number, (cursor, old) in enumerate(zip(now, before, strict=True))
        if cursor is not None and cursor is not old
    }


def _encoded(record: JsonRecord, timestamp_delta: int, offset_delta: int) -> bytes:
    timestamp = max(timestamp_delta, 0)
    plain = (record.key, record.value, record.headers, timestamp)
    return codec.encode([plain], timestamp - timestamp_delta, offset_delta)
