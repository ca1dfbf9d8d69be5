# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The records of a v2 batch, whole buffers at a time: the compiled form of the reference `reference/codec.py`.

Bytes from disk are not trusted. Every read is checked against the end of the buffer, a size is compared with the
remaining bytes before it is added to a position, and no memory is allocated because a length field says so. Values are
read once into locals: another thread may write to a shared buffer meanwhile, and then gets a wrong result, but no read
or write out of bounds.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcpy

from offsetfs.storage.native.record cimport (
    FINE, HEADER_NAME, RECORD_BYTES_MIN, VARLONG_BYTES_MAX, Cursor, Fault, field_size, put_field, put_varint,
    read_field, read_record, reason, step_over, varint_size,
)
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow

from array import array as _array

from offsetfs.storage.errors import MalformedBatch

cdef enum:
    ROWS_AT_FIRST = 1024
    SURVEYED_WITH_GIL = 16384  # bytes that are surveyed sooner than the lock of the interpreter is given away
    SURVEY_FINE = -1
    SURVEY_FAULT = -2

cdef int64_t INT_MAX = 0x7FFFFFFF
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef array _row_template = _array("q")

RECORD_SIZE_MIN = RECORD_BYTES_MIN

# --- writing -------------------------------------------------------------------------------------------------------


cdef struct Lines:  # the lines to take
    const uint8_t* data
    Py_ssize_t start
    Py_ssize_t end


cdef struct Target:  # the batch that is filled
    uint8_t* data
    Py_ssize_t position
    Py_ssize_t size
    int64_t offset_delta


cdef struct Fixed:  # what every record of a call begins with: attributes, timestamp delta
    uint8_t data[1 + VARLONG_BYTES_MAX]
    Py_ssize_t size


def split(
    source, Py_ssize_t start, Py_ssize_t end, target, Py_ssize_t position, int64_t offset_delta, timestamp_delta
):
    """Write each whole line of `source[start:end]` as a record into `target`. See `reference/codec.py:split`."""
    cdef Py_buffer held_lines
    cdef Py_buffer held_target
    cdef Lines lines
    cdef Target filled
    cdef Fixed fixed
    fixed.data[0] = 0
    fixed.size = 1 + put_varint(fixed.data + 1, long_of(timestamp_delta))
    PyObject_GetBuffer(source, &held_lines, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(target, &held_target, PyBUF_WRITABLE)
        try:
            lines.data, lines.start, lines.end = <const uint8_t*>held_lines.buf, start, end
            filled.data, filled.size = <uint8_t*>held_target.buf, held_target.len
            filled.position, filled.offset_delta = position, offset_delta
            if not 0 <= start <= end <= held_lines.len or not 0 <= position <= filled.size:
                raise ValueError("split outside of its buffers")
            if offset_delta < 0:
                raise ValueError("a negative offset delta")
            with nogil:
                split_lines(&lines, &filled, &fixed)
            return lines.start, filled.position, filled.offset_delta
        finally:
            PyBuffer_Release(&held_target)
    finally:
        PyBuffer_Release(&held_lines)


cdef void split_lines(Lines* lines, Target* target, const Fixed* fixed) noexcept nogil:
    cdef const uint8_t* line
    cdef const uint8_t* newline
    cdef Py_ssize_t size, body_size
    cdef uint8_t* out
    while target.offset_delta <= INT_MAX and lines.start < lines.end:
        line = lines.data + lines.start
        newline = <const uint8_t*>memchr(line, c"\n", lines.end - lines.start)
        if newline is NULL:
            return
        size = newline - line
        body_size = fixed.size + varint_size(target.offset_delta) + 1 + varint_size(size) + size + 1
        if body_size > INT_MAX or varint_size(body_size) + body_size > target.size - target.position:
            return
        out = target.data + target.position
        out += put_varint(out, body_size)
        memcpy(out, fixed.data, fixed.size)
        out += fixed.size
        out += put_varint(out, target.offset_delta)
        out[0] = 1  # the key size of a null: -1
        out += 1
        out += put_varint(out, size)
        memcpy(out, line, size)
        out += size
        out[0] = 0  # no headers
        target.position = out + 1 - target.data
        lines.start += size + 1
        target.offset_delta += 1


def encode(records, base_timestamp, offset_delta):
    """Return the records as a payload. See `reference/codec.py:encode`."""
    cdef bytearray encoded = bytearray()
    cdef Py_ssize_t used = 0
    cdef int64_t timestamp_delta
    for key, value, headers, timestamp in records:
        if timestamp < -1:
            raise ValueError(f"a timestamp of {timestamp}")
        if not 0 <= offset_delta <= INT_MAX:
            raise ValueError(f"an offset delta of {offset_delta}")
        timestamp_delta = long_of(timestamp - base_timestamp)
        used = encode_record(encoded, used, key, value, headers_of(headers), timestamp_delta, offset_delta)
        offset_delta += 1
    return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(encoded), used)


cdef Py_ssize_t encode_record(
    bytearray encoded, Py_ssize_t used, key, value, bytes headers, int64_t timestamp_delta, int64_t offset_delta
) except -1:
    """Write one record at `used`, growing `encoded` by half when it is full; return the position behind it."""
    cdef Py_buffer key_buffer
    cdef Py_buffer value_buffer
    cdef Py_ssize_t key_size = -1, value_size = -1, body_size, size
    cdef uint8_t* out
    if key is not None:
        PyObject_GetBuffer(key, &key_buffer, PyBUF_SIMPLE)
        key_size = key_buffer.len
    try:
        if value is not None:
            PyObject_GetBuffer(value, &value_buffer, PyBUF_SIMPLE)
            value_size = value_buffer.len
        try:
            body_size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + len(headers)
            body_size += field_size(key_size) + field_size(value_size)
            if body_size > INT_MAX:
                raise ValueError(f"{body_size} does not fit 32 bits")
            size = varint_size(body_size) + body_size
            if size > len(encoded) - used:
                PyByteArray_Resize(encoded, used + size + (used >> 1))
            out = <uint8_t*>PyByteArray_AS_STRING(encoded) + used
            out += put_varint(out, body_size)
            out[0] = 0
            out += 1
            out += put_varint(out, timestamp_delta)
            out += put_varint(out, offset_delta)
            out = put_field(out, key_buffer.buf if key_size >= 0 else NULL, key_size)
            out = put_field(out, value_buffer.buf if value_size >= 0 else NULL, value_size)
            memcpy(out, <const char*>headers, len(headers))
            return used + size
        finally:
            if value_size >= 0:
                PyBuffer_Release(&value_buffer)
    finally:
        if key_size >= 0:
            PyBuffer_Release(&key_buffer)


cdef bytes headers_of(headers):
    """Return the count and the headers as they end a record."""
    cdef bytearray encoded
    if len(headers) == 0:
        return b"\0"
    encoded = bytearray(varint_of(len(headers)))
    for name, value in headers:
        name = name.encode("utf-8", "surrogateescape")
        encoded += varint_of(len(name))
        encoded += name
        if value is None:
            encoded += varint_of(-1)
        else:
            value = bytes(value)
            encoded += varint_of(len(value))
            encoded += value
    return bytes(encoded)


cdef bytes varint_of(int64_t value):
    cdef uint8_t encoded[VARLONG_BYTES_MAX]
    if not -INT_MAX - 1 <= value <= INT_MAX:
        raise ValueError(f"{value} does not fit 32 bits")
    return PyBytes_FromStringAndSize(<char*>encoded, put_varint(encoded, value))


cdef int64_t long_of(value) except? -1:
    try:
        return value
    except OverflowError:
        raise ValueError(f"{value} does not fit 64 bits") from None


# --- reading -------------------------------------------------------------------------------------------------------


def scan(payload, count):
    """Return the row of each record. See `reference/codec.py:scan`."""
    cdef Payload data = Payload(payload, count)
    cdef array rows = clone(_row_template, min(data.count, ROWS_AT_FIRST) * RECORD_COLUMNS, zero=False)
    cdef Py_ssize_t done = 0
    cdef RecordRow row
    while data.next(&row):
        if done == len(rows):
            # The count is no more than a seventh of the payload, but may still be a lie: grow as records turn up.
            resize(rows, min(data.count * RECORD_COLUMNS, 2 * done))
        memcpy(rows.data.as_longlongs + done, &row, sizeof(RecordRow))
        done += RECORD_COLUMNS
    return rows


def survey(payload, count, base_timestamp):
    """Return the timestamps and the records without a key of a client's batch. See `reference/codec.py:survey`."""
    cdef Payload data = Payload(payload, count)
    cdef Extent extent
    cdef Py_ssize_t wrong
    extent.base_timestamp = base_timestamp
    extent.earliest, extent.latest, extent.keyless = LONG_MAX, -1, 0
    if data.buffer.len < SURVEYED_WITH_GIL:
        wrong = data.survey(&extent)
    else:
        with nogil:
            wrong = data.survey(&extent)
    if wrong == SURVEY_FAULT:
        data.complain()
    if wrong >= 0:
        raise MalformedBatch(f"record {wrong} has an offset delta of {extent.offset_delta}")
    return extent.earliest, extent.latest, extent.keyless


def find(payload, count, offset_delta):
    """Return the row of the first record with this offset delta, or None. See `reference/codec.py:find`."""
    cdef Payload data = Payload(payload, count)
    cdef RecordRow row
    cdef int64_t wanted
    if not -INT_MAX - 1 <= offset_delta <= INT_MAX:
        wanted = INT_MAX + 1  # equal to no delta
    else:
        wanted = offset_delta
    if not data.seek(wanted):
        return None
    data.next(&row)
    return (
        row.offset_delta, row.timestamp_delta, row.key_position, row.key_size,
        row.value_position, row.value_size, row.headers_position, row.headers_count,
    )


def decode(payload, count):
    """Return (offset delta, timestamp delta, key, value, headers) for each record. See `reference/codec.py:decode`."""
    cdef Payload data = Payload(payload, count)
    cdef list records = []
    cdef RecordRow row
    while data.next(&row):
        records.append((
            row.offset_delta,
            row.timestamp_delta,
            data.slice(row.key_position, row.key_size),
            data.slice(row.value_position, row.value_size),
            data.headers(row.headers_position, row.headers_count) if row.headers_count else (),
        ))
    return records


def join(payload, count):
    """Return all values, each followed by a newline. See `reference/codec.py:join`."""
    cdef Payload data = Payload(payload, count)
    # A record takes at least seven bytes beside its value, so its line always fits where the record did.
    cdef bytearray lines = PyByteArray_FromStringAndSize(NULL, data.cursor.end if data.count else 0)
    cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(lines)
    cdef Py_ssize_t size
    with nogil:
        size = data.join(out)
    if size < 0:
        data.complain()
    PyByteArray_Resize(lines, size)
    return lines


def measure(payload, count):
    """Return `len(join(payload, count))` without building it."""
    cdef Payload data = Payload(payload, count)
    cdef Py_ssize_t size
    with nogil:
        size = data.join(NULL)
    if size < 0:
        data.complain()
    return size


cdef struct Extent:  # of the records of a client's batch
    int64_t base_timestamp
    int64_t earliest
    int64_t latest
    int64_t keyless
    int64_t offset_delta  # the wrong one


cdef class Payload:
    """A payload held for reading: a cursor over its records, and the first fault met."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef Cursor cursor
    cdef Py_ssize_t count, done
    cdef Fault fault

    def __cinit__(self, payload, count):
        PyObject_GetBuffer(payload, &self.buffer, PyBUF_SIMPLE)
        self.is_held = True
        if not 0 <= count <= self.buffer.len // RECORD_BYTES_MIN:
            raise MalformedBatch(f"{count} records in {self.buffer.len} bytes")
        self.count = count
        self.cursor.data = <const uint8_t*>self.buffer.buf
        self.cursor.end = self.buffer.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)

    cdef bint next(self, RecordRow* row) except -1:
        """Read the next record; false behind the last one, which must end the payload."""
        if self.done == self.count:
            self.check_exhausted()
            return False
        self.fault = read_record(&self.cursor, row)
        if self.fault != FINE:
            self.complain()
        self.done += 1
        return True

    cdef bint seek(self, int64_t wanted) except -1:
        """Step over records until the next one has this offset delta; false when none has."""
        cdef Py_ssize_t position
        cdef int64_t offset_delta = 0
        while self.done < self.count:
            position = self.cursor.position
            self.fault = step_over(&self.cursor, &offset_delta)
            if self.fault != FINE:
                self.complain()
            if offset_delta == wanted:
                self.cursor.position = position
                return True
            self.done += 1
        self.check_exhausted()
        return False

    cdef Py_ssize_t join(self, uint8_t* out) noexcept nogil:
        """Copy all lines to `out` unless it is NULL; return their size, or -1 with the fault noted."""
        cdef RecordRow row
        cdef Py_ssize_t size = 0
        while self.done < self.count:
            self.fault = read_record(&self.cursor, &row)
            if self.fault != FINE:
                return -1
            if row.value_size > 0:
                if out is not NULL:
                    memcpy(out + size, self.cursor.data + row.value_position, row.value_size)
                size += row.value_size
            if out is not NULL:
                out[size] = c"\n"
            size += 1
            self.done += 1
        if self.count and self.cursor.position != self.cursor.end:
            return -1
        return size

    cdef Py_ssize_t survey(self, Extent* extent) noexcept nogil:
        """Return SURVEY_FINE, SURVEY_FAULT with the fault noted, or the number of a record with a wrong offset delta."""
        cdef RecordRow row
        cdef int64_t timestamp
        while self.done < self.count:
            self.fault = read_record(&self.cursor, &row)
            if self.fault != FINE:
                return SURVEY_FAULT
            if row.offset_delta != self.done:
                extent.offset_delta = row.offset_delta
                return self.done
            timestamp = <int64_t>(<uint64_t>extent.base_timestamp + <uint64_t>row.timestamp_delta)
            if timestamp != -1:
                extent.earliest = min(extent.earliest, timestamp)
                extent.latest = max(extent.latest, timestamp)
            if row.key_size < 0:
                extent.keyless += 1
            self.done += 1
        if self.count and self.cursor.position != self.cursor.end:
            return SURVEY_FAULT
        return SURVEY_FINE

    cdef bytes slice(self, Py_ssize_t position, Py_ssize_t size):
        if size < 0:
            return None
        return PyBytes_FromStringAndSize(<const char*>self.cursor.data + position, size)

    cdef tuple headers(self, Py_ssize_t position, Py_ssize_t count):
        """Return headers that were found sound; checked once more, for another thread may have written since."""
        cdef Cursor cursor = self.cursor
        cdef int64_t name_position = 0, name_size = 0, value_position = 0, value_size = 0
        cdef list found = []
        cursor.position = position
        for _ in range(count):
            self.fault = read_field(&cursor, &name_position, &name_size)
            if self.fault == FINE:
                self.fault = read_field(&cursor, &value_position, &value_size)
            if self.fault == FINE and name_size < 0:
                self.fault = HEADER_NAME
            if self.fault != FINE:
                self.complain()
            name = PyUnicode_DecodeUTF8(<const char*>cursor.data + name_position, name_size, "surrogateescape")
            found.append((name, self.slice(value_position, value_size)))
        return tuple(found)

    cdef int check_exhausted(self) except -1:
        if self.count and self.cursor.position != self.cursor.end:
            self.complain()
        return 0

    cdef int complain(self) except -1:
        if self.fault == FINE:
            raise MalformedBatch(f"{self.cursor.end - self.cursor.position} bytes left over behind the last record")
        raise MalformedBatch(f"record {self.done}, byte {self.cursor.position} of the records: {reason(self.fault).decode()}")
