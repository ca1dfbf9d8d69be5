# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows counted by the first bytes of a header or field: the compiled form of the reference
`reference/field_patterns.py`.

Rows come from a scan that checked them. They are checked again against the payload, so that a wrong pair raises an error
instead of accessing memory out of bounds.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

from offsetfs.storage.native.record cimport FINE, Cursor, read_field
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

import os

from offsetfs.storage.reference.field_patterns import BEYOND, OTHER, PatternCount
from offsetfs.storage.reference.field_patterns import NULL as NULL_COUNT


cdef struct Pattern:  # a FieldPattern
    const uint8_t* header
    Py_ssize_t header_size  # -1: the field itself
    const uint8_t* prefix
    Py_ssize_t prefix_size
    int64_t least
    int64_t most


cdef struct Counted:  # a PatternCount, with its bytes where they first are in the payload
    int64_t pattern
    int64_t position
    int64_t size
    int64_t count
    int64_t first


cdef enum:
    NULL_FIELD = -1
    NO_MATCH = -2
    TOO_MANY = -3
    OUTSIDE = -1
    HEADERS_OUTSIDE = -2

assert (NULL_FIELD, NO_MATCH, TOO_MANY) == (NULL_COUNT, OTHER, BEYOND)

# Collisions must not be known to the producer of hostile records.
cdef uint64_t _seed = int.from_bytes(os.urandom(8), "little")


def count_patterns(payload, array rows, Py_ssize_t column, patterns, Py_ssize_t different_max):
    """See `reference/field_patterns.py:count_patterns`."""
    cdef PatternTable table = PatternTable(patterns, different_max)
    cdef Py_buffer held, held_rows
    cdef Py_ssize_t fault, count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        if not 0 <= column < RECORD_COLUMNS - 1:
            raise ValueError("no column of a scan")
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            with nogil:
                fault = table.count_rows(
                    <const uint8_t*>held.buf, held.len, <const int64_t*>held_rows.buf, column, count
                )
            if fault == OUTSIDE:
                raise ValueError("a field outside of its payload")
            if fault == HEADERS_OUTSIDE:
                raise ValueError("headers outside of their payload")
            return table.found(<const uint8_t*>held.buf)
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)


cdef class PatternTable:
    """Counts of different bytes by pattern: a hash table with open addressing, half empty."""

    cdef list _texts
    cdef bytearray _patterns, _entries, _slots
    cdef const Pattern* patterns
    cdef Counted* entries
    cdef int32_t* slots
    cdef Py_ssize_t patterns_count, entries_count, different, different_max
    cdef uint64_t mask
    cdef bint has_headers

    def __cinit__(self, patterns, Py_ssize_t different_max):
        cdef Pattern* pattern
        cdef bytes header, prefix
        cdef uint64_t slots = 16
        if not 0 <= different_max <= 1 << 20:
            raise ValueError(f"{different_max} different values")
        self._texts = [(header, prefix) for header, prefix, _, _ in patterns]
        self.patterns_count = len(self._texts)
        self._patterns = PyByteArray_FromStringAndSize(NULL, self.patterns_count * <Py_ssize_t>sizeof(Pattern))
        self.patterns = pattern = <Pattern*>PyByteArray_AS_STRING(self._patterns)
        for header, prefix, least, most in patterns:
            pattern.header = NULL if header is None else <const uint8_t*>PyBytes_AS_STRING(header)
            pattern.header_size = -1 if header is None else len(header)
            pattern.prefix, pattern.prefix_size = <const uint8_t*>PyBytes_AS_STRING(prefix), len(prefix)
            pattern.least, pattern.most = max(least, 0), max(most, 0)
            self.has_headers |= header is not None
            pattern += 1
        self.different_max = different_max
        while slots < 2 * <uint64_t>(different_max + 3):
            slots *= 2
        self.mask = slots - 1
        self._slots = PyByteArray_FromStringAndSize(NULL, slots * sizeof(int32_t))
        self.slots = <int32_t*>PyByteArray_AS_STRING(self._slots)
        memset(self.slots, 0xFF, slots * sizeof(int32_t))
        self._entries = PyByteArray_FromStringAndSize(NULL, (different_max + 3) * <Py_ssize_t>sizeof(Counted))
        self.entries = <Counted*>PyByteArray_AS_STRING(self._entries)

    cdef list found(self, const uint8_t* data):
        cdef Py_ssize_t number
        cdef Counted* each
        cdef list made = []
        for number in range(self.entries_count):
            each = self.entries + number
            text = PyBytes_FromStringAndSize(<const char*>data + each.position, each.size)
            made.append(PatternCount(each.pattern, text, each.count, each.first))
        return made

    cdef Py_ssize_t count_rows(
        self, const uint8_t* data, int64_t end, const int64_t* rows, Py_ssize_t column, Py_ssize_t count
    ) noexcept nogil:
        """Count all rows; return 0, or `OUTSIDE` or `HEADERS_OUTSIDE`."""
        cdef Py_ssize_t row
        cdef int64_t position, size, headers
        cdef Counted last, found
        last.pattern = TOO_MANY - 1
        last.position = last.size = 0
        cdef Py_ssize_t last_entry = 0
        for row in range(count):
            position, size = rows[row * RECORD_COLUMNS + column], rows[row * RECORD_COLUMNS + column + 1]
            if size >= 0 and (position < 0 or size > end or position > end - size):
                return OUTSIDE
            found.pattern = NO_MATCH
            found.position = found.size = 0
            if self.has_headers:
                headers = (<const RecordRow*>(rows + row * RECORD_COLUMNS)).headers_count
                if headers and not self.match_headers(
                    data, end, (<const RecordRow*>(rows + row * RECORD_COLUMNS)).headers_position, headers, &found
                ):
                    return HEADERS_OUTSIDE
            if found.pattern == NO_MATCH:
                self.match_field(data, position, size, &found)
            if found.pattern == last.pattern and found.size == last.size and not memcmp(
                data + found.position, data + last.position, found.size
            ):
                self.entries[last_entry].count += 1
                continue
            last = found
            last_entry = self.entry_of(data, &found, row)
            self.entries[last_entry].count += 1
        return 0

    cdef Py_ssize_t entry_of(self, const uint8_t* data, const Counted* found, Py_ssize_t row) noexcept nogil:
        """Return the number of the entry for the bytes that were found; a new one counts nothing yet."""
        cdef uint64_t slot = self.hash_of(data, found) & self.mask
        cdef Counted wanted = found[0]
        cdef Counted* entry
        while self.slots[slot] >= 0:
            entry = self.entries + self.slots[slot]
            if entry.pattern == wanted.pattern and entry.size == wanted.size and not memcmp(
                data + entry.position, data + wanted.position, wanted.size
            ):
                return self.slots[slot]
            slot = (slot + 1) & self.mask
        if wanted.pattern >= 0:
            if self.different >= self.different_max:
                wanted.pattern = TOO_MANY
                wanted.position = wanted.size = 0
                return self.entry_of(data, &wanted, row)
            self.different += 1
        wanted.count = 0
        wanted.first = row
        self.entries[self.entries_count] = wanted
        self.slots[slot] = <int32_t>self.entries_count
        self.entries_count += 1
        return self.entries_count - 1

    cdef uint64_t hash_of(self, const uint8_t* data, const Counted* found) noexcept nogil:
        cdef uint64_t mixed = _seed ^ <uint64_t>found.pattern
        cdef int64_t at
        for at in range(found.position, found.position + found.size):
            mixed = (mixed ^ data[at]) * <uint64_t>0x9E3779B97F4A7C15ULL
            mixed ^= mixed >> 29
        return mixed ^ mixed >> 32

    cdef void match_field(self, const uint8_t* data, int64_t position, int64_t size, Counted* found) noexcept nogil:
        cdef Py_ssize_t number
        if size < 0:
            found.pattern = NULL_FIELD
            return
        for number in range(self.patterns_count):
            if self.patterns[number].header_size < 0 and is_match(self.patterns + number, data, position, size):
                found.pattern, found.position = number, position
                found.size = min(size, self.patterns[number].most)
                return

    cdef bint match_headers(
        self, const uint8_t* data, int64_t end, int64_t position, int64_t count, Counted* found
    ) noexcept nogil:
        """Find the header that counts; return False where headers are outside of the payload."""
        cdef Cursor cursor
        cdef int64_t name, name_size, value, size
        cdef Py_ssize_t number, last = self.patterns_count - 1
        cdef const Pattern* pattern
        if not 0 <= position < end or not 0 <= count <= end - position:
            return False
        cursor.data, cursor.position, cursor.end = data, position, end
        while count:
            if read_field(&cursor, &name, &name_size) != FINE or read_field(&cursor, &value, &size) != FINE:
                return False
            for number in range(last + 1):
                pattern = self.patterns + number
                if pattern.header_size >= 0 and pattern.header_size == name_size and not memcmp(
                    pattern.header, data + name, name_size
                ) and is_match(pattern, data, value, size):
                    found.pattern, found.position, found.size = number, value, min(size, pattern.most)
                    last = number
                    break
            count -= 1
        return True


cdef inline bint is_match(
    const Pattern* pattern, const uint8_t* data, int64_t position, int64_t size
) noexcept nogil:
    return size >= pattern.least and size >= pattern.prefix_size and not memcmp(
        data + position, pattern.prefix, pattern.prefix_size
    )
