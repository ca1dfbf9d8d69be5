"""A sketch of the records of a log: sizes, keys, nulls, headers, in `SKETCH_BYTES` of memory.

The state is filled by `add_rows`, compiled or in Python; `offsetfs.storage.reference.record_sketch` has its layout and
the errors of the estimates.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.storage.native import select
from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.reference import record_sketch as layout

if TYPE_CHECKING:
    _record_sketch = layout
else:
    _record_sketch = select("record_sketch")

SKETCH_BYTES = layout.STATE_BYTES


class HeavyKey(NamedTuple):
    """A key with many records: at least `records`, at most `heavy_error` more."""

    records: int
    key: bytes
    """The first bytes, at most 40."""
    key_size: int


class RecordSketch:
    """The records that were added. Not thread-safe; two threads may fill two sketches, which `merge` joins."""

    __slots__ = ("_numbers", "state")

    def __init__(self) -> None:
        self.state = bytearray(SKETCH_BYTES)
        self._numbers = memoryview(self.state)[: layout.KEY_SIZES_START].cast("q")

    def add_rows(self, payload: Buffer, rows: array[int], base_offset: int) -> tuple[int, int]:
        """Add the records of a batch; return the least and the greatest timestamp delta. The GIL is released."""
        return _record_sketch.add_rows(self.state, payload, rows, base_offset)

    def merge(self, state: bytes | bytearray) -> None:
        """Add the records of another sketch by its state. ValueError if it is none."""
        _record_sketch.merge(self.state, state)

    @property
    def records(self) -> int:
        return self._numbers[layout.RECORDS]

    @property
    def keyed(self) -> int:
        """Records with a key, empty keys too."""
        return self._numbers[layout.KEYED]

    @property
    def null_values(self) -> int:
        return self._numbers[layout.NULL_VALUES]

    @property
    def tombstones(self) -> int:
        """Records with a key and a null value."""
        return self._numbers[layout.TOMBSTONES]

    @property
    def with_headers(self) -> int:
        """Records with at least one header."""
        return self._numbers[layout.WITH_HEADERS]

    @property
    def headers(self) -> int:
        return self._numbers[layout.HEADERS]

    @property
    def key_bytes(self) -> int:
        return self._numbers[layout.KEY_BYTES]

    @property
    def value_bytes(self) -> int:
        return self._numbers[layout.VALUE_BYTES]

    @property
    def heavy_error(self) -> int:
        """How much the counts of `heavy_keys` are too low at most; 0: they are exact."""
        return self._numbers[layout.HEAVY_ERROR]

    @property
    def distinct_keys(self) -> int:
        """The estimated number of different keys, with a standard error of 0.8 %; nearly exact below 10,000."""
        registers = self.state[layout.REGISTERS_START : layout.HEAVY_START]
        count, empty = layout.REGISTERS, registers.count(0)
        if self.heavy_error == 0:  # all keys are in the table
            return self._numbers[layout.HEAVY_USED]
        alpha = 0.7213 / (1 + 1.079 / count)
        total = sum(registers.count(place) * 2.0**-place for place in range(52))
        estimate = alpha * count**2 / total
        if estimate <= 2.5 * count and empty:
            estimate = count * math.log(count / empty)
        return min(round(estimate), self.keyed)

    def key_size_buckets(self) -> list[tuple[int, int, int]]:
        """Return (least size, least beyond, records) of the buckets of key sizes that have records."""
        return self._buckets(layout.KEY_SIZES_START)

    def value_size_buckets(self) -> list[tuple[int, int, int]]:
        """Return the same for values that are not null."""
        return self._buckets(layout.VALUE_SIZES_START)

    def _buckets(self, start: int) -> list[tuple[int, int, int]]:
        counts = memoryview(self.state)[start : start + 8 * layout.BUCKETS].cast("q")
        return [(*layout.bucket_bounds(bucket), count) for bucket, count in enumerate(counts) if count]

    def largest(self) -> list[tuple[int, int]]:
        """Return sizes, of key and value, and offsets of the largest records; the largest first."""
        numbers = memoryview(self.state)[layout.LARGEST_START : layout.REGISTERS_START].cast("q").tolist()
        return [(size, offset) for size, offset in zip(numbers[::2], numbers[1::2], strict=True) if size]

    def heavy_keys(self, count_max: int) -> list[HeavyKey]:
        """Return the keys with the most records, at most `count_max`."""
        slots = layout.HEAVY.iter_unpack(memoryview(self.state)[layout.HEAVY_START :])
        keys = [HeavyKey(count, prefix[:size], size) for _, count, size, prefix in slots if count]
        return sorted(keys, key=lambda heavy_key: (-heavy_key.records, heavy_key.key))[:count_max]


def quantile(buckets: list[tuple[int, int, int]], share: float) -> int | None:
    """Return the size that a share of the records does not pass, within 1.6 %; None without records."""
    total, done = sum(count for _, _, count in buckets), 0
    for low, beyond, count in buckets:
        done += count
        if done >= share * total:
            return (low + beyond - 1) // 2
    return None
