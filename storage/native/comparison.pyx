# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Compares two logs: the compiled form of the reference `reference/comparison.py`.

Bytes from disk are not trusted: each size is compared with what is left of its block before anything is read. The GIL
is released meanwhile.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from offsetfs.storage.native.offset_map cimport siphash
from offsetfs.storage.native.record cimport FINE, Cursor, read_field, reason
from offsetfs.storage.native.record cimport Fault as RecordFault
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

from array import array as _array

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.reference.comparison import EqualBatches, LatestDiff, Merged, RecordDigests

cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    EPOCH_POSITION = 12
    MAGIC_POSITION = 16

cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef array _template = _array("q")


cdef inline int32_t big_int(const uint8_t* data) noexcept nogil:
    return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3])


cdef inline int64_t big_long(const uint8_t* data) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>big_int(data) << 32 | <uint32_t>big_int(data + 4))


# --- batches -------------------------------------------------------------------------------------------------------


cdef struct Side:
    const uint8_t* data
    int64_t length
    int64_t limit
    int64_t position


cdef struct Tally:
    int64_t batches
    int64_t records
    int64_t next_offset
    int64_t other_epochs
    int64_t other_epoch_offset


def equal_batches(a, int64_t limit_a, b, int64_t limit_b, int64_t offset_min, int64_t offset_max, bint headers_only):
    """See `reference/comparison.py:equal_batches`."""
    cdef Py_buffer held_a
    cdef Py_buffer held_b
    cdef Side left
    cdef Side right
    cdef Tally tally
    PyObject_GetBuffer(a, &held_a, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(b, &held_b, PyBUF_SIMPLE)
        left = Side(<const uint8_t*>held_a.buf, held_a.len, limit_a, 0)
        right = Side(<const uint8_t*>held_b.buf, held_b.len, limit_b, 0)
        tally = Tally(0, 0, offset_min, 0, -1)
        with nogil:
            while step(&left, &right, &tally, offset_max, headers_only):
                pass
        PyBuffer_Release(&held_b)
    finally:
        PyBuffer_Release(&held_a)
    return EqualBatches(
        left.position,
        right.position,
        tally.batches,
        tally.records,
        tally.next_offset,
        tally.other_epochs,
        tally.other_epoch_offset,
    )


cdef bint step(Side* a, Side* b, Tally* tally, int64_t offset_max, bint headers_only) noexcept nogil:
    """Step over the next batch of both; false if it differs, or cannot be compared."""
    cdef int64_t left = min(a.length - a.position, b.length - b.position)  # negative behind a header whose batch is skipped
    cdef const uint8_t* data
    cdef const uint8_t* other
    cdef int64_t size, base, delta, count, compared
    if left < HEADER_BYTES:
        return False
    data, other = a.data + a.position, b.data + b.position
    size = <int64_t>big_int(data + 8) + LOG_OVERHEAD_BYTES
    if data[MAGIC_POSITION] != 2 or size < HEADER_BYTES or size > min(a.limit - a.position, b.limit - b.position):
        return False
    if not headers_only and size > left:
        return False
    base, delta, count = big_long(data), big_int(data + 23), big_int(data + 57)
    if delta < 0 or count < 0 or base < tally.next_offset or base > LONG_MAX - 1 - delta or base + delta >= offset_max:
        return False
    compared = HEADER_BYTES if headers_only else size
    if memcmp(data, other, EPOCH_POSITION) != 0:
        return False
    if memcmp(data + MAGIC_POSITION, other + MAGIC_POSITION, compared - MAGIC_POSITION) != 0:
        return False
    if big_int(data + EPOCH_POSITION) != big_int(other + EPOCH_POSITION):
        if tally.other_epochs == 0:
            tally.other_epoch_offset = base
        tally.other_epochs += 1
    a.position += size
    b.position += size
    tally.batches += 1
    tally.records += count
    tally.next_offset = base + delta + 1
    return True


# --- records -------------------------------------------------------------------------------------------------------


cdef struct Batch:
    const uint8_t* data
    int64_t length
    const RecordRow* rows
    Py_ssize_t count
    uint64_t base_offset
    uint64_t base_timestamp
    int64_t append_time
    bint has_append_time
    bint times
    bint headers


cdef struct Output:
    int64_t* offsets
    int64_t* contents
    int64_t* keys


cdef enum Outcome:
    DONE = 0
    OUTSIDE
    MALFORMED


def digest_records(
    payload,
    array rows not None,
    int64_t base_offset,
    int64_t base_timestamp,
    bytes seed not None,
    *,
    append_time=None,
    bint times=True,
    bint headers=True,
):
    """See `reference/comparison.py:digest_records`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef uint64_t words[2]
    cdef Batch batch
    cdef Output out
    cdef Outcome outcome
    cdef RecordFault fault = FINE
    cdef array offsets
    cdef array contents
    cdef array keys
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    memcpy(words, <const char*>seed, 16)
    batch.base_offset, batch.base_timestamp = <uint64_t>base_offset, <uint64_t>base_timestamp
    batch.has_append_time, batch.append_time = append_time is not None, append_time or 0
    batch.times, batch.headers = times, headers
    batch.count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            batch.data, batch.length, batch.rows = <const uint8_t*>held.buf, held.len, <const RecordRow*>held_rows.buf
            offsets, contents, keys = (clone(_template, batch.count, False) for _ in range(3))
            out.offsets = <int64_t*>offsets.data.as_longlongs
            out.contents = <int64_t*>contents.data.as_longlongs
            out.keys = <int64_t*>keys.data.as_longlongs
            with nogil:
                outcome = digest_all(&batch, words, &out, &fault)
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    if outcome == OUTSIDE:
        raise ValueError("a field outside of its batch")
    if outcome == MALFORMED:
        raise MalformedBatch(reason(fault).decode())
    return RecordDigests(offsets, contents, keys)


cdef Outcome digest_all(const Batch* batch, const uint64_t* seed, Output* out, RecordFault* fault) noexcept nogil:
    cdef Py_ssize_t number
    cdef RecordRow row
    cdef uint64_t fields[8]
    cdef uint64_t digest[2]
    cdef int64_t section_size
    for number in range(batch.count):
        memcpy(&row, &batch.rows[number], sizeof(row))  # another thread may write to it
        if not is_inside(batch, row.key_position, row.key_size) or not is_inside(batch, row.value_position, row.value_size):
            return OUTSIDE
        if not batch.headers or row.headers_count < 0:
            row.headers_count = 0
        section_size = 0
        if row.headers_count:
            if row.headers_position < 0 or row.headers_position > batch.length:
                return OUTSIDE
            fault[0] = measure_headers(batch, &row, &section_size)
            if fault[0] != FINE:
                return MALFORMED
        hash_field(batch, seed, row.key_position, row.key_size, digest)
        fields[0], fields[1] = digest[0], <uint64_t>row.key_size
        out.keys[number] = 0 if row.key_size < 0 else (<int64_t>digest[0] if digest[0] else 1)
        fields[2] = 0
        if batch.times and batch.has_append_time:
            fields[2] = <uint64_t>batch.append_time
        elif batch.times:
            fields[2] = batch.base_timestamp + <uint64_t>row.timestamp_delta
        hash_field(batch, seed, row.value_position, row.value_size, digest)
        fields[3], fields[4], fields[5] = <uint64_t>row.value_size, <uint64_t>row.headers_count, digest[0]
        hash_field(batch, seed, row.headers_position, section_size, digest)
        fields[6], fields[7] = <uint64_t>section_size, digest[0]
        siphash(seed, <const uint8_t*>fields, sizeof(fields), digest)
        out.offsets[number] = <int64_t>(batch.base_offset + <uint64_t>row.offset_delta)
        out.contents[number] = <int64_t>(digest[0] & ~<uint64_t>1 | (1 if row.value_size < 0 else 0))
    return DONE


cdef inline bint is_inside(const Batch* batch, int64_t position, int64_t size) noexcept nogil:
    return size < 0 or (0 <= position <= batch.length and size <= batch.length - position)


cdef inline void hash_field(
    const Batch* batch, const uint64_t* seed, int64_t position, int64_t size, uint64_t* digest
) noexcept nogil:
    if size > 0:
        siphash(seed, batch.data + position, size, digest)
    else:
        siphash(seed, batch.data, 0, digest)


cdef RecordFault measure_headers(const Batch* batch, const RecordRow* row, int64_t* size) noexcept nogil:
    cdef Cursor cursor
    cdef int64_t position, field_size, left
    cdef RecordFault fault
    cursor.data, cursor.position, cursor.end = batch.data, row.headers_position, batch.length
    for left in range(row.headers_count):
        for _ in range(2):
            fault = read_field(&cursor, &position, &field_size)
            if fault != FINE:
                return fault
    size[0] = cursor.position - row.headers_position
    return FINE


# --- merging -------------------------------------------------------------------------------------------------------


cdef struct Numbers:
    const int64_t* offsets
    const int64_t* contents
    Py_ssize_t count
    Py_ssize_t at


cdef struct Found:
    int64_t* data
    Py_ssize_t count


def merge_digests(
    array offsets_a not None,
    array contents_a not None,
    Py_ssize_t at_a,
    array offsets_b not None,
    array contents_b not None,
    Py_ssize_t at_b,
    int64_t limit,
):
    """See `reference/comparison.py:merge_digests`."""
    cdef Py_buffer held[4]
    cdef Py_ssize_t counts[4]
    cdef Numbers a
    cdef Numbers b
    cdef Found found[4]
    cdef int64_t equal
    cdef int number, exported = 0
    cdef list results = []
    try:
        for numbers in (offsets_a, contents_a, offsets_b, contents_b):
            counts[exported] = hold_rows(numbers, 1, &held[exported])
            exported += 1
        if counts[0] != counts[1] or counts[2] != counts[3] or at_a < 0 or at_b < 0:
            raise ValueError("arrays that do not belong together")
        a = Numbers(<const int64_t*>held[0].buf, <const int64_t*>held[1].buf, counts[0], at_a)
        b = Numbers(<const int64_t*>held[2].buf, <const int64_t*>held[3].buf, counts[2], at_b)
        for number in range(4):
            results.append(clone(_template, max((a if number % 2 == 0 else b).count, 1), False))
            found[number] = Found(<int64_t*>(<array>results[number]).data.as_longlongs, 0)
        with nogil:
            equal = merge_all(&a, &b, limit, found)
    finally:
        for number in range(exported):
            PyBuffer_Release(&held[number])
    for number in range(4):
        resize(<array>results[number], found[number].count)
    return Merged(a.at, b.at, equal, *results)


cdef int64_t merge_all(Numbers* a, Numbers* b, int64_t limit, Found* found) noexcept nogil:
    cdef int64_t left, right, equal = 0
    while True:
        left = a.offsets[a.at] if a.at < a.count else limit
        right = b.offsets[b.at] if b.at < b.count else limit
        if left >= limit and right >= limit:
            return equal
        if left == right and a.contents[a.at] == b.contents[b.at]:
            equal += 1
        elif left == right:
            add(&found[0], a.at)
            add(&found[1], b.at)
        elif left < right:
            add(&found[2], a.at)
        else:
            add(&found[3], b.at)
        if left <= right:
            a.at += 1
        if right <= left:
            b.at += 1


cdef inline void add(Found* found, int64_t number) noexcept nogil:
    found.data[found.count] = number
    found.count += 1


# --- latest records ------------------------------------------------------------------------------------------------


cdef struct Latest:  # of a key; in an empty slot the key is 0
    int64_t key
    int64_t content
    int64_t offset


cdef struct Table:
    Latest* data
    uint64_t slots  # a power of two


cdef int hold_table(array table, Py_buffer* held, Table* out) except -1:
    cdef Py_ssize_t slots = hold_rows(table, 3, held)
    if slots < 1 or slots & (slots - 1):
        PyBuffer_Release(held)
        raise ValueError("no table of latest records")
    out.data, out.slots = <Latest*>held.buf, slots
    return 0


cdef inline Latest* slot_of(const Table* table, int64_t key) noexcept nogil:
    """Return the slot of a key, or the empty slot for it; any slot of a full table, which is a damaged one."""
    cdef uint64_t slot = <uint64_t>key >> 20, left = table.slots
    cdef Latest* found
    while True:
        found = table.data + (slot & (table.slots - 1))
        left -= 1
        if found.key == key or found.key == 0 or left == 0:
            return found
        slot += 1


def keep_latest(array table not None, int64_t used, digests, uint64_t part, uint64_t parts):
    """See `reference/comparison.py:keep_latest`."""
    cdef Py_buffer held
    cdef Py_buffer columns[3]
    cdef Py_ssize_t counts[3]
    cdef Table latest
    cdef int number, exported = 0
    cdef int64_t added
    hold_table(table, &held, &latest)
    try:
        for column in (digests.keys, digests.contents, digests.offsets):
            counts[exported] = hold_rows(column, 1, &columns[exported])
            exported += 1
        if counts[0] != counts[1] or counts[0] != counts[2]:
            raise ValueError("arrays that do not belong together")
        if part >= parts or used < 0 or counts[0] >= <int64_t>latest.slots - used:
            raise ValueError("a table that is too small")
        with nogil:
            added = put_all(
                &latest, <const int64_t*>columns[0].buf, <const int64_t*>columns[1].buf, <const int64_t*>columns[2].buf,
                counts[0], part, parts,
            )
    finally:
        for number in range(exported):
            PyBuffer_Release(&columns[number])
        PyBuffer_Release(&held)
    return used + added


cdef int64_t put_all(
    const Table* table,
    const int64_t* keys,
    const int64_t* contents,
    const int64_t* offsets,
    Py_ssize_t count,
    uint64_t part,
    uint64_t parts,
) noexcept nogil:
    cdef Py_ssize_t number
    cdef int64_t key, added = 0
    cdef Latest* slot
    for number in range(count):
        key = keys[number]
        if key == 0 or (parts > 1 and <uint64_t>key % parts != part):
            continue
        slot = slot_of(table, key)
        added += slot.key == 0
        slot.key, slot.content, slot.offset = key, contents[number], offsets[number]
    return added


def compare_latest(array a not None, array b not None):
    """See `reference/comparison.py:compare_latest`."""
    cdef Py_buffer held_a
    cdef Py_buffer held_b
    cdef Table left
    cdef Table right
    cdef int64_t[5] found
    cdef int64_t first_a, first_b
    hold_table(a, &held_a, &left)
    try:
        hold_table(b, &held_b, &right)
        with nogil:
            compare_tables(&left, &right, found)
            first_a, first_b = offset_of(&left, found[4]), offset_of(&right, found[4])
        PyBuffer_Release(&held_b)
    finally:
        PyBuffer_Release(&held_a)
    return LatestDiff(found[0], found[1], found[2], found[3], found[4], first_a, first_b)


cdef void compare_tables(const Table* a, const Table* b, int64_t* found) noexcept nogil:
    """Count equal, changed, only in a, only in b; the last number is the least key that differs."""
    cdef Py_ssize_t number
    cdef const Latest* one
    cdef const Latest* other
    cdef bint has_a, has_b
    for number in range(5):
        found[number] = 0
    for number in range(<Py_ssize_t>a.slots):
        one = a.data + number
        if one.key == 0:
            continue
        other = slot_of(b, one.key)
        has_a, has_b = not one.content & 1, other.key == one.key and not other.content & 1
        if not has_a and not has_b:
            continue
        if has_a and has_b and one.content == other.content:
            found[0] += 1
            continue
        found[1 if has_a and has_b else 2 if has_a else 3] += 1
        note_key(found, one.key)
    for number in range(<Py_ssize_t>b.slots):
        other = b.data + number
        if other.key != 0 and not other.content & 1 and slot_of(a, other.key).key != other.key:
            found[3] += 1
            note_key(found, other.key)


cdef inline void note_key(int64_t* found, int64_t key) noexcept nogil:
    if found[4] == 0 or <uint64_t>key < <uint64_t>found[4]:
        found[4] = key


cdef inline int64_t offset_of(const Table* table, int64_t key) noexcept nogil:
    cdef const Latest* slot = slot_of(table, key)
    return slot.offset if key != 0 and slot.key == key else -1
