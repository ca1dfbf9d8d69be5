# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The headers of a block of v2 batches as rows of numbers: the compiled form of the reference `reference/chain.py`.

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

from offsetfs.storage.native.record cimport FINE, RECORD_BYTES_MIN, Cursor, read_record
from offsetfs.storage.native.rows cimport BATCH_COLUMNS, RECORD_COLUMNS, BatchRow, RecordRow, hold_rows

cdef extern from "crc32c.h" nogil:
    int crc32c_is_fast
    void crc32c_prepare()
    uint32_t crc32c_of(uint32_t crc, const uint8_t* data, size_t size)
    uint32_t crc32c_by_tables(uint32_t crc, const uint8_t* data, size_t size)

cdef enum:
    STATE_COUNT = 7
    ROWS_COUNT_MAX = 8192
    HEADER_BYTES = 61
    LOG_OVERHEAD = 12
    CRC_POSITION = 17
    CHECKED_POSITION = 21
    OFFSET_ENTRY_BYTES = 8
    TIME_ENTRY_BYTES = 12
    CODEC_BITS = 0x07
    APPEND_TIME_BIT = 0x08
    CONTROL_BIT = 0x20
    NOT_HERE = -1

cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t INT_MAX = 0x7FFFFFFF
cdef array _template = _array("q")

crc32c_prepare()


cdef struct Bounds:
    bint are_checked
    int64_t refused  # bits of attributes that no batch has
    int64_t offset_min  # negative: offsets are taken as they come
    int64_t offset_max


cdef struct Walk:  # over the batches of a block
    const uint8_t* block
    Py_ssize_t position  # of the next batch
    Py_ssize_t end  # of what may be read
    Py_ssize_t limit  # which no batch passes
    int64_t file_position  # of the block
    Bounds bounds
    BatchRow* rows
    Py_ssize_t rows_count
    Py_ssize_t rows_max


def headers(block, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit, int64_t file_position):
    """Return the rows of the batches in a block, and where the walk ended. See `reference/chain.py:headers`."""
    return walked(block, start, end, limit, file_position, Bounds(False, 0, -1, LONG_MAX))


def sound(
    block,
    Py_ssize_t start,
    Py_ssize_t end,
    int64_t file_position,
    int64_t offset_min,
    int64_t offset_max,
    int64_t refused=0,
):
    """Return the rows of whole batches that are sound, and where the walk ended. See `reference/chain.py:sound`."""
    return walked(block, start, end, end, file_position, Bounds(True, refused, offset_min, offset_max))


cdef tuple walked(
    block, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit, int64_t file_position, Bounds bounds
):
    cdef Py_buffer source
    cdef array rows
    cdef Walk walk
    PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= source.len or limit < end:
            raise ValueError("positions outside of the block")
        walk.block, walk.position, walk.end, walk.limit = <const uint8_t*>source.buf, start, end, limit
        walk.file_position, walk.bounds = file_position, bounds
        walk.rows_count, walk.rows_max = 0, min((end - start) // HEADER_BYTES, ROWS_COUNT_MAX)
        rows = clone(_template, walk.rows_max * BATCH_COLUMNS, zero=False)
        walk.rows = <BatchRow*>rows.data.as_voidptr
        with nogil:
            find_rows(&walk)
        resize(rows, walk.rows_count * BATCH_COLUMNS)
        return rows, walk.position
    finally:
        PyBuffer_Release(&source)


cdef void find_rows(Walk* walk) noexcept nogil:
    """Fill in the rows; `position` is then where the walk ended."""
    cdef Bounds bounds = walk.bounds
    # Locals, because a store into a row might change the struct as far as the compiler knows: 10 % of the time.
    cdef Py_ssize_t position = walk.position, end = walk.end, limit = walk.limit
    cdef const uint8_t* batch
    cdef BatchRow* row = walk.rows
    cdef BatchRow* rows_end = row + walk.rows_max
    cdef int64_t size
    while end - position >= HEADER_BYTES and row < rows_end:
        batch = walk.block + position
        size = <int64_t>i32(batch + 8) + LOG_OVERHEAD
        if <int8_t>batch[16] != 2 or size < HEADER_BYTES or size > limit - position:
            break
        row.position = <int64_t>(<uint64_t>walk.file_position + <uint64_t>position)
        row.base_offset = i64(batch)
        row.size = size
        row.leader_epoch = i32(batch + 12)
        row.magic_byte = 2
        row.attributes = i16(batch + 21)
        row.last_offset_delta = i32(batch + 23)
        row.max_timestamp = i64(batch + 35)
        row.producer_id = i64(batch + 43)
        row.producer_epoch = i16(batch + 51)
        row.base_sequence = i32(batch + 53)
        row.count = i32(batch + 57)
        if bounds.are_checked:
            if not is_possible(row, &bounds):
                break
            if crc32c_of(0, batch + CHECKED_POSITION, size - CHECKED_POSITION) != <uint32_t>i32(batch + CRC_POSITION):
                break
            if bounds.offset_min >= 0:
                bounds.offset_min = row.base_offset + row.last_offset_delta + 1
        position += size
        row += 1
    walk.position, walk.rows_count = position, row - walk.rows


cdef inline bint is_possible(const BatchRow* row, const Bounds* bounds) noexcept nogil:
    if row.attributes & bounds.refused:
        return False
    if row.base_offset < 0 or row.base_offset < bounds.offset_min or row.last_offset_delta < 0 or row.count < 0:
        return False
    return row.base_offset <= LONG_MAX - 1 - row.last_offset_delta and row.base_offset + row.last_offset_delta <= bounds.offset_max


# --- records ---------------------------------------------------------------------------------------------------------


def scan(block, int64_t file_position, array rows not None, int64_t base_offset, int64_t base_timestamp):
    """Return the rows of all records, or None. See `reference/chain.py:scan`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, BATCH_COLUMNS, &held_rows), number
    cdef int64_t space = 0, done = 0, scanned = 0, records
    cdef array found
    cdef const BatchRow* row = <const BatchRow*>held_rows.buf
    try:
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            if check_inside(source.len, file_position, row, count) > source.len:
                raise ValueError("batches that overlap")
            for number in range(count):  # at most a seventh of the bytes, or the batch cannot be read
                records = row[number].count
                if row[number].attributes & CONTROL_BIT:
                    continue
                if not 0 <= records <= row[number].size // RECORD_BYTES_MIN:
                    return None
                space += records
            found = clone(_template, space * RECORD_COLUMNS, zero=False)
            with nogil:
                for number in range(count):
                    scanned = scan_batch(
                        <const uint8_t*>source.buf, source.len, file_position, &row[number], base_offset, base_timestamp,
                        <RecordRow*>found.data.as_voidptr + done, space - done,
                    )
                    if scanned < 0:
                        break
                    done += scanned
            if scanned < 0:
                return None
            resize(found, done * RECORD_COLUMNS)
            return found
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&held_rows)


cdef int64_t scan_batch(
    const uint8_t* block,
    Py_ssize_t length,
    int64_t file_position,
    const BatchRow* row,
    int64_t base_offset,
    int64_t base_timestamp,
    RecordRow* out,
    int64_t space,
) noexcept nogil:
    """Write the rows of a batch to `out`; return how many, NOT_HERE where they cannot be read or have no space."""
    cdef Cursor cursor
    cdef int64_t position = row.position - file_position, attributes = row.attributes, done
    cdef int64_t count = open_batch(block, length, file_position, row, &cursor)
    cdef uint64_t offset, timestamp, append_time
    if count <= 0:
        return count
    if count > space or cursor.data != block + position:
        return NOT_HERE
    offset = <uint64_t>i64(cursor.data) - <uint64_t>base_offset
    timestamp = <uint64_t>i64(cursor.data + 27) - <uint64_t>base_timestamp
    append_time = <uint64_t>i64(cursor.data + 35) - <uint64_t>base_timestamp
    for done in range(count):
        if read_record(&cursor, out) != FINE:
            return NOT_HERE
        out.offset_delta = <int64_t>(offset + <uint64_t>out.offset_delta)
        out.timestamp_delta = <int64_t>(
            append_time if attributes & APPEND_TIME_BIT else timestamp + <uint64_t>out.timestamp_delta
        )
        out.key_position += position
        out.value_position += position
        out.headers_position += position
        out += 1
    return count if cursor.position == cursor.end else NOT_HERE


# --- values ----------------------------------------------------------------------------------------------------------


def measure(block, int64_t file_position, array rows not None):
    """Return the bytes of output of each batch. See `reference/chain.py:measure`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, BATCH_COLUMNS, &held_rows), number
    cdef array sizes
    cdef const BatchRow* row = <const BatchRow*>held_rows.buf
    try:
        sizes = clone(_template, count, zero=False)
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            check_inside(source.len, file_position, row, count)
            with nogil:
                for number in range(count):
                    sizes.data.as_longlongs[number] = batch_size(
                        <const uint8_t*>source.buf, source.len, file_position, &row[number]
                    )
            return sizes
        finally:
            PyBuffer_Release(&source)
    finally:
        PyBuffer_Release(&held_rows)


def join(block, int64_t file_position, array rows not None):
    """Return the output of all batches, or None. See `reference/chain.py:join`."""
    cdef Py_buffer source
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, BATCH_COLUMNS, &held_rows), number
    cdef int64_t space, done = 0, size = 0
    cdef bytearray lines
    cdef uint8_t* out
    cdef const BatchRow* row = <const BatchRow*>held_rows.buf
    try:
        PyObject_GetBuffer(block, &source, PyBUF_SIMPLE)
        try:
            space = check_inside(source.len, file_position, row, count)
            if space > source.len:
                raise ValueError("batches that overlap")
            # What is to be read anyway: a record has at least seven bytes beside its value.
            lines = PyByteArray_FromStringAndSize(NULL, space)
            out = <uint8_t*>PyByteArray_AS_STRING(lines)
            with nogil:
                for number in range(count):
                    size = batch_lines(
                        <const uint8_t*>source.buf, source.len, file_position, &row[number],
                        out + done, space - done,
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
    Py_ssize_t length, int64_t file_position, const BatchRow* row, Py_ssize_t count
) except -1:
    """Refuse rows that reach out of the block; return the size of their batches, more than `length` if they overlap."""
    cdef Py_ssize_t number
    cdef int64_t size = 0
    for number in range(count):
        if not is_inside(row.position, row.size, file_position, length):
            raise ValueError("rows of another block")
        if size <= length:
            size += row.size
        row += 1
    return size


cdef inline bint is_inside(int64_t position, int64_t size, int64_t file_position, Py_ssize_t length) noexcept nogil:
    cdef uint64_t begin = <uint64_t>position - <uint64_t>file_position
    return position >= file_position and begin <= <uint64_t>length and HEADER_BYTES <= size <= length - <int64_t>begin


cdef inline int64_t open_batch(
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const BatchRow* row, Cursor* cursor
) noexcept nogil:
    """Put the cursor to the first record of a batch with output; return how many records it has, NOT_HERE if unreadable.

    The numbers of the row are read once, and checked again: another thread may have written to them.
    """
    cdef int64_t position = row.position, batch_bytes = row.size, attributes = row.attributes, count = row.count
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
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const BatchRow* row
) noexcept nogil:
    """Return the size of the lines of a batch. As `batch_lines`, without the copy: that takes twice as long."""
    cdef Cursor cursor
    cdef RecordRow record
    cdef int64_t done, size = 0, count = open_batch(block, length, file_position, row, &cursor)
    if count < 0:
        return NOT_HERE
    for done in range(count):
        if read_record(&cursor, &record) != FINE:
            return NOT_HERE
        size += (record.value_size if record.value_size > 0 else 0) + 1
    return size if cursor.position == cursor.end else NOT_HERE


cdef int64_t batch_lines(
    const uint8_t* block, Py_ssize_t length, int64_t file_position, const BatchRow* row, uint8_t* out, int64_t space
) noexcept nogil:
    """Copy the lines of a batch to `out`; return their size, NOT_HERE where they cannot be read or have no space."""
    cdef Cursor cursor
    cdef RecordRow record
    cdef int64_t done, size = 0, count = open_batch(block, length, file_position, row, &cursor)
    if count < 0:
        return NOT_HERE
    for done in range(count):
        if read_record(&cursor, &record) != FINE:
            return NOT_HERE
        if record.value_size < 0:
            record.value_size = 0
        if record.value_size + 1 > space - size:
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
    """Return what the batches of `rows` add to both indexes. See `reference/chain.py:index`."""
    cdef Py_ssize_t count = len(rows) // BATCH_COLUMNS, offsets_size = 0, times_size = 0
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
            <const BatchRow*>rows.data.as_voidptr, count, <State*>state.data.as_voidptr,
            entries, &offsets_size, entries + count * OFFSET_ENTRY_BYTES, &times_size,
        )
        return (
            PyBytes_FromStringAndSize(<char*>entries, offsets_size),
            PyBytes_FromStringAndSize(<char*>entries + count * OFFSET_ENTRY_BYTES, times_size),
        )
    finally:
        free(entries)


cdef void index_rows(
    const BatchRow* row,
    Py_ssize_t count,
    State* state,
    uint8_t* offsets,
    Py_ssize_t* offsets_size,
    uint8_t* times,
    Py_ssize_t* times_size,
) noexcept nogil:
    cdef int64_t position, last_offset
    for _ in range(count):
        position, last_offset = row.position, <int64_t>(<uint64_t>row.base_offset + <uint64_t>row.last_offset_delta)
        if last_offset > state.last_offset and <uint64_t>last_offset - <uint64_t>state.base_offset <= <uint64_t>INT_MAX:
            state.last_offset = last_offset
            if row.max_timestamp > state.timestamp:
                state.timestamp, state.timestamp_offset = row.max_timestamp, last_offset
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
        row += 1


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
