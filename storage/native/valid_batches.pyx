# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Finds batches without findings: the compiled form of the reference `reference/valid_batches.py`.

Bytes from disk are not trusted: rows are compared with the block before anything is read, and every read of a record is
checked against the end of its batch. The GIL is released meanwhile, except for decompression.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.record cimport FINE, RECORD_BYTES_MIN, Cursor, read_record
from offsetfs.storage.native.rows cimport BATCH_COLUMNS, BatchRow, RecordRow, hold_rows

from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.compression.compression import decompress

cdef enum:
    HEADER_BYTES = 61
    BASE_TIMESTAMP_POSITION = 27
    CODEC_BITS = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    NO_TIMESTAMP = -1


def valid_until(block, int64_t file_position, array rows not None, Py_ssize_t first, inflated_bytes_max):
    """Return the number of the first batch from `first` on that must be checked alone. See `reference/valid_batches.py`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t number = first
    cdef Walk walk
    walk.first, walk.count = first, hold_rows(rows, BATCH_COLUMNS, &held_rows)
    try:
        if not 0 <= first <= walk.count:
            raise ValueError("not an array of rows")
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            walk.block, walk.length, walk.file_position = <const uint8_t*>source.buf, source.len, file_position
            walk.rows = <const BatchRow*>held_rows.buf
            while True:
                with nogil:
                    number = plain_until(&walk, number)
                if number < 0:
                    raise ValueError("rows of another block")
                if number == walk.count or not is_quiet_inflated(&walk, number, block, inflated_bytes_max):
                    return number
                number += 1
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&held_rows)


cdef struct Walk:
    const uint8_t* block
    Py_ssize_t length
    int64_t file_position
    const BatchRow* rows
    Py_ssize_t first
    Py_ssize_t count


cdef Py_ssize_t plain_until(const Walk* walk, Py_ssize_t number) noexcept nogil:
    """Return the number of the first batch that is not quiet, or compressed; -1 for one that reaches out of the block.

    A row is copied before it is checked: another thread may write to it.
    """
    cdef BatchRow row
    cdef const uint8_t* batch
    while number < walk.count:
        memcpy(&row, &walk.rows[number], sizeof(row))
        if row.magic_byte != 2:
            break
        if not is_inside(&row, walk.file_position, walk.length):
            return -1
        if row.attributes & CODEC_BITS or not goes_on(walk, &row, number):
            break
        batch = walk.block + (row.position - walk.file_position)
        if not records_are_quiet(batch + HEADER_BYTES, row.size - HEADER_BYTES, &row, base_timestamp(batch)):
            break
        number += 1
    return number


cdef bint is_quiet_inflated(const Walk* walk, Py_ssize_t number, block, inflated_bytes_max) except -1:
    cdef BatchRow row
    cdef Py_ssize_t start
    cdef Py_buffer payload
    cdef bint is_valid
    memcpy(&row, &walk.rows[number], sizeof(row))
    if row.magic_byte != 2 or not row.attributes & CODEC_BITS or not goes_on(walk, &row, number):
        return False
    if not is_inside(&row, walk.file_position, walk.length):
        raise ValueError("rows of another block")
    start = row.position - walk.file_position
    if row.count == 0:
        return True
    try:
        inflated = decompress(
            row.attributes & CODEC_BITS, memoryview(block)[start + HEADER_BYTES : start + row.size], inflated_bytes_max
        )
    except StorageError:
        return False
    PyObject_GetBuffer(inflated, &payload, PyBUF_SIMPLE)
    try:
        with nogil:
            is_valid = records_are_quiet(
                <const uint8_t*>payload.buf, payload.len, &row, base_timestamp(walk.block + start)
            )
        return is_valid
    finally:
        PyBuffer_Release(&payload)


cdef inline bint is_inside(const BatchRow* row, int64_t file_position, Py_ssize_t length) noexcept nogil:
    cdef uint64_t begin = <uint64_t>row.position - <uint64_t>file_position
    if row.position < file_position or begin > <uint64_t>length or row.size < HEADER_BYTES:
        return False
    return row.size <= length - <int64_t>begin


cdef inline bint goes_on(const Walk* walk, const BatchRow* row, Py_ssize_t number) noexcept nogil:
    """Whether the batch is one of data that follows the one before it, and says who made it."""
    cdef const BatchRow* before
    if number > walk.first:
        before = &walk.rows[number - 1]
        if <uint64_t>row.base_offset != <uint64_t>before.base_offset + <uint64_t>before.last_offset_delta + 1:
            return False
        if (row.base_offset <= before.base_offset) if before.last_offset_delta >= 0 else (
            row.base_offset > before.base_offset
        ):
            return False  # the sum has wrapped around
        if row.leader_epoch != before.leader_epoch:
            return False
    if row.attributes & CONTROL_BIT:
        return False
    if row.producer_id < 0:
        return not row.attributes & TRANSACTIONAL_BIT
    return row.producer_epoch >= 0 and row.base_sequence >= 0


cdef bint records_are_quiet(
    const uint8_t* payload, Py_ssize_t size, const BatchRow* row, uint64_t base_timestamp
) noexcept nogil:
    cdef Cursor cursor
    cdef RecordRow record
    cdef int64_t number, before = -1, timestamp, largest = NO_TIMESTAMP
    if row.count == 0:
        return True
    if not 0 < row.count <= size // RECORD_BYTES_MIN or row.count - 1 > row.last_offset_delta:
        return False
    cursor.data = payload
    cursor.position = 0
    cursor.end = size
    for number in range(row.count):
        if read_record(&cursor, &record) != FINE or record.offset_delta <= before:
            return False
        before = record.offset_delta
        # The sum wraps as a Java long does, so the largest delta need not be that of the largest timestamp.
        timestamp = <int64_t>(base_timestamp + <uint64_t>record.timestamp_delta)
        if timestamp > largest:
            largest = timestamp
    if cursor.position != cursor.end or before > row.last_offset_delta:
        return False
    if row.attributes & APPEND_TIME_BIT:
        return True
    return row.max_timestamp == largest


cdef inline uint64_t base_timestamp(const uint8_t* batch) noexcept nogil:
    cdef uint64_t number = 0
    for place in range(BASE_TIMESTAMP_POSITION, BASE_TIMESTAMP_POSITION + 8):
        number = number << 8 | batch[place]
    return number
