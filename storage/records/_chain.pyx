# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The headers of a block of v2 batches as rows of numbers: the compiled form of the reference `chain_pure`.

Bytes from disk are not trusted. Every read is checked against the end of the buffer, a size is compared with the
remaining bytes before it is added to a position, and no memory is allocated because a length field says so. Values are
read once into locals: another thread may write to a shared buffer meanwhile, and then gets a wrong result, but no read
or write out of bounds.

The GIL is released during a scan.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from array import array as _array

from offsetfs.storage.records._record cimport FINE, RECORD_BYTES_MIN, Cursor, Row, hold_rows, read_record

cdef extern from "_crc32c.h" nogil:
    int crc32c_is_fast
    void crc32c_prepare()
    uint32_t crc32c_of(uint32_t crc, const uint8_t* data, size_t size)
    uint32_t crc32c_by_tables(uint32_t crc, const uint8_t* data, size_t size)

cdef enum:
    COLUMN_COUNT = 12
    STATE_COUNT = 7
    ROWS_COUNT_MAX = 8192
    HEADER_BYTES = 61
    LOG_OVERHEAD = 12
    CRC_POSITION = 17
    CHECKED_POSITION = 21
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    CODEC_BITS = 0x07
    CONTROL_BIT = 0x20
    NOT_HERE = -1

cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t INT_MAX = 0x7FFFFFFF
cdef array _template = _array("q")

crc32c_prepare()


cdef struct Bounds:
    bint are_checked
    int64_t offset_min  # negative: offsets are taken as they come
    int64_t offset_max


def headers(block, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit, int64_t file_position):
    """Return the rows of the batches in a block, and where the walk ended. See `chain_pure.headers`."""
    return walked(block, start, end, limit, file_position, Bounds(False, -1, LONG_MAX))


def sound(
    block, Py_ssize_t start, Py_ssize_t end, int64_t file_position, int64_t offset_min, int64_t offset_max
):
    """Return the rows of whole batches that are sound, and where the walk ended. See `chain_pure.sound`."""
    return walked(block, start, end, end, file_position, Bounds(True, offset_min, offset_max))


cdef tuple walked(
    block, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit, int64_t file_position, Bounds bounds
):
    cdef Py_buffer source
    cdef array rows
    cdef Py_ssize_t count = 0, rows_max
    PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= source.len or limit < end:
            raise ValueError("positions outside of the block")
        rows_max = min((end - start) // HEADER_BYTES, ROWS_COUNT_MAX)
        rows = clone(_template, rows_max * COLUMN_COUNT, zero=False)
        with nogil:
            start = walk(
                <const uint8_t*>source.buf, start, end, limit, file_position, &bounds,
                <int64_t*>rows.data.as_voidptr, rows_max, &count,
            )
        resize(rows, count * COLUMN_COUNT)
        return rows, start
    finally:
        PyBuffer_Release(&source)


cdef Py_ssize_t walk(
    const uint8_t* block,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t limit,
    int64_t file_position,
    Bounds* bounds,
    int64_t* row,
    Py_ssize_t rows_max,
    Py_ssize_t* count,
) noexcept nogil:
    cdef const uint8_t* batch
    cdef int64_t size
    while end - position >= HEADER_BYTES and count[0] < rows_max:
        batch = block + position
        size = <int64_t>i32(batch + 8) + LOG_OVERHEAD
        if <int8_t>batch[16] != 2 or size < HEADER_BYTES or size > limit - position:
            break
        row[0] = <int64_t>(<uint64_t>file_position + <uint64_t>position)
        row[1] = i64(batch)
        row[2] = size
        row[3] = i32(batch + 12)
        row[4] = 2
        row[5] = i16(batch + 21)
        row[6] = i32(batch + 23)
        row[7] = i64(batch + 35)
        row[8] = i64(batch + 43)
        row[9] = i16(batch + 51)
        row[10] = i32(batch + 53)
        row[11] = i32(batch + 57)
        if bounds.are_checked:
            if not is_possible(row, bounds):
                break
            if crc32c_of(0, batch + CHECKED_POSITION, size - CHECKED_POSITION) != <uint32_t>i32(batch + CRC_POSITION):
                break
            if bounds.offset_min >= 0:
                bounds.offset_min = row[1] + row[6] + 1
        position += size
        row += COLUMN_COUNT
        count[0] += 1
    return position


cdef inline bint is_possible(const int64_t* row, const Bounds* bounds) noexcept nogil:
    if row[1] < 0 or row[1] < bounds.offset_min or row[6] < 0 or row[11] < 0:
        return False
    return row[1] <= LONG_MAX - 1 - row[6] and row[1] + row[6] <= bounds.offset_max


# --- values ----------------------------------------------------------------------------------------------------------


def measure(block, int64_t file_position, array rows not None):
    """Return the bytes of output of each batch. See `chain_pure.measure`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, COLUMN_COUNT, &held_rows), number
    cdef array sizes
    cdef const int64_t* row = <const int64_t*>held_rows.buf
    try:
        sizes = clone(_template, count, zero=False)
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            check_inside(source.len, file_position, row, count)
            with nogil:
                for number in range(count):
                    sizes.data.as_longlongs[number] = batch_size(
                        <const uint8_t*>source.buf, source.len, file_position, row + number * COLUMN_COUNT
                    )
            return sizes
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&held_rows)


def join(block, int64_t file_position, array rows not None):
    """Return the output of all batches, or None. See `chain_pure.join`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, COLUMN_COUNT, &held_rows), number
    cdef int64_t room, done = 0, size = 0
    cdef bytearray lines
    cdef uint8_t* out
    cdef const int64_t* row = <const int64_t*>held_rows.buf
    try:
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            room = check_inside(source.len, file_position, row, count)
            if room > source.len:
                raise ValueError("batches that overlap")
            # What is to be read anyway: a record has at least seven bytes beside its value.
            lines = PyByteArray_FromStringAndSize(NULL, room)
            out = <uint8_t*>PyByteArray_AS_STRING(lines)
            with nogil:
                for number in range(count):
                    size = batch_lines(
                        <const uint8_t*>source.buf, source.len, file_position, row + number * COLUMN_COUNT,
                        out + done, room - done,
                    )
                    if size < 0:
                        break
                    done += size
            if size < 0:
                return None
            PyByteArray_Resize(lines, done)
            return lines
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&held_rows)


cdef int64_t check_inside(
    Py_ssize_t length, int64_t file_position, const int64_t* row, Py_ssize_t count
) except -1:
    """Refuse rows that reach out of the block; return the size of their batches, more than `length` if they overlap."""
    cdef Py_ssize_t number
    cdef int64_t size = 0
    for number in range(count):
        if not is_inside(row[0], row[2], file_position, length):
            raise ValueError("rows of another block")
        if size <= length:
            size += row[2]
        row += COLUMN_COUNT
    return size


cdef inline bint is_inside(int64_t position, int64_t size, int64_t file_position, Py_ssize_t length) noexcept nogil:
    cdef uint64_t begin = <uint64_t>position - <uint64_t>file_position
    return position >= file_position and begin <= <uint64_t>length and HEADER_BYTES <= size <= length - <int64_t>begin


cdef inline int64_t open_batch(
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const int64_t* row, Cursor* cursor
) noexcept nogil:
    """Put the cursor to the first record of a batch with output; return how many records it has, NOT_HERE if unreadable.

    The numbers of the row are read once, and checked again: another thread may have written to them.
    """
    cdef int64_t position = row[0], batch_bytes = row[2], attributes = row[5], count = row[11]
    if attributes & CONTROL_BIT or count == 0:
        cursor.position = cursor.end = 0
        return 0
    if attributes & CODEC_BITS or not is_inside(position, batch_bytes, file_position, length):
        return NOT_HERE
    if not 0 < count <= (batch_bytes - HEADER_BYTES) // RECORD_BYTES_MIN:
        return NOT_HERE
    cursor.data = block + (position - file_position)
    cursor.position = HEADER_BYTES
    cursor.end = batch_bytes
    return count


cdef int64_t batch_size(
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const int64_t* row
) noexcept nogil:
    """Return the size of the lines of a batch. As `batch_lines`, without the copy: that takes twice as long."""
    cdef Cursor cursor
    cdef Row record
    cdef int64_t done, size = 0, count = open_batch(block, length, file_position, row, &cursor)
    if count < 0:
        return NOT_HERE
    for done in range(count):
        if read_record(&cursor, &record) != FINE:
            return NOT_HERE
        size += (record.value_size if record.value_size > 0 else 0) + 1
    return size if cursor.position == cursor.end else NOT_HERE


cdef int64_t batch_lines(
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const int64_t* row, uint8_t* out, int64_t room
) noexcept nogil:
    """Copy the lines of a batch to `out`; return their size, NOT_HERE where they cannot be read or have no room."""
    cdef Cursor cursor
    cdef Row record
    cdef int64_t done, size = 0, count = open_batch(block, length, file_position, row, &cursor)
    if count < 0:
        return NOT_HERE
    for done in range(count):
        if read_record(&cursor, &record) != FINE:
            return NOT_HERE
        if record.value_size < 0:
            record.value_size = 0
        if record.value_size + 1 > room - size:
            return NOT_HERE
        memcpy(out + size, cursor.data + record.value_position, record.value_size)
        out[size + record.value_size] = c"\n"
        size += record.value_size + 1
    return size if cursor.position == cursor.end else NOT_HERE


# --- indexes ---------------------------------------------------------------------------------------------------------


cdef struct State:
    int64_t base_offset
    int64_t interval_bytes
    int64_t indexed_position
    int64_t last_offset
    int64_t timestamp
    int64_t timestamp_offset
    int64_t time_entry


def index(array rows not None, array state not None):
    """Return what the batches of `rows` add to both indexes. See `chain_pure.index`."""
    cdef Py_ssize_t count = len(rows) // COLUMN_COUNT, offsets_size = 0, times_size = 0
    cdef uint8_t* entries
    if rows.typecode != "q" or state.typecode != "q" or len(state) != STATE_COUNT:
        raise ValueError("no state of an index")
    if count == 0:
        return b"", b""
    entries = <uint8_t*>malloc(count * (OFFSET_ENTRY_BYTES + TIME_ENTRY_BYTES))
    if entries is NULL:
        raise MemoryError
    try:
        index_rows(
            <const int64_t*>rows.data.as_voidptr, count, <State*>state.data.as_voidptr,
            entries, &offsets_size, entries + count * OFFSET_ENTRY_BYTES, &times_size,
        )
        return (
            PyBytes_FromStringAndSize(<char*>entries, offsets_size),
            PyBytes_FromStringAndSize(<char*>entries + count * OFFSET_ENTRY_BYTES, times_size),
        )
    finally:
        free(entries)


cdef void index_rows(
    const int64_t* row,
    Py_ssize_t count,
    State* state,
    uint8_t* offsets,
    Py_ssize_t* offsets_size,
    uint8_t* times,
    Py_ssize_t* times_size,
) noexcept nogil:
    cdef int64_t position, last_offset
    for _ in range(count):
        position, last_offset = row[0], <int64_t>(<uint64_t>row[1] + <uint64_t>row[6])
        if last_offset > state.last_offset and <uint64_t>last_offset - <uint64_t>state.base_offset <= <uint64_t>INT_MAX:
            state.last_offset = last_offset
            if row[7] > state.timestamp:
                state.timestamp, state.timestamp_offset = row[7], last_offset
            if position - state.indexed_position > state.interval_bytes and position <= INT_MAX:
                put_i32(offsets + offsets_size[0], last_offset - state.base_offset)
                put_i32(offsets + offsets_size[0] + 4, position)
                offsets_size[0] += OFFSET_ENTRY_BYTES
                state.indexed_position = position
                if state.timestamp > state.time_entry:
                    put_i32(times + times_size[0], state.timestamp >> 32)
                    put_i32(times + times_size[0] + 4, state.timestamp)
                    put_i32(times + times_size[0] + 8, state.timestamp_offset - state.base_offset)
                    times_size[0] += TIME_ENTRY_BYTES
                    state.time_entry = state.timestamp
        row += COLUMN_COUNT


# --- for tests -------------------------------------------------------------------------------------------------------


def checksum(data, bint by_tables=False):
    """Return the CRC-32C of `data` as a walk computes it; `by_tables` as on a processor without the instruction."""
    cdef Py_buffer source
    cdef uint32_t crc
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        with nogil:
            if by_tables:
                crc = crc32c_by_tables(0, <const uint8_t*>source.buf, source.len)
            else:
                crc = crc32c_of(0, <const uint8_t*>source.buf, source.len)
        return crc
    finally:
        PyBuffer_Release(&source)


# --- big-endian numbers ----------------------------------------------------------------------------------------------


cdef inline int64_t i64(const uint8_t* data) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>i32(data) << 32 | <uint32_t>i32(data + 4))


cdef inline int32_t i32(const uint8_t* data) noexcept nogil:
    return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | <uint32_t>data[3])


cdef inline int16_t i16(const uint8_t* data) noexcept nogil:
    return <int16_t>(<uint16_t>data[0] << 8 | <uint16_t>data[1])


cdef inline void put_i32(uint8_t* target, int64_t number) noexcept nogil:
    target[0] = <uint8_t>(number >> 24)
    target[1] = <uint8_t>(number >> 16)
    target[2] = <uint8_t>(number >> 8)
    target[3] = <uint8_t>number
