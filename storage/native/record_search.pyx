# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows of records whose fields have some bytes: the compiled form of the reference `reference/record_search.py`.

Rows come from a scan that checked them. They are checked again against the payload, so that a wrong pair raises an error
instead of accessing memory out of bounds.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from offsetfs.storage.native.record cimport FINE, Cursor, read_field
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

from array import array as _array

from offsetfs.storage.reference.record_search import IN_HEADERS, IN_KEY, IN_VALUE


cdef extern from "find_bytes.h" nogil:
    void find_bytes_prepare()
    const uint8_t* find_bytes(const uint8_t* data, size_t size, const uint8_t* needle, size_t needle_size)


cdef enum:
    KEY_FLAG = 1
    VALUE_FLAG = 2
    HEADERS_FLAG = 4
    FIELD_OUTSIDE = -1
    HEADERS_OUTSIDE = -2

assert (KEY_FLAG, VALUE_FLAG, HEADERS_FLAG) == (IN_KEY, IN_VALUE, IN_HEADERS)

cdef array _template = _array("q")

find_bytes_prepare()


cdef struct Search:
    const uint8_t* data
    int64_t size
    const RecordRow* rows
    Py_ssize_t count
    const uint8_t* needle
    int64_t needle_size
    const uint8_t* value  # of a header
    int64_t value_size  # -1: any
    int fields
    bint is_whole
    bint is_header  # the needle is the name of a header


def contains(payload, bytes needle not None):
    """See `reference/record_search.py:contains`."""
    cdef Py_buffer held
    cdef const char* wanted = needle
    cdef size_t size = len(needle)
    cdef bint found
    PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
    try:
        with nogil:
            found = find_bytes(<const uint8_t*>held.buf, held.len, <const uint8_t*>wanted, size) != NULL
    finally:
        PyBuffer_Release(&held)
    return found or size == 0


def rows_with(payload, array rows not None, bytes needle not None, int fields, bint is_whole):
    """See `reference/record_search.py:rows_with`."""
    cdef Search search
    search.needle, search.needle_size = <const uint8_t*><const char*>needle, len(needle)
    search.value, search.value_size = NULL, -1
    search.fields, search.is_whole, search.is_header = fields, is_whole, False
    return searched(payload, rows, &search)


def rows_with_header(payload, array rows not None, bytes name not None, bytes value):
    """See `reference/record_search.py:rows_with_header`."""
    cdef Search search
    search.needle, search.needle_size = <const uint8_t*><const char*>name, len(name)
    search.value, search.value_size = NULL, -1
    if value is not None:
        search.value, search.value_size = <const uint8_t*><const char*>value, len(value)
    search.fields, search.is_whole, search.is_header = HEADERS_FLAG, True, True
    return searched(payload, rows, &search)


cdef array searched(payload, array rows, Search* search):
    cdef Py_buffer held, held_rows
    cdef array found
    cdef Py_ssize_t count
    search.count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            search.data, search.size = <const uint8_t*>held.buf, held.len
            search.rows = <const RecordRow*>held_rows.buf
            found = clone(_template, search.count, False)
            with nogil:
                count = search_rows(search, found.data.as_longlongs)
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    if count == FIELD_OUTSIDE:
        raise ValueError("a field outside of its payload")
    if count == HEADERS_OUTSIDE:
        raise ValueError("headers outside of their payload")
    resize(found, count)
    return found


cdef Py_ssize_t search_rows(const Search* search, long long* found) noexcept nogil:
    """Write the numbers of the rows that match; return how many, or a fault. Reads each number of a row once."""
    cdef Py_ssize_t number, count = 0
    cdef int64_t key, key_size, value, value_size
    cdef int answer
    cdef const RecordRow* row = search.rows
    for number in range(search.count):
        answer = 0
        if not search.is_header:
            key, key_size, value, value_size = row.key_position, row.key_size, row.value_position, row.value_size
            if not is_inside(search, key, key_size) or not is_inside(search, value, value_size):
                return FIELD_OUTSIDE
            answer = (search.fields & KEY_FLAG and has_needle(search, key, key_size)) or (
                search.fields & VALUE_FLAG and has_needle(search, value, value_size)
            )
        if search.fields & HEADERS_FLAG and not answer:
            answer = in_headers(search, row.headers_position, row.headers_count)
            if answer < 0:
                return HEADERS_OUTSIDE
        if answer:
            found[count] = number
            count += 1
        row += 1
    return count


cdef inline bint is_inside(const Search* search, int64_t position, int64_t size) noexcept nogil:
    return size < 0 or (0 <= position <= search.size and size <= search.size - position)


cdef inline bint has_needle(const Search* search, int64_t position, int64_t size) noexcept nogil:
    if size < search.needle_size:
        return False
    if search.is_whole:
        return size == search.needle_size and not memcmp(search.data + position, search.needle, size)
    return search.needle_size == 0 or (
        find_bytes(search.data + position, size, search.needle, search.needle_size) != NULL
    )


cdef int in_headers(const Search* search, int64_t position, int64_t count) noexcept nogil:
    """Return whether a header matches, -1 where headers are outside of the payload."""
    cdef Cursor cursor
    cdef int64_t name, name_size, value, value_size
    if count == 0:
        return 0
    if not 0 <= position < search.size or not 0 <= count <= search.size - position:
        return -1
    cursor.data, cursor.position, cursor.end = search.data, position, search.size
    while count:
        if read_field(&cursor, &name, &name_size) != FINE or read_field(&cursor, &value, &value_size) != FINE:
            return -1
        if is_match(search, name, name_size, value, value_size):
            return 1
        count -= 1
    return 0


cdef inline bint is_match(
    const Search* search, int64_t name, int64_t name_size, int64_t value, int64_t value_size
) noexcept nogil:
    if not has_needle(search, name, name_size):
        return not search.is_header and has_needle(search, value, value_size)
    if not search.is_header or search.value_size < 0:
        return True
    return value_size == search.value_size and not memcmp(search.data + value, search.value, value_size)
