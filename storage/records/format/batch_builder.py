"""The open batch of a writer: encodes records directly into a preallocated buffer, and seals the batch.

A builder is empty, open, or sealed. Guarantees: a record that does not fit is refused as a whole, and nothing of it is
written, so the caller seals, appends to the log, resets and tries again; and the size of a sealed batch is known before
it is written. The log stamps offset and leader epoch in place. The limit is on the batch before compression, like
Kafka's `batch.size`. A compressed batch may come out larger than the plain one and stays compressed, as in Kafka. Not
thread-safe. Follows MemoryRecordsBuilder.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from offsetfs.storage.records.compression.compression import UNCOMPRESSED, Compression, compress
from offsetfs.storage.records.format import codec, varint
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, seal_checksum, write_new_header
from offsetfs.storage.records.json import record_json
from offsetfs.storage.records.json.record_json import BatchCursor, JsonRules, JsonSplit, JsonSpread
from offsetfs.storage.units import I32_MAX, I64_MAX, NO_TIMESTAMP, Timestamp

RECORD_OVERHEAD_MAX = 21
"""The bytes that Kafka's estimate adds to key, value and headers: length 5, attributes 1, timestamp 10,
offset 5. The sizes of key and value and the header count come on top; `record_size` counts them all."""

BATCH_BYTES_MAX = I32_MAX
TIMESTAMP_MAX = I64_MAX

# Kept between calls: for a caller that has one line at a time, making them takes a quarter of the time of a call.
_rules = functools.lru_cache(maxsize=16)(JsonRules)
_new_tuple = tuple.__new__  # half the time of the `__new__` of a named tuple, which is written in Python

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A finished batch, base offset 0 and leader epoch -1, for `Log.append`.

    `data` is writable and, but for a compressed batch that came out larger than it may be, the builder's own buffer: it
    holds until `reset`. `size` is `len(data)`; `values_bytes` is what the records take in `values`, a newline each.
    """

    data: memoryview
    count: int
    values_bytes: int
    max_timestamp: Timestamp
    size: int


class BatchBuilder:
    """One batch in the making, in a buffer of `bytes_max` bytes."""

    OVERHEAD_BYTES = HEADER_SIZE
    """The bytes of a batch beside its records: `bytes_max` less this bounds a `record_size`."""
    BYTES_MIN = HEADER_SIZE + codec.RECORD_SIZE_MIN
    """The smallest `bytes_max`: a batch of one record without key, value and headers."""

    __slots__ = (
        "_base_timestamp",
        "_buffer",
        "_compressed",
        "_sealed",
        "bytes_max",
        "compression",
        "count",
        "max_timestamp",
        "size",
        "values_bytes",
    )

    def __init__(self, bytes_max: int, compression: Compression = UNCOMPRESSED) -> None:
        if not self.BYTES_MIN <= bytes_max <= BATCH_BYTES_MAX:
            raise ValueError(f"a batch of {bytes_max} bytes")
        self.bytes_max = bytes_max
        self.compression = compression
        # Allocated once: `reset` reuses it, because a new megabyte costs up to 256 page faults.
        self._buffer = memoryview(bytearray(bytes_max))
        self.reset()

    def reset(self) -> None:
        """Begin a new batch in the same buffer; a `SealedBatch` is overwritten from now on."""
        self.count = 0
        self.size = HEADER_SIZE
        self.values_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self._base_timestamp = 0
        self._compressed: memoryview | None = None  # the batch, once its records are replaced by their compressed form
        self._sealed = False

    @property
    def is_empty(self) -> bool:
        return self.count == 0

    def split(self, data: Buffer, start: int, end: int, timestamp: int) -> int:
        """Encode the whole lines of `data[start:end]` as records, as many as fit; return the position of the rest.

        A rest without a newline stays with the caller. If nothing of data with a newline is encoded, the next line does
        not fit; into an empty builder it never will. Lines whose timestamp is 2^63 ms or more above the first of the
        batch do not fit either, because a batch stores the difference in 64 bits.
        """
        timestamp_delta = self._delta_of(timestamp)
        if timestamp_delta > I64_MAX:
            return start
        rest, self.size, count = codec.split(data, start, end, self._buffer, self.size, self.count, timestamp_delta)
        if count > self.count:
            self._note(timestamp, count, rest - start)
        return rest

    def split_json(
        self,
        data: Buffer,
        start: int,
        end: int,
        now_ms: int,
        *,
        needs_key: bool = False,
        earliest: int = NO_TIMESTAMP,
        latest: int = TIMESTAMP_MAX,
        values_as_text: bool = False,
    ) -> JsonSplit:
        """Encode the whole lines of `data[start:end]`, each a JSON object, as records, as far as they fit and are
        valid.

        `start` of the result is the position of the rest. The line there is invalid (`fault`), or does not fit: then
        `record_bytes` is its size as `record_size` returns it, which decides whether it ever fits. `now_ms`: the
        timestamp of records without their own. `needs_key` refuses records without a key, `earliest` and `latest` those
        with a timestamp outside, except -1, which means none. `values_as_text` stores a `value` that is not a string as
        its text. Blank lines are skipped.
        """
        assert not self._sealed
        rules = _rules(now_ms, needs_key, earliest, latest, values_as_text)
        split = record_json.split_json(data, start, end, self.cursor, rules, I32_MAX)
        self.size = split.position
        if split.offset_delta > self.count:
            assert split.base_timestamp is not None
            self._note(split.max_timestamp, split.offset_delta, split.values_bytes)
            self._base_timestamp = split.base_timestamp
        return split

    @property
    def cursor(self) -> BatchCursor:
        """The batch as `spread_json` wants it."""
        assert not self._sealed
        base_timestamp = self._base_timestamp if self.count else None
        return _new_tuple(BatchCursor, (self._buffer, self.size, self.count, base_timestamp, -1, 0))

    def grown(self, cursor: BatchCursor) -> None:
        """Continue at `cursor`, which `spread_json` or `encode_columns` returned."""
        assert cursor.base_timestamp is not None
        self.size = cursor.position
        self._note(cursor.max_timestamp, cursor.offset_delta, cursor.values_bytes)
        self._base_timestamp = cursor.base_timestamp

    def append(
        self, key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, Buffer | None]], timestamp: int
    ) -> bool:
        """Encode one record; return False, without a change, if it does not fit. See `record_size` and `split`."""
        timestamp_delta = self._delta_of(timestamp)
        if timestamp_delta > I64_MAX:
            return False
        value_size = len(value) if value is not None else 0
        space = self.bytes_max - self.size
        if value_size + (len(key) if key is not None else 0) > space:
            return False
        record = codec.encode([(key, value, headers, timestamp)], timestamp - timestamp_delta, self.count)
        if len(record) > space:
            return False
        self._buffer[self.size : self.size + len(record)] = record
        self.size += len(record)
        self._note(timestamp, self.count + 1, value_size + 1)
        return True

    def seal(self, *, is_compressed: bool = True) -> SealedBatch:
        """Finish the batch: header, compression, checksum. The builder accepts no more records until `reset`.

        After a MemoryError it can be called again: no record is lost. `is_compressed=False` needs less memory.
        """
        assert self.count > 0
        self._sealed = True
        # Once only: after a MemoryError, sealing again compressed the records that were compressed already.
        if self._compressed is None and self.compression.codec and is_compressed:
            self._compress()
        data = self._buffer[: self.size] if self._compressed is None else self._compressed
        attributes = 0 if self._compressed is None else self.compression.codec
        write_new_header(data, attributes, self.count, self._base_timestamp, self.max_timestamp)
        seal_checksum(data)
        return SealedBatch(data, self.count, self.values_bytes, self.max_timestamp, len(data))

    def _compress(self) -> None:
        """Put the compressed records where the plain ones were: their memory is this batch's already."""
        payload = compress(self.compression.name, self._buffer[HEADER_SIZE : self.size], self.compression.level)
        size = HEADER_SIZE + len(payload)
        data = self._buffer[:size] if size <= self.bytes_max else memoryview(bytearray(size))
        data[HEADER_SIZE:] = payload
        self._compressed = data  # nothing is allocated between these two lines, so that no MemoryError parts them

    def _delta_of(self, timestamp: int) -> int:
        assert not self._sealed
        if not NO_TIMESTAMP <= timestamp <= TIMESTAMP_MAX:
            raise ValueError(f"a timestamp of {timestamp}; give milliseconds since 1970, from -1 (none) to 2^63-1")
        return timestamp - self._base_timestamp if self.count else 0

    def _note(self, timestamp: int, count: int, values_bytes: int) -> None:
        if self.count == 0:
            self._base_timestamp = timestamp
        self.count = count
        self.values_bytes += values_bytes
        self.max_timestamp = Timestamp(max(self.max_timestamp, timestamp))


def spread_json_lines(
    builders: Sequence[BatchBuilder | None],
    data: Buffer,
    start: int,
    end: int,
    now_ms: int,
    *,
    keyless: int,
    needs_key: bool = False,
    earliest: int = NO_TIMESTAMP,
    latest: int = TIMESTAMP_MAX,
    honors_partition: bool = False,
    values_as_text: bool = False,
) -> JsonSpread:
    """Take lines as `BatchBuilder.split_json`, each into the builder of its key's partition (see `partitioner`).

    What has no key goes to number `keyless`; with `honors_partition` a record that names its `partition` goes there.
    Stops at the first line whose builder is None or has no space: `partition` of the result is its number. `cursors` of
    the result has the builders that took something.
    """
    cursors = [None if builder is None else builder.cursor for builder in builders]
    rules = JsonRules(now_ms, needs_key, earliest, latest, values_as_text, honors_partition)
    spread = record_json.spread_json(data, start, end, cursors, keyless, rules)
    for number, cursor in spread.cursors.items():
        builder = builders[number]
        assert builder is not None
        builder.grown(cursor)
    return spread


def record_size(
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, Buffer | None]] = (),
    *,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
) -> int:
    """Return the exact size of a record in a batch, in bytes.

    With deltas of 0 it is the size as the first record of a batch, its smallest one: a record whose `record_size`
    exceeds `bytes_max - HEADER_SIZE` never fits.
    """
    body = 1 + varint.size(timestamp_delta) + varint.size(offset_delta) + _field_size(key) + _field_size(value)
    body += varint.size(len(headers))
    for name, header_value in headers:
        body += _field_size(name.encode("utf-8", "surrogateescape")) + _field_size(header_value)
    return varint.size(body) + body


def _field_size(data: Buffer | None) -> int:
    return varint.size(-1) if data is None else varint.size(len(data)) + len(data)


@functools.lru_cache(maxsize=64)
def value_bytes_max(batch_bytes: int) -> int:
    """Return the size of the largest value that fits into a batch of `batch_bytes`, without key and headers.

    -1 when none does.
    """
    space = batch_bytes - HEADER_SIZE
    sizes = range(max(0, space - RECORD_OVERHEAD_MAX), max(0, space))
    return max((size for size in sizes if _value_record_size(size) <= space), default=-1)


def _value_record_size(value_size: int) -> int:
    body = 5 + varint.size(value_size) + value_size  # 5: attributes, two deltas of 0, no key, no headers
    return varint.size(body) + body
