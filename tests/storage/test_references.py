"""Every compiled function returns what its Python reference returns, or raises an error of the same class.

A row of `COMPARISONS` names the module, the inputs and the functions. What else is known of a function stands in the
tests of its subject.
"""

from __future__ import annotations

import importlib
import json
import struct
from array import array
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from fixtures.logs.random_batches import KEYS, VALUES, damaged_plain_batches, message_sets, plain_batches
from fixtures.logs.random_columns import DATA, RandomRecord, as_columns, column
from fixtures.logs.random_columns import RECORDS as RANDOM_RECORDS
from fixtures.logs.random_json_lines import LINE, mutated_lines
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import RecordDigests
from offsetfs.storage.records.columns.columns import KEY, VALUE
from offsetfs.storage.records.columns.field_patterns import FieldPattern
from offsetfs.storage.records.format import batch_row, chain, codec, record_row, varint
from offsetfs.storage.records.format.batch import build, read_batch
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.batch_header import seal_checksum
from offsetfs.storage.reference import record_sketch
from offsetfs.storage.reference.codec import EncodableRecord
from offsetfs.storage.reference.compaction import NO_SPACE, OTHER, SLOT_SIZE
from offsetfs.storage.reference.dump import LineStyle
from offsetfs.storage.reference.json_lines import JsonRules

pytestmark = [pytest.mark.unit, pytest.mark.reference]

LONG_MAX = 2**63 - 1
INFLATED_BYTES_MAX = 1 << 16
LONGS = st.integers(-(2**63), LONG_MAX)

Function = Callable[..., object]
"""Takes a module and an input; returns all that the module's function returns or writes."""


@dataclass(frozen=True)
class Comparison:
    """Functions of a compiled module and of its reference, asked about the same inputs."""

    module: str
    inputs: SearchStrategy[Any]
    functions: Mapping[str, Function]
    examples: int = 200


def outcome(function: Function, module: object, given_input: object) -> object:
    """Return the result as a value that can be compared, or the name of the error's class."""
    try:
        result = function(module, given_input)
    except (StorageError, ValueError) as error:
        return type(error).__name__
    return result.tolist() if isinstance(result, array) else result


# --- inputs ----------------------------------------------------------------------------------------------------------

FIELD = st.none() | st.binary(max_size=80)
HEADERS = st.lists(st.tuples(st.text(max_size=8), FIELD), max_size=3)
RECORDS = st.lists(st.tuples(FIELD, FIELD, HEADERS, st.integers(-1, 2**62)), max_size=12)
NUMBER = st.sampled_from([0, 1, -1, 2, 3, 63, 64, -64, 127, 200, 2**31 - 1, -(2**31)]).map(varint.encode)
PIECE = NUMBER | st.integers(0, 9).map(varint.encode) | st.binary(max_size=6) | st.just(b"\xff" * 5)
BODY = st.lists(PIECE, max_size=12).map(lambda pieces: b"\0" + b"".join(pieces))
ODD_RECORD = BODY.map(lambda body: varint.encode(len(body)) + body)


@st.composite
def damaged_payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records that are cut short, or in which bits are flipped, and their number, which may be wrong."""
    records = draw(RECORDS)
    payload = bytearray(codec.encode(records, 0, 0))
    if payload and draw(st.booleans()):
        for bit in draw(st.lists(st.integers(0, 8 * len(payload) - 1), min_size=1, max_size=3)):
            payload[bit // 8] ^= 1 << bit % 8
        return bytes(payload), len(records) + draw(st.integers(-1, 1))
    return bytes(payload[: draw(st.integers(0, len(payload)))]), len(records)


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    """Batches of which bytes are changed; the checksum of some is right nevertheless."""
    log, offset = bytearray(), draw(st.sampled_from([0, 5, 2**62]))
    for count in draw(st.lists(st.integers(1, 4), max_size=6)):
        values = draw(st.lists(FIELD, min_size=count, max_size=count))
        batch = build(
            [(None, value, (), 1000 + offset % 7) for value in values],
            base_offset=offset,
            codec=draw(st.sampled_from(["none", "none", "none", "lz4"])),
        )
        for _ in range(draw(st.integers(0, 2))):
            batch[draw(st.sampled_from([7, 15, *range(17, len(batch))]))] ^= draw(st.integers(1, 255))
        if draw(st.booleans()):
            seal_checksum(batch)
        log += batch
        offset += count
    return bytes(log + draw(st.binary(max_size=80)))


@st.composite
def ranges_of_logs(draw: st.DrawFn) -> tuple[bytes, int, int, tuple[int, int]]:
    log = draw(damaged_logs())
    start = draw(st.integers(0, len(log)))
    offsets = draw(st.sampled_from([chain.ANY_OFFSETS, (0, LONG_MAX), (0, 7), (5, 100)]))
    return log, start, draw(st.integers(start, len(log))), offsets


@st.composite
def logs_and_rows(draw: st.DrawFn) -> tuple[bytes, array[int]]:
    log = draw(damaged_logs())
    return log, chain.sound(log, 0, len(log), 7, *chain.ANY_OFFSETS)[0]


BATCHES = st.lists(
    st.tuples(
        st.integers(0, 2**33),
        st.integers(0, 200) | LONGS,
        st.integers(0, 9) | st.integers(-(2**31), 2**31 - 1),
        st.integers(-1, 9) | LONGS,
    ),
    max_size=12,
)


def batch_rows(batches: list[tuple[int, int, int, int]]) -> array[int]:
    rows = array("q")
    for position, offset, delta, timestamp in batches:
        row = [-1] * batch_row.COLUMNS
        row[batch_row.POSITION], row[batch_row.BASE_OFFSET] = position, offset
        row[batch_row.LAST_OFFSET_DELTA], row[batch_row.MAX_TIMESTAMP] = delta, timestamp
        rows.extend(row)
    return rows


@st.composite
def lines_to_split(draw: st.DrawFn) -> tuple[bytes, int, int, int, int, int, int]:
    pieces = st.sampled_from([b"\n", b"\r", b"a", b"bc", b"\0", b"x" * 60, b"y" * 130])
    source = b"".join(draw(st.lists(pieces, max_size=40)))
    start = draw(st.integers(0, len(source)))
    end, space = draw(st.integers(start, len(source))), draw(st.integers(0, len(source) + 200))
    delta = draw(st.sampled_from([0, 60, 8190, 2**31 - 2]))
    return source, start, end, space, draw(st.integers(0, space)), delta, draw(LONGS)


@st.composite
def frames(draw: st.DrawFn) -> dict[str, Any]:
    base = draw(LONGS)
    bound = st.none() | st.integers(base - 2, base + 14)
    return {
        "prefix": b'{"topic":"orders","offset":',
        "base_offset": base,
        "base_timestamp": draw(LONGS),
        "append_time": draw(st.none() | st.integers(-1, 2**62)),
        "offset_from": draw(bound),
        "offset_to": draw(bound),
    }


# Bytes that decide how a decoder of UTF-8 goes on: the ends of each range of lead and continuation bytes.
EDGES = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 f7 f8 ff")
EDGY = st.lists(st.sampled_from(EDGES), max_size=12).map(bytes)
TEXTS = EDGY | st.binary(max_size=80) | st.text(max_size=40).map(str.encode)
NAMES = st.text(max_size=8) | EDGY.map(lambda data: data.decode("utf-8", "surrogateescape"))
DUMPED = st.lists(
    st.tuples(
        st.none() | TEXTS,
        st.none() | TEXTS,
        st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=4)), max_size=3),
        st.integers(-1, 2**41),
    ),
    min_size=1,
    max_size=8,
)
NEAR_LONGS = LONGS | st.integers(-3, 3)
STYLES = st.builds(
    LineStyle,
    base_offset=NEAR_LONGS,
    base_timestamp=NEAR_LONGS,
    append_time=st.none() | NEAR_LONGS,
    timestamp_label=st.sampled_from([b"CreateTime", b"LogAppendTime"]),
    base_sequence=st.sampled_from([-(2**31), -1, 0, 7, 2**31 - 3, 2**31 - 1]),
    metadata=st.booleans(),
    data=st.booleans(),
    offset_min=st.just(-(2**63)) | NEAR_LONGS,
    offset_end=st.just(LONG_MAX) | NEAR_LONGS,
)


def deltas_as_rows(deltas: list[int]) -> array[int]:
    return array("q", [number for delta in deltas for number in (delta, *[0] * (record_row.COLUMNS - 1))])


INDEX_ENTRIES = st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), max_size=20)

# --- inputs for JSON lines, columns, message sets and compaction -----------------------------------------------------

NOW = 1795253676123


@dataclass(frozen=True)
class LinesToSplit:
    """Lines of JSON, the part of them to read, and the batch that takes their records."""

    source: bytes
    start: int
    end: int
    size: int
    cursor: tuple[int, int, int | None]
    count_max: int
    rules: JsonRules


@st.composite
def json_lines_to_split(draw: st.DrawFn) -> LinesToSplit:
    source = b"\n".join(draw(st.lists(LINE | mutated_lines(), max_size=6)))
    start, size = draw(st.integers(0, len(source))), draw(st.integers(0, len(source) + 50))
    delta, base = draw(st.sampled_from([0, 60, 8190, 2**31 - 2])), draw(st.sampled_from([None, -1, NOW, LONG_MAX]))
    return LinesToSplit(
        source,
        start,
        draw(st.integers(start, len(source))),
        size,
        (draw(st.integers(0, size)), delta, base),
        draw(st.integers(0, 9)),
        JsonRules(NOW, needs_key=draw(st.booleans()), values_as_text=draw(st.booleans())),
    )


PARTITION = st.none() | st.integers(0, 2) | st.integers(-1, 5) | st.integers() | st.floats() | st.text(max_size=3)


@st.composite
def json_lines_to_spread(draw: st.DrawFn) -> tuple[bytes, int, int, JsonRules]:
    """Return lines, the number of partitions, the size of their batches, and the rules."""
    flags = {"honors_partition": draw(st.booleans()), "values_as_text": draw(st.booleans())}
    lines = b""
    for _ in range(draw(st.integers(0, 30))):
        key, value = draw(st.none() | st.binary(max_size=12)), draw(st.binary(max_size=9))
        shown = {"value": list(value)} if flags["values_as_text"] else {"value_b64": b64encode(value).decode()}
        fields = {"timestamp": draw(st.integers(-1, 9)), "partition": draw(PARTITION), **shown}
        lines += json.dumps({"key_b64": None if key is None else b64encode(key).decode(), **fields}).encode() + b"\n"
    return lines, draw(st.integers(1, 5)), draw(st.integers(30, 200)), JsonRules(NOW, **flags)


def sketched(module: ModuleType, given: Any) -> tuple[Any, bytes]:
    state, other = bytearray(record_sketch.STATE_BYTES), bytearray(record_sketch.STATE_BYTES)
    times = module.add_rows(state, *given, 2**63 - 3)
    module.add_rows(other, *given, 5)
    module.merge(state, other)
    return times, bytes(state)


@st.composite
def rows_of_columns(draw: st.DrawFn) -> tuple[bytes, array[int]]:
    """Return records and their rows, of which one number may be wrong."""
    records = draw(RANDOM_RECORDS)
    payload = codec.encode(records, 0, 0)
    rows = codec.scan(payload, len(records))
    if draw(st.booleans()):
        rows[draw(st.integers(0, len(rows) - 1))] = draw(NEAR_LONGS)
    return bytes(payload), rows


KEYED_ROWS = st.tuples(rows_of_columns(), NEAR_LONGS, st.integers(-1, 3), st.integers(0, 2**31))

PATTERNS = [
    FieldPattern(b"a", b"", 1, 2),
    FieldPattern(b"ab", b"\0", 2, 40),
    FieldPattern(None, b"\0", 5, 5),
    FieldPattern(None, b"", 3, 1),
    FieldPattern(b"", b"", 0, 0),
]

# --- functions -------------------------------------------------------------------------------------------------------

READERS: dict[str, Function] = {
    **{
        name: lambda module, given, name=name: getattr(module, name)(*given)
        for name in ("scan", "decode", "join", "measure")
    },
    **{f"find {delta}": lambda module, given, delta=delta: module.find(*given, delta) for delta in (0, 1, 7)},
    **{f"survey {base}": lambda module, given, base=base: module.survey(*given, base) for base in (-1, 0, 2**63 - 1)},
}


def split(module: Any, given: tuple[bytes, int, int, int, int, int, int]) -> object:
    source, start, end, space, position, *rest = given
    target = bytearray(b"#" * space)
    return module.split(source, start, end, target, position, *rest), target


def index(module: Any, given: tuple[list[tuple[int, int, int, int]], int, int]) -> object:
    batches, base_offset, interval = given
    state = chain.index_state(base_offset, interval)
    return module.index(batch_rows(batches), state), state.tolist()


def valid_until(module: Any, given: tuple[bytes, array[int]]) -> object:
    log, rows = given
    count = len(rows) // batch_row.COLUMNS
    return [module.valid_until(log, 7, rows, first, INFLATED_BYTES_MAX) for first in range(count + 1)]


def json_lines(module: Any, given: tuple[tuple[bytes, int], dict[str, Any]]) -> object:
    (payload, count), frame = given
    lines = module.join_json(payload, count, **frame)
    assert module.measure_json(payload, count, **frame) == len(lines)
    return bytes(lines)


def refused(module: Any, given: tuple[tuple[bytes, int], dict[str, Any]]) -> None:
    """JSON is refused where the codec refuses the same records."""
    payload, frame = given
    errors = {
        outcome(function, module, payload) == "MalformedBatch"
        for function, module in (
            (READERS["measure"], codec),
            (lambda json, given: json.measure_json(*given, **frame), module),
            (lambda json, given: json.join_json(*given, **frame), module),
        )
    }
    assert len(errors) == 1


def dumped(module: Any, given: tuple[list[EncodableRecord], LineStyle, int, int]) -> object:
    records, style, size, used = given
    payload = codec.encode(records, records[0][3], 0)
    target = bytearray(size + used)
    done, end = module.format_records(payload, codec.scan(payload, len(records)), 0, style, target, used)
    return done, bytes(target[used:end])


def follow(module: Any, given: tuple[list[int], int, int]) -> object:
    deltas, base_offset, last_offset = given
    gaps = array("q")
    return module.follow(deltas_as_rows(deltas), base_offset, last_offset, gaps), gaps.tolist()


def around(module: Any, given: tuple[list[tuple[int, int]], int]) -> object:
    entries, wanted = given
    return module.around(b"".join(struct.pack(">ii", *entry) for entry in entries), len(entries), 7, wanted)


def time_floor(module: Any, given: tuple[list[tuple[int, int]], int]) -> object:
    entries, wanted = given
    return module.time_floor(b"".join(struct.pack(">qi", *entry) for entry in entries), len(entries), 7, wanted)


def json_split(module: Any, given: LinesToSplit) -> object:
    target = bytearray(b"#" * given.size)
    cursor = BatchCursor(target, *given.cursor)
    return module.split_json(given.source, given.start, given.end, cursor, given.rules, given.count_max), target


def json_spread(module: Any, given: tuple[bytes, int, int, JsonRules]) -> object:
    lines, partitions, size, rules = given
    cursors = [BatchCursor(bytearray(size), 0, 0, None) for _ in range(partitions)]
    return module.spread_json(lines, 0, len(lines), cursors, partitions - 1, rules), cursors


def json_spread_on_demand(module: Any, given: tuple[bytes, int, int, JsonRules]) -> object:
    """Cursors are provided as they are needed, six in all."""
    lines, partitions, size, rules = given
    calls: list[object] = []
    provided: list[BatchCursor] = []

    def cursor_for(number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        calls.append((number, record_bytes, filled))
        provided.append(BatchCursor(bytearray(size), 0, 0, None))
        return provided[-1] if len(provided) < 6 else None

    return module.spread_json(lines, 0, len(lines), [None] * partitions, 0, rules, cursor_for), calls, provided


def encoded_columns(module: Any, given: tuple[list[RandomRecord], int]) -> object:
    records, size = given
    target = bytearray(size)
    picks = array("i", reversed(range(len(records))))
    return module.encode_columns(as_columns(records), picks, 0, BatchCursor(target, 0, 0, None)), target


def keys_hashed(module: Any, given: tuple[tuple[bytes, array[int]], int, int, int]) -> object:
    """The implementations have different hash functions: the rows, their order and the errors are the same."""
    (payload, rows), base_offset, delta_min, delta_max = given
    hashes, offsets = module.hash_rows(payload, rows, base_offset, bytes(16), delta_min, delta_max)
    return len(hashes), offsets.tolist()


def digests_hashed(module: Any, given: tuple[tuple[bytes, array[int]], int, int, int]) -> object:
    (payload, rows), base_offset, *_ = given
    hashes, offsets = module.hash_digests(payload, rows, base_offset, bytes(16))
    return len(hashes), offsets.tolist()


def records_digested(module: Any, given: tuple[tuple[bytes, array[int]], int, int | None, bool, bool]) -> object:
    """As hashes of keys: which digests are equal is the same, and what their lowest bits say."""
    (payload, rows), base, append_time, times, headers = given
    how = {"append_time": append_time, "times": times, "headers": headers}
    digests = module.digest_records(payload, rows, base, base, bytes(16), **how)
    return (
        digests.offsets.tolist(),
        *(_ranks(column) for column in digests[1:]),
        [each & 1 for each in digests.contents],
    )


def _ranks(numbers: array[int]) -> list[int]:
    """Return for each number where its equal is first; 0 stays apart."""
    return [-1 if number == 0 else numbers.index(number) for number in numbers]


@st.composite
def similar_logs(draw: st.DrawFn) -> tuple[bytes, int, bytes, int, int, int, bool]:
    """Two logs that have a beginning in common, and what `equal_batches` takes beside them."""
    one, other = bytearray(draw(damaged_logs())), draw(damaged_logs())
    common = draw(st.integers(0, len(one)))
    second = bytearray(one[:common]) + other
    if second and draw(st.booleans()):
        second[draw(st.integers(0, len(second) - 1))] ^= draw(st.integers(1, 255))
    limits = (len(each) + draw(st.integers(-3, 300)) for each in (one, second))
    offsets = draw(st.sampled_from([(0, LONG_MAX), (0, 7), (5, 100), (-1, 2**62 + 3)]))
    return bytes(one), next(limits), bytes(second), next(limits), *offsets, draw(st.booleans())


@st.composite
def digested_records(draw: st.DrawFn) -> tuple[Any, ...]:
    """Two lists of offsets and contents, where to begin in them, and the limit; sometimes of different lengths."""
    lists = []
    for _ in range(2):
        offsets = array("q", draw(st.lists(st.integers(0, 30), unique=draw(st.booleans()), max_size=20).map(sorted)))
        contents = array("q", [draw(st.integers(0, 2)) for _ in offsets])
        if draw(st.integers(0, 9)) == 0:
            contents.append(0)
        lists += [offsets, contents, draw(st.integers(-1, 3) | st.just(0))]
    return *lists, draw(st.integers(0, 40))


LATEST = st.lists(
    st.tuples(st.sampled_from([0, 1, -1, 5, 1 << 20, -(1 << 63), LONG_MAX]), st.integers(0, 5), st.integers(0, 99)),
    max_size=9,
)


def latest_compared(module: Any, given: tuple[list[list[tuple[int, int, int]]], int, int, int]) -> object:
    """Two tables of latest records, each from two lists of records."""
    lists, slots, part, parts = given
    tables, used = (array("q", bytes(24 * slots)), array("q", bytes(24 * slots))), [0, 0]
    for number, records in enumerate(lists):
        keys, contents, offsets = (
            (array("q", column) for column in zip(*records, strict=True)) if records else [array("q")] * 3
        )
        digests = RecordDigests(offsets, contents, keys)
        used[number % 2] = module.keep_latest(tables[number % 2], used[number % 2], digests, part, parts)
    return *(table.tolist() for table in tables), used, module.compare_latest(*tables)


def offset_map(module: Any, given: tuple[list[tuple[bytes, int]], int]) -> object:
    puts, slots = given
    offsets = module.OffsetMap(slots * SLOT_SIZE, 0.8)
    added = [offsets.put(key, offset) for key, offset in puts]
    found = [offsets.get(key) for key in sorted({key for key, _ in puts} | {b"none"})]
    return added, found, offsets.count, offsets.count_max, offsets.latest_offset


def keys_indexed(module: Any, given: tuple[bytes, int, int, int]) -> object:
    """The first scan of compaction, with a map that becomes full."""
    block, latest_offset, _, floor = given
    offsets = module.OffsetMap(3 * SLOT_SIZE, 1.0)
    indexer = module.Indexer(offsets, latest_offset // 2)
    indexer.set_bounds(floor, LONG_MAX - 1)
    position, status = indexer.run(block, 0, len(block))
    if status == OTHER:  # its keys may be in the map or not: the map is discarded
        return position, status, indexer.floor
    found = [offsets.get(key) for key in (b"a", b"b", b"c", b"d", b"")]
    return position, status, found, offsets.latest_offset, indexer.records_read, indexer.floor


def records_filtered(module: Any, given: tuple[bytes, int, int, int]) -> object:
    """The second scan of compaction, with a larger buffer where it needs one."""
    block, latest_offset, size, floor = given
    offsets = module.OffsetMap(1000 * SLOT_SIZE, hash_key=bytes(16))
    for offset, key in enumerate((b"a", b"b", b"", b"c")):
        offsets.put(key, offset * 7)
    offsets.latest_offset = latest_offset
    records = module.Filter(offsets, 30, 5_000, 2**50, {1: 12, 2: 20, 3: 5})
    records.set_bounds(floor, 60)
    out, written, position = bytearray(size), b"", 0
    while True:
        position, end, status = records.run(block, position, len(block), out, 0)
        written += out[:end]
        if status == NO_SPACE and not end:
            out = bytearray(max(records.space_needed, len(out) + 1))
        elif status != NO_SPACE:
            counts = records.records_read, records.records_kept, records.records_without_key
            return position, status, written, counts, records.floor


def keys_added(module: Any, given: tuple[bytes, int, int, bool]) -> object:
    payload, count, last_delta, _ = given
    return module.Indexer(module.OffsetMap(2400), 0).add(payload, count, 0, last_delta)


def keys_added_until_full(module: Any, given: tuple[list[tuple[int, bytes]], int, int]) -> object:
    """Records whose offsets may fall, for a map that may become full before that."""
    records, slots, last_delta = given
    payload = b"".join(codec.encode([(key, b"", (), 0)], 0, delta) for delta, key in records)
    offsets = module.OffsetMap(slots * SLOT_SIZE, 1.0)
    indexer = module.Indexer(offsets, 0)
    outcome = indexer.add(payload, len(records), 0, last_delta)
    return outcome, offsets.count, indexer.records_read, indexer.floor


def records_retained(module: Any, given: tuple[bytes, int, int, bool]) -> object:
    payload, count, last_delta, has_horizon = given
    return module.Filter(module.OffsetMap(2400), 1000, 0, 0, {}).retain(payload, count, 0, last_delta, 100, has_horizon)


def rebased(module: Any, given: tuple[bytes, int, bool]) -> object:
    block, shift, is_constant = given
    batch = read_batch(block)
    return module.rebase(bytes(batch.payload()), batch.header.count, shift, is_constant)


def output_indexed(module: Any, given: tuple[bytes, int, int]) -> object:
    block, interval, entries_max = given
    indexer = module.OutputIndexer(0, interval, entries_max)
    for number in range(3):
        indexer.add(block, 0, len(block), number * len(block))
    indexer.finish()
    assert len(indexer.offsets) <= 8 * entries_max and len(indexer.times) <= 12 * (entries_max + 1)
    return bytes(indexer.offsets), bytes(indexer.times), indexer.last_offset


def messages_marked(module: Any, given: tuple[list[tuple[bytes | None, bytes | None]], int, bool]) -> object:
    records, latest_offset, tombstones_stay = given
    messages, rows = b"", array("q")
    for number, (key, value) in enumerate(records):
        sizes = [-1 if each is None else len(each) for each in (key, value)]
        rows.extend((number, 0, len(messages), sizes[0], len(messages) + len(key or b""), sizes[1], 0, 0))
        messages += (key or b"") + (value or b"")
    offsets = module.OffsetMap(4 * SLOT_SIZE, 1.0)
    is_all = module.Indexer(offsets, 1).add_rows(messages, rows, 0)
    offsets.latest_offset = latest_offset
    found = module.Filter(offsets, 100, 0, 0, {})
    marks = found.mark(messages, rows, 0, tombstones_stay)
    return is_all, offsets.count, marks, found.records_read, found.records_kept, found.records_without_key


COMPACTION: dict[str, Function] = {"Indexer.run": keys_indexed, "Filter.run": records_filtered}
MESSAGE_SET_FUNCTIONS = ("verify", "join", "measure")

COMPARISONS = {
    "records of damaged payloads": Comparison("codec", damaged_payloads(), READERS, 600),
    "records of odd numbers": Comparison(
        "codec", st.tuples(st.lists(ODD_RECORD, max_size=4).map(b"".join), st.integers(0, 4)), READERS, 400
    ),
    "records of random bytes": Comparison(
        "codec", st.tuples(st.binary(max_size=200), st.integers(-2, 30)), READERS, 200
    ),
    "lines into records": Comparison("codec", lines_to_split(), {"split": split}, 300),
    "headers of damaged logs": Comparison(
        "chain",
        ranges_of_logs(),
        {
            "sound": lambda module, given: module.sound(*given[:3], 7, *given[3]),
            "sound, plain": lambda module, given: module.sound(*given[:3], 7, *given[3], 0x37),
            "headers": lambda module, given: module.headers(*given[:3], given[2] + 9, 7),
        },
        150,
    ),
    "values of damaged logs": Comparison(
        "chain",
        logs_and_rows(),
        {
            "measure": lambda module, given: module.measure(given[0], 7, given[1]),
            "join": lambda module, given: module.join(given[0], 7, given[1]),
            "scan": lambda module, given: module.scan(given[0], 7, given[1], 3, 1001),
        },
        150,
    ),
    "indexes": Comparison(
        "chain",
        st.tuples(BATCHES, st.sampled_from([0, 100, 2**62, LONG_MAX]), st.sampled_from([0, 50, 4096])),
        {"index": index},
        300,
    ),
    "valid batches": Comparison("valid_batches", logs_and_rows(), {"valid_until": valid_until}, 200),
    "records as JSON": Comparison(
        "record_json",
        st.tuples(RECORDS.map(lambda records: (codec.encode(records, 0, 0), len(records))), frames()),
        {"join_json": json_lines},
        200,
    ),
    "damaged records as JSON": Comparison(
        "record_json", st.tuples(damaged_payloads(), frames()), {"join_json": json_lines, "refused": refused}, 300
    ),
    "lines of a dump": Comparison(
        "dump", st.tuples(DUMPED, STYLES, st.integers(0, 3000), st.integers(0, 40)), {"format_records": dumped}, 100
    ),
    "gaps": Comparison(
        "dump",
        st.tuples(st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3), max_size=20), NEAR_LONGS, NEAR_LONGS),
        {"follow": follow},
        100,
    ),
    "searches in entries of any order": Comparison(
        "index_search",
        st.tuples(INDEX_ENTRIES, st.integers(-60, 60) | st.integers(-(2**80), 2**80)),
        {"around": around, "time_floor": time_floor},
        300,
    ),
    "lines of JSON into a batch": Comparison("json_lines", json_lines_to_split(), {"split_json": json_split}, 150),
    "lines of JSON into batches of partitions": Comparison(
        "json_lines",
        json_lines_to_spread(),
        {"spread_json": json_spread, "spread_json on demand": json_spread_on_demand},
        100,
    ),
    "columns into records": Comparison(
        "columns", st.tuples(RANDOM_RECORDS, st.integers(0, 300)), {"encode_columns": encoded_columns}, 100
    ),
    "records into columns": Comparison(
        "columns",
        rows_of_columns(),
        {
            **{f"gather {each}": lambda module, given, each=each: module.gather(*given, each) for each in (KEY, VALUE)},
            "gather_headers": lambda module, given: module.gather_headers(*given),
        },
        200,
    ),
    "rows by patterns": Comparison(
        "field_patterns",
        rows_of_columns(),
        {
            f"count_patterns {column} {different}": lambda module, given, column=column, different=different: (
                module.count_patterns(*given, column, PATTERNS, different)
            )
            for column in (KEY, VALUE)
            for different in (0, 2, 100)
        },
        300,
    ),
    "sketches of rows": Comparison("record_sketch", rows_of_columns(), {"add_rows": sketched}, 100),
    "rows with some bytes": Comparison(
        "record_search",
        st.tuples(rows_of_columns(), st.binary(max_size=2), st.none() | st.binary(max_size=1)),
        {
            **{
                f"rows_with {fields} {whole}": lambda module, given, fields=fields, whole=whole: module.rows_with(
                    *given[0], given[1], fields, whole
                )
                for fields in (1, 2, 4, 7)
                for whole in (False, True)
            },
            "rows_with_header": lambda module, given: module.rows_with_header(*given[0], *given[1:]),
            "contains": lambda module, given: module.contains(given[0][0], given[1]),
        },
        300,
    ),
    "partitions of keys": Comparison(
        "columns",
        st.tuples(st.lists(DATA, max_size=20), st.integers(0, 20)),
        {"spread_keys": lambda module, given: module.spread_keys(column(given[0]), len(given[0]), given[1])},
        100,
    ),
    "hashes of keys": Comparison(
        "key_hash", KEYED_ROWS, {"hash_rows": keys_hashed, "hash_digests": digests_hashed}, 200
    ),
    "records as digests": Comparison(
        "comparison",
        st.tuples(rows_of_columns(), NEAR_LONGS, st.none() | NEAR_LONGS, st.booleans(), st.booleans()),
        {"digest_records": records_digested},
        300,
    ),
    "equal batches": Comparison(
        "comparison", similar_logs(), {"equal_batches": lambda module, given: module.equal_batches(*given)}, 400
    ),
    "latest records": Comparison(
        "comparison",
        st.tuples(
            st.lists(LATEST, min_size=4, max_size=4),
            st.sampled_from([1, 3, 8, 16, 64]),
            st.integers(0, 2),
            st.integers(0, 4),
        ),
        {"compare_latest": latest_compared},
        300,
    ),
    "merged digests": Comparison(
        "comparison", digested_records(), {"merge_digests": lambda module, given: module.merge_digests(*given)}, 300
    ),
    "message sets": Comparison(
        "message_set",
        st.tuples(message_sets(), LONGS, LONGS, st.booleans(), st.integers(0, 100)),
        {
            **{
                name: lambda module, given, name=name: getattr(module, name)(given[0]) for name in MESSAGE_SET_FUNCTIONS
            },
            "scan": lambda module, given: module.scan(*given[:4]),
            "run": lambda module, given: module.run(given[0], given[4]),
        },
        200,
    ),
    "offset maps": Comparison(
        "compaction",
        st.tuples(
            st.lists(st.tuples(st.binary(max_size=3), st.integers(0, LONG_MAX - 1)), max_size=60), st.integers(1, 40)
        ),
        {"OffsetMap": offset_map},
        60,
    ),
    "compaction of batches": Comparison(
        "compaction",
        st.tuples(plain_batches(), st.integers(-1, 60), st.integers(1, 300), st.integers(0, 2)),
        COMPACTION,
        60,
    ),
    "compaction of damaged batches": Comparison(
        "compaction", st.tuples(damaged_plain_batches(), st.just(20), st.just(400), st.just(0)), COMPACTION, 100
    ),
    "compaction of random bytes": Comparison(
        "compaction",
        st.tuples(st.binary(max_size=60), st.integers(-2, 6), st.integers(0, 9), st.booleans()),
        {"Indexer.add": keys_added, "Filter.retain": records_retained},
        80,
    ),
    "compaction with a map that becomes full": Comparison(
        "compaction",
        st.tuples(
            st.lists(st.tuples(st.integers(0, 20), KEYS), max_size=40).flatmap(
                lambda records: st.sampled_from([records, sorted(records, key=lambda record: record[0])])
            ),
            st.integers(1, 5),
            st.integers(0, 25),
        ),
        {"Indexer.add": keys_added_until_full},
        300,
    ),
    "compaction of old messages": Comparison(
        "compaction",
        st.tuples(st.lists(st.tuples(KEYS, VALUES), max_size=6), st.integers(-1, 8), st.booleans()),
        {"add_rows, mark": messages_marked},
        100,
    ),
    "timestamps of compacted records": Comparison(
        "compaction", st.tuples(plain_batches(), LONGS, st.booleans()), {"rebase": rebased}, 40
    ),
    "indexes of compacted segments": Comparison(
        "compaction",
        st.tuples(plain_batches(), st.integers(0, 300), st.integers(0, 6)),
        {"OutputIndexer": output_indexed},
        40,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("title", COMPARISONS)
def test_compiled_and_reference_agree(title: str) -> None:
    comparison = COMPARISONS[title]
    compiled = importlib.import_module(f"offsetfs.storage.native.{comparison.module}")
    reference = importlib.import_module(f"offsetfs.storage.reference.{comparison.module}")

    @settings(max_examples=comparison.examples, deadline=None)
    @given(comparison.inputs)
    def agree(given_input: object) -> None:
        for name, function in comparison.functions.items():
            assert outcome(function, compiled, given_input) == outcome(function, reference, given_input), name

    agree()
