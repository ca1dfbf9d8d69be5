# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Binary search in the entries of an index file: the compiled form of the reference `reference/index_search.py`.

Entries may be unsorted, and another process may be writing them: a search always ends, and never reads after the last.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12


def around(view, Py_ssize_t count, base_offset, offset):
    """Return the entry with the largest offset ≤ `offset`, and two more. See `reference/index_search.py:around`."""
    cdef Py_buffer entries
    cdef Py_ssize_t place, last
    cdef list found = []
    cdef int64_t wanted = bounded(offset - base_offset)
    PyObject_GetBuffer(view, &entries, PyBUF_SIMPLE)
    try:
        check(count, entries.len, OFFSET_ENTRY_BYTES)
        place = rank(<const uint8_t*>entries.buf, count, OFFSET_ENTRY_BYTES, False, wanted)
        last = min(place + 2, count)
        if place == 0:
            found.append((base_offset, 0))
        else:
            place -= 1
        while place < last:
            found.append((
                base_offset + i32(<const uint8_t*>entries.buf + place * OFFSET_ENTRY_BYTES),
                i32(<const uint8_t*>entries.buf + place * OFFSET_ENTRY_BYTES + 4),
            ))
            place += 1
        return found
    finally:
        PyBuffer_Release(&entries)


def time_floor(view, Py_ssize_t count, base_offset, timestamp):
    """Return the entry with the largest timestamp ≤ `timestamp`. See `reference/index_search.py:time_floor`."""
    cdef Py_buffer entries
    cdef Py_ssize_t place
    cdef const uint8_t* entry
    PyObject_GetBuffer(view, &entries, PyBUF_SIMPLE)
    try:
        check(count, entries.len, TIME_ENTRY_BYTES)
        place = rank(<const uint8_t*>entries.buf, count, TIME_ENTRY_BYTES, True, bounded(timestamp))
        if place == 0:
            return -1, base_offset
        entry = <const uint8_t*>entries.buf + (place - 1) * TIME_ENTRY_BYTES
        return i64(entry), base_offset + i32(entry + 8)
    finally:
        PyBuffer_Release(&entries)


cdef int check(Py_ssize_t count, Py_ssize_t size, Py_ssize_t entry_bytes) except -1:
    if not 0 <= count <= size // entry_bytes:
        raise ValueError("more entries than bytes")
    return 0


cdef int64_t bounded(number) except? -2:
    """Return a number that compares with the fields of an entry as `number` does."""
    if number > 0x7FFFFFFFFFFFFFFF:
        return 0x7FFFFFFFFFFFFFFF
    return -1 - 0x7FFFFFFFFFFFFFFF if number < -1 - 0x7FFFFFFFFFFFFFFF else number


cdef Py_ssize_t rank(
    const uint8_t* entries, Py_ssize_t count, Py_ssize_t entry_bytes, bint is_long, int64_t wanted
) noexcept nogil:
    """Return the index of the first entry with a larger key, as `bisect.bisect_right` does."""
    cdef Py_ssize_t low = 0, high = count, middle
    cdef const uint8_t* entry
    while low < high:
        middle = (low + high) // 2
        entry = entries + middle * entry_bytes
        if wanted < (i64(entry) if is_long else <int64_t>i32(entry)):
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int64_t i64(const uint8_t* data) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>i32(data) << 32 | <uint32_t>i32(data + 4))


cdef inline int32_t i32(const uint8_t* data) noexcept nogil:
    return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | <uint32_t>data[3])
