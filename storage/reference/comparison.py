"""Comparison of two logs, in Python: the reference that tests compare `native/comparison.pyx` with.

`equal_batches` compares the bytes of batches, `digest_records` makes numbers of records, and `merge_digests` compares
those by offset. Digests are 64 bits with a seed of 16 bytes: BLAKE2b here, SipHash-2-4 in the compiled form. In both,
an attacker who does not know the seed cannot construct two records with the same digest.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from typing import NamedTuple

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import varint
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_POSITION, Buffer
from offsetfs.storage.records.format.record_row import COLUMNS
from offsetfs.storage.units import I64_MAX, wrapped

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = struct.Struct(">QqqqqQqQ")
_EPOCH_POSITION = 12
NO_KEY = 0
"""The digest of a null key; that of a key is never 0."""

NULL_VALUE = 1
"""The lowest bit of the digest of a record without a value; 0 in that of others."""


class EqualBatches(NamedTuple):
    """The batches that are equal in two blocks, from the starts of both on."""

    size_a: int
    """The bytes that they take in the first block; with `headers_only` they may reach beyond it."""
    size_b: int
    batches: int
    records: int
    """The sum of what the headers say."""
    next_offset: int
    """The offset behind the last one; `offset_min` without any."""
    other_epochs: int
    """How many have another leader epoch, which no checksum covers."""
    other_epoch_offset: int
    """The offset of the first of these, or -1."""


def equal_batches(
    a: Buffer, limit_a: int, b: Buffer, limit_b: int, offset_min: int, offset_max: int, headers_only: bool
) -> EqualBatches:
    """Return how many v2 batches from the beginning of `a` and `b` on are equal byte by byte, but for leader epochs.

    `limit_a`, `limit_b`: the bytes up to which batches may reach, the rest of the file. Offsets rise from `offset_min`
    on, and end before `offset_max`. With `headers_only` the bytes behind the headers are not looked at: the stored
    checksums are in the headers. The walk ends at the first batch that differs, is not of v2, or is not whole in both.
    """
    left, right, other_epoch_offset = memoryview(a), memoryview(b), -1
    at_a = at_b = batches = records = other_epochs = 0
    while min(len(left) - at_a, len(right) - at_b) >= HEADER_SIZE:
        base, length, epoch, magic, _, _, delta, _, _, _, _, _, count = _HEADER.unpack_from(left, at_a)
        size, compared = length + LOG_OVERHEAD, HEADER_SIZE if headers_only else length + LOG_OVERHEAD
        if magic != MAGIC or not HEADER_SIZE <= size <= min(limit_a - at_a, limit_b - at_b):
            break
        if not headers_only and size > min(len(left) - at_a, len(right) - at_b):
            break
        if delta < 0 or count < 0 or base < offset_min or base > I64_MAX - 1 - delta or base + delta >= offset_max:
            break
        if left[at_a : at_a + _EPOCH_POSITION] != right[at_b : at_b + _EPOCH_POSITION]:
            break
        if left[at_a + MAGIC_POSITION : at_a + compared] != right[at_b + MAGIC_POSITION : at_b + compared]:
            break
        if epoch != _HEADER.unpack_from(right, at_b)[2]:
            other_epoch_offset = other_epoch_offset if other_epochs else base
            other_epochs += 1
        at_a, at_b, batches, records, offset_min = (
            at_a + size,
            at_b + size,
            batches + 1,
            records + count,
            base + delta + 1,
        )
    return EqualBatches(at_a, at_b, batches, records, offset_min, other_epochs, other_epoch_offset)


class RecordDigests(NamedTuple):
    """The records of a batch as numbers, one of each for a record."""

    offsets: array[int]
    contents: array[int]
    """Of key, value, and what else was asked for; the lowest bit is `NULL_VALUE`."""
    keys: array[int]
    """Of the key alone, `NO_KEY` for null."""


def digest_records(
    payload: Buffer,
    rows: array[int],
    base_offset: int,
    base_timestamp: int,
    seed: bytes,
    *,
    append_time: int | None = None,
    times: bool = True,
    headers: bool = True,
) -> RecordDigests:
    """Return the digests of the records in the rows of a batch (`Batch.rows`).

    `append_time`: the timestamp of all records; None: that of each is `base_timestamp` and its delta. `times`,
    `headers`: whether they are part of the contents. `MalformedBatch` for headers that are none. ValueError if the rows
    are of another payload.
    """
    if rows.typecode != "q" or len(rows) % COLUMNS:
        raise ValueError("no rows")
    digests, view = RecordDigests(array("q"), array("q"), array("q")), memoryview(payload)
    for at in range(0, len(rows), COLUMNS):
        delta, time, key_at, key_size, value_at, value_size, headers_at, headers_count = rows[at : at + COLUMNS]
        key, value = _hash(_field(view, key_at, key_size), seed), _hash(_field(view, value_at, value_size), seed)
        timestamp = wrapped(base_timestamp + time) if append_time is None else append_time
        count = headers_count if headers else 0
        section = _header_section(view, headers_at, count)
        fields = _FIELDS.pack(
            key, key_size, timestamp if times else 0, value_size, count, value, len(section), _hash(section, seed)
        )
        digests.offsets.append(wrapped(base_offset + delta))
        digests.contents.append(_signed(_hash(fields, seed) & ~NULL_VALUE | (value_size < 0)))
        digests.keys.append(NO_KEY if key_size < 0 else _signed(key) or 1)
    return digests


def _hash(data: Buffer, seed: bytes) -> int:
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=seed).digest(), "big")


def _signed(number: int) -> int:
    return number - (1 << 64) if number > I64_MAX else number


def _field(view: memoryview, position: int, size: int) -> memoryview:
    if size >= 0 and (position < 0 or size > len(view) - position):
        raise ValueError("a field outside of its batch")
    return view[position : position + max(size, 0)] if size >= 0 else view[:0]


def _header_section(view: memoryview, start: int, count: int) -> memoryview:
    if count <= 0:
        return view[:0]
    if not 0 <= start <= len(view):
        raise ValueError("headers outside of their batch")
    position = start
    for _ in range(2 * count):
        size, position = varint.decode(view, position, len(view))
        if size > len(view) - position:
            raise MalformedBatch("a field longer than what is left")
        position += max(size, 0)
    return view[start:position]


class Merged(NamedTuple):
    """The result of `merge_digests`: numbers of records in the arrays, and where each differs."""

    at_a: int
    at_b: int
    equal: int
    changed_a: array[int]
    """The records of the first that have other contents at the same offset in the second, and those in that."""
    changed_b: array[int]
    only_a: array[int]
    only_b: array[int]


def merge_digests(
    offsets_a: array[int],
    contents_a: array[int],
    at_a: int,
    offsets_b: array[int],
    contents_b: array[int],
    at_b: int,
    limit: int,
) -> Merged:
    """Compare two lists of records with rising offsets, from `at_a` and `at_b` on, up to the offset `limit`."""
    if len(offsets_a) != len(contents_a) or len(offsets_b) != len(contents_b) or min(at_a, at_b) < 0:
        raise ValueError("arrays that do not belong together")
    equal, changed_a, changed_b, only_a, only_b = 0, array("q"), array("q"), array("q"), array("q")
    while True:
        a = offsets_a[at_a] if at_a < len(offsets_a) else limit
        b = offsets_b[at_b] if at_b < len(offsets_b) else limit
        if min(a, b) >= limit:
            return Merged(at_a, at_b, equal, changed_a, changed_b, only_a, only_b)
        if a == b and contents_a[at_a] == contents_b[at_b]:
            equal += 1
        elif a == b:
            changed_a.append(at_a)
            changed_b.append(at_b)
        elif a < b:
            only_a.append(at_a)
        else:
            only_b.append(at_b)
        at_a, at_b = at_a + (a <= b), at_b + (b <= a)


LATEST_COLUMNS = 3
"""The numbers of a slot in a table of latest records: digest of the key, `NO_KEY` if it is empty; contents; offset."""


class LatestDiff(NamedTuple):
    """The result of `compare_latest`. A key whose latest record has no value is absent."""

    equal: int
    changed: int
    only_a: int
    only_b: int
    first_key: int
    """The least key that differs, as an unsigned number; `NO_KEY` if none does. It does not depend on the tables."""
    first_a: int
    """The offset of its latest record, with a value or without; -1 without any."""
    first_b: int


def keep_latest(table: array[int], used: int, digests: RecordDigests, part: int, parts: int) -> int:
    """Put records into a table, each in place of an earlier one of its key; return how many slots are used then.

    Of the keys only those of one part, without the null key. A table has a power of two of slots, all zeros when it is
    new. ValueError if it could become full.
    """
    slots = _slots(table)
    if not len(digests.offsets) == len(digests.contents) == len(digests.keys):
        raise ValueError("arrays that do not belong together")
    if not 0 <= part < parts or used < 0 or len(digests.keys) >= slots - used:
        raise ValueError("a table that is too small")
    for key, content, offset in zip(digests.keys, digests.contents, digests.offsets, strict=True):
        if key != NO_KEY and key % (1 << 64) % parts == part:
            at = _slot_of(table, slots, key)
            used += table[at] == NO_KEY
            table[at : at + LATEST_COLUMNS] = array("q", (key, content, offset))
    return used


def compare_latest(a: array[int], b: array[int]) -> LatestDiff:
    """Compare two tables."""
    slots_a, slots_b = _slots(a), _slots(b)
    equal = changed = only_a = only_b = 0
    differing = list[tuple[int, int]]()
    for at in range(0, len(a), LATEST_COLUMNS):
        other = _slot_of(b, slots_b, a[at])
        has_a, has_b = not a[at + 1] & NULL_VALUE, b[other] != NO_KEY and not b[other + 1] & NULL_VALUE
        if a[at] == NO_KEY or not (has_a or has_b):
            continue
        is_same = has_a == has_b and a[at + 1] == b[other + 1]
        equal, changed = equal + is_same, changed + (has_a and has_b and not is_same)
        only_a, only_b = only_a + (not has_b), only_b + (not has_a)
        if not is_same:
            differing.append((a[at] % (1 << 64), a[at]))
    for at in range(0, len(b), LATEST_COLUMNS):
        if b[at] != NO_KEY and not b[at + 1] & NULL_VALUE and a[_slot_of(a, slots_a, b[at])] == NO_KEY:
            only_b += 1
            differing.append((b[at] % (1 << 64), b[at]))
    _, first = min(differing, default=(NO_KEY, NO_KEY))
    return LatestDiff(
        equal, changed, only_a, only_b, first, _offset_of(a, slots_a, first), _offset_of(b, slots_b, first)
    )


def _slots(table: array[int]) -> int:
    slots = len(table) // LATEST_COLUMNS
    if table.typecode != "q" or slots < 1 or slots & (slots - 1) or len(table) % LATEST_COLUMNS:
        raise ValueError("no table of latest records")
    return slots


def _slot_of(table: array[int], slots: int, key: int) -> int:
    """Return the place of a key, or of the empty slot for it."""
    slot = key >> 20 & (slots - 1)
    for _ in range(slots):
        if table[slot * LATEST_COLUMNS] in (key, NO_KEY):
            break
        slot = (slot + 1) & (slots - 1)
    return slot * LATEST_COLUMNS


def _offset_of(table: array[int], slots: int, key: int) -> int:
    at = _slot_of(table, slots, key)
    return table[at + 2] if key != NO_KEY and table[at] == key else -1
