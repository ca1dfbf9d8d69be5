# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Batches of which a verification has nothing to say: the compiled twin of `quiet_pure`, which is the specification.

Bytes arrive from disks, so nothing they say is believed: rows are compared with the block before anything is read, and
every read of a record is checked against the end of its batch. The GIL is released meanwhile.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t

from offsetfs.storage.records._record cimport FINE, RECORD_BYTES_MIN, Cursor, Row, read_record

cdef enum:  # as in `chain_pure`
    POSITION
    BASE_OFFSET
    SIZE
    LEADER_EPOCH
    MAGIC_BYTE
    ATTRIBUTES
    LAST_OFFSET_DELTA
    MAX_TIMESTAMP
    PRODUCER_ID
    PRODUCER_EPOCH
    BASE_SEQUENCE
    COUNT
    COLUMN_COUNT

cdef enum:
    HEADER_BYTES = 61
    BASE_TIMESTAMP_POSITION = 27
    CODEC_BITS = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20


def quiet_until(block, int64_t file_position, array rows not None, Py_ssize_t first):
    """Return the number of the first batch from `first` on that may not be passed over. See `quiet_pure`."""
    cdef Py_buffer source
    cdef Py_ssize_t count = len(rows) // COLUMN_COUNT
    if rows.typecode != "q" or not 0 <= first <= count:
        raise ValueError("no rows")
    PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
    try:
        with nogil:
            first = walk(
                <const uint8_t*>source.buf, source.len, file_position, <const int64_t*>rows.data.as_voidptr, first, count
            )
        if first < 0:
            raise ValueError("rows of another block")
        return first
    finally:
        PyBuffer_Release(&source)


cdef Py_ssize_t walk(
    const uint8_t* block,
    Py_ssize_t length,
    int64_t file_position,
    const int64_t* rows,
    Py_ssize_t first,
    Py_ssize_t count,
) noexcept nogil:
    """Return the number of the first batch that is not quiet, -1 for one that reaches out of the block."""
    cdef const int64_t* row = rows + first * COLUMN_COUNT
    cdef Py_ssize_t number = first
    while number < count:
        if row[MAGIC_BYTE] != 2 or (number > first and not follows(row - COLUMN_COUNT, row)):
            break
        if not is_inside(row, file_position, length):
            return -1
        if not is_quiet(block + (row[POSITION] - file_position), row):
            break
        row += COLUMN_COUNT
        number += 1
    return number


cdef inline bint is_inside(const int64_t* row, int64_t file_position, Py_ssize_t length) noexcept nogil:
    if row[POSITION] < file_position or row[POSITION] - file_position > length or row[SIZE] < HEADER_BYTES:
        return False
    return row[SIZE] <= length - (row[POSITION] - file_position)


cdef inline bint follows(const int64_t* before, const int64_t* row) noexcept nogil:
    cdef uint64_t expected = <uint64_t>before[BASE_OFFSET] + <uint64_t>before[LAST_OFFSET_DELTA] + 1
    return <uint64_t>row[BASE_OFFSET] == expected and row[LEADER_EPOCH] == before[LEADER_EPOCH]


cdef inline bint is_quiet(const uint8_t* batch, const int64_t* row) noexcept nogil:
    if row[ATTRIBUTES] & (CODEC_BITS | CONTROL_BIT):
        return False
    if row[PRODUCER_ID] < 0:
        if row[ATTRIBUTES] & TRANSACTIONAL_BIT:
            return False
    elif row[PRODUCER_EPOCH] < 0 or row[BASE_SEQUENCE] < 0:
        return False
    return row[COUNT] == 0 or records_are_quiet(batch, row)


cdef bint records_are_quiet(const uint8_t* batch, const int64_t* row) noexcept nogil:
    cdef Cursor cursor
    cdef Row record
    cdef int64_t number, before = -1, largest = 0
    if row[COUNT] > row[LAST_OFFSET_DELTA] + 1:
        return False
    if not 0 < row[COUNT] <= (row[SIZE] - HEADER_BYTES) // RECORD_BYTES_MIN:
        return False
    cursor.data = batch
    cursor.position = HEADER_BYTES
    cursor.end = row[SIZE]
    for number in range(row[COUNT]):
        if read_record(&cursor, &record) != FINE or record.offset_delta <= before:
            return False
        before = record.offset_delta
        if number == 0 or record.timestamp_delta > largest:
            largest = record.timestamp_delta
    if cursor.position != cursor.end or before > row[LAST_OFFSET_DELTA]:
        return False
    if row[ATTRIBUTES] & APPEND_TIME_BIT:
        return True
    return <uint64_t>long_at(batch + BASE_TIMESTAMP_POSITION) + <uint64_t>largest == <uint64_t>row[MAX_TIMESTAMP]


cdef inline uint64_t long_at(const uint8_t* data) noexcept nogil:
    cdef uint64_t number = 0
    for place in range(8):
        number = number << 8 | data[place]
    return number
