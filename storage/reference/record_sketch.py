"""Sketches of the records of a log in bounded memory, in Python: the reference that tests compare
`native/record_sketch.pyx` with.

The state is one buffer of `STATE_BYTES`, zeros at first:

    numbers        16 × int64      counts, see the names below
    key sizes      864 × int64     a log-linear histogram: a size each below 32, then 32 buckets for each power of two
    value sizes    864 × int64     so that the middle of a bucket differs from a size in it by at most 1.6 %
    largest        10 × 2 × int64  sizes of key and value of the largest records, and their offsets
    registers      16,384 × uint8  HyperLogLog of the hashes of keys: a standard error of 0.8 %
    heavy keys     2048 × 64 bytes hash, count, size and first 40 bytes of keys: at most 1536 are counted at a time

If a key has no place among the heavy ones, the median count is subtracted from all, and keys without a rest are dropped
(Misra-Gries, as in the frequent items of Apache DataSketches). A count is at most `HEAVY_ERROR` too low, which is at
most 1/768 of the keyed records.

The hash is quick and not secret: a producer that constructs collisions falsifies estimates, and nothing else.
"""

from __future__ import annotations

import struct
from array import array

from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.units import I64_MAX, I64_MIN, wrapped

(
    RECORDS,
    KEYED,
    NULL_VALUES,
    TOMBSTONES,
    WITH_HEADERS,
    HEADERS,
    KEY_BYTES,
    VALUE_BYTES,
    HEAVY_USED,
    HEAVY_ERROR,
) = range(10)
NUMBERS = 16
BUCKETS = 864
LARGEST = 10
REGISTER_BITS = 14
REGISTERS = 1 << REGISTER_BITS
HEAVY_SLOTS = 2048
HEAVY_MAX = 1536
KEY_PREFIX = 40
HEAVY = struct.Struct(f"=Qqq{KEY_PREFIX}s")
HEAVY_BYTES = HEAVY.size

KEY_SIZES_START = NUMBERS * 8
VALUE_SIZES_START = KEY_SIZES_START + BUCKETS * 8
LARGEST_START = VALUE_SIZES_START + BUCKETS * 8
REGISTERS_START = LARGEST_START + LARGEST * 16
HEAVY_START = REGISTERS_START + REGISTERS
STATE_BYTES = HEAVY_START + HEAVY_SLOTS * HEAVY_BYTES

_K = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def add_rows(state: bytearray, payload: Buffer, rows: array[int], base_offset: int) -> tuple[int, int]:
    """Add the records of a batch: its payload and `Batch.rows`. Return the least and the greatest timestamp delta.

    Without rows the least is 2⁶³−1 and the greatest −2⁶³. ValueError if the state or the rows are of something else;
    then a part of the rows may have been added.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    sketch, view = _Views(state), memoryview(payload)
    least, greatest = I64_MAX, I64_MIN
    for number in range(0, len(rows), COLUMNS):
        delta, timestamp, key_at, key_size, value_at, value_size, _, headers = rows[number : number + COLUMNS]
        if not (_is_field(key_at, key_size, len(view)) and _is_field(value_at, value_size, len(view))):
            raise ValueError("a field outside of its payload")
        least, greatest = min(least, timestamp), max(greatest, timestamp)
        key = bytes(view[key_at : key_at + key_size]) if key_size >= 0 else None
        sketch.add(key, value_size, headers, wrapped(base_offset + delta))
    return least, greatest


def merge(state: bytearray, other: bytes | bytearray) -> None:
    """Add the records of another sketch. ValueError if one of the two is no state."""
    sketch, added = _Views(state), _Views(bytearray(other))
    for place in range(NUMBERS):
        if place != HEAVY_USED:
            sketch.numbers[place] = wrapped(sketch.numbers[place] + added.numbers[place])
    for mine, others in ((sketch.key_sizes, added.key_sizes), (sketch.value_sizes, added.value_sizes)):
        for place in range(BUCKETS):
            mine[place] = wrapped(mine[place] + others[place])
    for place in range(0, 2 * LARGEST, 2):
        sketch.add_large(*added.largest[place : place + 2])
    for place, register in enumerate(added.registers):
        sketch.registers[place] = max(sketch.registers[place], register)
    for hashed, count, size, prefix in added.heavy():
        if count > 0:
            sketch.add_heavy(hashed, count, prefix, size)


def bucket_of(size: int) -> int:
    """Return the bucket of a size in [0, 2³¹)."""
    shift = max(size.bit_length() - 6, 0)
    return 32 * shift + (size >> shift)


def bucket_bounds(bucket: int) -> tuple[int, int]:
    """Return the least size of a bucket, and the least beyond it."""
    shift = max(bucket // 32 - 1, 0)
    low = (bucket - 32 * shift) << shift
    return low, low + (1 << shift)


def hash_of(key: bytes) -> int:
    """Return the hash of a key, 64 bits without a sign."""
    hashed = len(key) * _K & _MASK
    whole = len(key) & ~7
    for position in range(0, whole, 8):
        hashed = (hashed ^ int.from_bytes(key[position : position + 8], "little")) * _K & _MASK
        hashed ^= hashed >> 32
    if whole < len(key):
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _K & _MASK
    hashed = (hashed ^ hashed >> 33) * 0xFF51AFD7ED558CCD & _MASK
    hashed = (hashed ^ hashed >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return hashed ^ hashed >> 33


def _is_field(position: int, field_size: int, size: int) -> bool:
    return field_size < 0 or (0 <= position <= size and field_size <= min(size - position, (1 << 31) - 1))


class _Views:
    """The parts of a state."""

    def __init__(self, state: bytearray) -> None:
        if len(state) != STATE_BYTES:
            raise ValueError("no state of a sketch")
        self._whole = memoryview(state)
        self.numbers = self._whole[:KEY_SIZES_START].cast("q")
        self.key_sizes = self._whole[KEY_SIZES_START:VALUE_SIZES_START].cast("q")
        self.value_sizes = self._whole[VALUE_SIZES_START:LARGEST_START].cast("q")
        self.largest = self._whole[LARGEST_START:REGISTERS_START].cast("q")
        self.registers = self._whole[REGISTERS_START:HEAVY_START]
        self._slots = self._whole[HEAVY_START:]

    def heavy(self) -> list[tuple[int, int, int, bytes]]:
        """Return all slots: hash, count, size, first bytes."""
        return list(HEAVY.iter_unpack(self._slots))

    def add(self, key: bytes | None, value_size: int, headers: int, offset: int) -> None:
        numbers = self.numbers
        numbers[RECORDS] += 1
        if headers > 0:
            numbers[WITH_HEADERS] += 1
            numbers[HEADERS] = wrapped(numbers[HEADERS] + headers)
        if value_size < 0:
            numbers[NULL_VALUES] += 1
            numbers[TOMBSTONES] += key is not None
        else:
            self.value_sizes[bucket_of(value_size)] += 1
            numbers[VALUE_BYTES] += value_size
        if key is not None:
            numbers[KEYED] += 1
            numbers[KEY_BYTES] += len(key)
            self.key_sizes[bucket_of(len(key))] += 1
            self._add_key(key)
        self.add_large(max(value_size, 0) + len(key or b""), offset)

    def add_large(self, size: int, offset: int) -> None:
        largest = self.largest
        place = 2 * (LARGEST - 1)
        if size <= largest[place]:
            return
        while place > 0 and size > largest[place - 2]:
            largest[place], largest[place + 1] = largest[place - 2], largest[place - 1]
            place -= 2
        largest[place], largest[place + 1] = size, offset

    def _add_key(self, key: bytes) -> None:
        hashed = hash_of(key)
        rest = hashed >> REGISTER_BITS | 1 << 50
        number = hashed & (REGISTERS - 1)
        self.registers[number] = max(self.registers[number], (rest & -rest).bit_length())
        self.add_heavy(hashed, 1, key, len(key))

    def add_heavy(self, hashed: int, count: int, key: bytes, size: int) -> None:
        position, found = self._slot_of(hashed)
        if not found:
            if self.numbers[HEAVY_USED] >= HEAVY_MAX:
                self._purge()
                position, _ = self._slot_of(hashed)
            self.numbers[HEAVY_USED] += 1
            HEAVY.pack_into(self._slots, position, hashed, count, size, key[:KEY_PREFIX])
            return
        _, before, size, prefix = HEAVY.unpack_from(self._slots, position)
        HEAVY.pack_into(self._slots, position, hashed, before + count, size, prefix)

    def _slot_of(self, hashed: int) -> tuple[int, bool]:
        """Return the position of the slot of a hash, and True; or that of the empty slot for it, and False."""
        slot = hashed >> 11
        while True:
            position = (slot & (HEAVY_SLOTS - 1)) * HEAVY_BYTES
            stored, count, _, _ = HEAVY.unpack_from(self._slots, position)
            if count == 0 or stored == hashed:
                return position, count != 0
            slot += 1

    def _purge(self) -> None:
        live = [entry for entry in self.heavy() if entry[1]]
        median = sorted(count for _, count, _, _ in live)[HEAVY_MAX // 2 - 1]
        self._slots[:] = bytes(len(self._slots))
        self.numbers[HEAVY_USED] = 0
        self.numbers[HEAVY_ERROR] = wrapped(self.numbers[HEAVY_ERROR] + median)
        for hashed, count, size, prefix in live:
            if count > median:
                position, _ = self._slot_of(hashed)
                HEAVY.pack_into(self._slots, position, hashed, count - median, size, prefix)
                self.numbers[HEAVY_USED] += 1
