# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records as lines of JSON, whole batches at a time: the compiled form of the reference `reference/record_json.py`.

Bytes from disk are not trusted. Every read is checked against the end of the buffer, a size is compared with the
remaining bytes before it is added to a position, and no memory is allocated because a length field says so. Values are
read once into locals: another thread may write to a shared buffer meanwhile, and then gets a wrong result, but no read
or write out of bounds.

Lines are written without a check of the space at each byte: behind the limit of a sink there are `SLACK` bytes more, and
nothing writes as many between two looks at the limit. Where it is passed, the line is begun again in a larger sink.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.json_text cimport character_size, first_marked, load, specials
from offsetfs.storage.native.record cimport FINE, RECORD_BYTES_MIN, Cursor, Fault, read_field, read_record, reason
from offsetfs.storage.native.rows cimport RecordRow

from offsetfs.storage.errors import DecompressionLimit, MalformedBatch
from offsetfs.storage.reference.record_json import JSON_BYTES_MAX, PREFIX_SIZE_MAX

cdef enum:
    SLACK = 2048  # more than a prefix and all that is fixed in a line
    BYTES_AT_FIRST_MAX = 32 << 20

cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t LONG_MIN = -LONG_MAX - 1
cdef uint64_t BLANKS = <uint64_t>0x2020202020202020

cdef bytes _two_digits = b"".join(b"%02d" % number for number in range(100))
cdef const char* TWO_DIGITS = _two_digits
cdef const char* SIXTY_FOUR = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char* HEX_DIGITS = b"0123456789abcdef"
cdef const char* CREATE_TIME = b',"timestamp_type":"CreateTime"'
cdef const char* APPEND_TIME = b',"timestamp_type":"LogAppendTime"'

assert PREFIX_SIZE_MAX <= SLACK // 2

cdef enum State:
    DONE
    FULL  # the sink's limit is passed
    NOT_TEXT
    MALFORMED
    TOO_MUCH


cdef struct Span:
    const uint8_t* data
    Py_ssize_t end  # of the whole payload: so far may be read


cdef struct Sink:
    uint8_t* data  # NULL: only counts
    Py_ssize_t used
    Py_ssize_t limit


cdef struct Frame:  # what the lines of one call have in common
    const char* prefix
    Py_ssize_t prefix_size
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int64_t first_offset
    int64_t last_offset
    Py_ssize_t bytes_max


def join_json(
    payload,
    count,
    *,
    bytes prefix,
    base_offset,
    base_timestamp,
    append_time=None,
    offset_from=None,
    offset_to=None,
    bytes_max=JSON_BYTES_MAX,
):
    """Return a line for each record. See `reference/record_json.py:join_json`."""
    cdef Frame frame = frame_of(prefix, base_offset, base_timestamp, append_time, offset_from, offset_to, bytes_max)
    cdef Payload data = Payload(payload, count)
    cdef Py_ssize_t capacity = min(data.estimate(&frame), BYTES_AT_FIRST_MAX)
    cdef bytearray lines = PyByteArray_FromStringAndSize(NULL, capacity + SLACK)
    cdef Sink sink
    cdef State state
    sink.used = 0
    while True:
        sink.data = <uint8_t*>PyByteArray_AS_STRING(lines)
        sink.limit = capacity
        with nogil:
            state = data.put_lines(&frame, &sink)
        if state != FULL:
            break
        capacity += capacity >> 1
        PyByteArray_Resize(lines, capacity + SLACK)
    data.complain(state, bytes_max)
    PyByteArray_Resize(lines, sink.used)
    return lines


def measure_json(
    payload,
    count,
    *,
    bytes prefix,
    base_offset,
    base_timestamp,
    append_time=None,
    offset_from=None,
    offset_to=None,
    bytes_max=JSON_BYTES_MAX,
):
    """Return `len(join_json(…))` without building it."""
    cdef Frame frame = frame_of(prefix, base_offset, base_timestamp, append_time, offset_from, offset_to, bytes_max)
    cdef Payload data = Payload(payload, count)
    cdef Sink sink
    cdef State state
    sink.data = NULL
    sink.used = 0
    sink.limit = LONG_MAX
    with nogil:
        state = data.put_lines(&frame, &sink)
    data.complain(state, bytes_max)
    return sink.used


cdef Frame frame_of(
    bytes prefix, base_offset, base_timestamp, append_time, offset_from, offset_to, bytes_max
) except *:
    """Return the frame; it borrows the bytes of `prefix`."""
    cdef Frame frame
    if len(prefix) > PREFIX_SIZE_MAX:
        raise ValueError(f"a prefix of {len(prefix)} bytes")
    frame.prefix = prefix
    frame.prefix_size = len(prefix)
    frame.base_offset = base_offset
    frame.base_timestamp = base_timestamp
    frame.has_append_time = append_time is not None
    frame.append_time = append_time if frame.has_append_time else 0
    first = LONG_MIN if offset_from is None else max(offset_from, LONG_MIN)
    last = LONG_MAX if offset_to is None else min(offset_to - 1, LONG_MAX)
    is_empty = first > last
    frame.first_offset = 1 if is_empty else first
    frame.last_offset = 0 if is_empty else last
    frame.bytes_max = bytes_max
    return frame


cdef class Payload:
    """A payload held for reading, and how far its records have been turned into lines."""

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

    cdef Py_ssize_t estimate(self, const Frame* frame) noexcept nogil:
        """Return what the lines take when nothing is escaped and there are no headers."""
        cdef Py_ssize_t each = frame.prefix_size + 78 + number_size(<int64_t>(<uint64_t>frame.base_offset + <uint64_t>self.count))
        each += number_size(frame.append_time if frame.has_append_time else frame.base_timestamp)
        return self.cursor.end + each * self.count

    cdef State put_lines(self, const Frame* frame, Sink* sink) noexcept nogil:
        """Go on with the lines; on FULL the next call begins again with the line that did not fit."""
        cdef Span span
        cdef RecordRow row
        cdef Py_ssize_t position, used
        cdef int64_t offset
        cdef State state = DONE
        span.data, span.end = self.cursor.data, self.cursor.end
        while self.done < self.count:
            position = self.cursor.position
            self.fault = read_record(&self.cursor, &row)
            if self.fault != FINE:
                return MALFORMED
            offset = <int64_t>(<uint64_t>frame.base_offset + <uint64_t>row.offset_delta)
            if frame.first_offset <= offset <= frame.last_offset and state == DONE:
                used = sink.used
                if not put_line(frame, &span, &row, offset, sink):
                    self.cursor.position = position
                    sink.used = used
                    return FULL
                if sink.used > frame.bytes_max:
                    state = TOO_MUCH  # what follows is still to be looked at, for it may be no record at all
            self.done += 1
        if self.count and self.cursor.position != self.cursor.end:
            return MALFORMED
        return state

    cdef int complain(self, State state, bytes_max) except -1:
        if state == TOO_MUCH:
            raise DecompressionLimit(f"the records take more than {bytes_max} bytes as JSON")
        if state != MALFORMED:
            return 0
        if self.fault == FINE:
            raise MalformedBatch(f"{self.cursor.end - self.cursor.position} bytes left over behind the last record")
        where = f"record {self.done}, byte {self.cursor.position} of the records"
        raise MalformedBatch(f"{where}: {reason(self.fault).decode()}")


# --- a line --------------------------------------------------------------------------------------------------------


cdef bint put_line(
    const Frame* frame, const Span* span, const RecordRow* row, int64_t offset, Sink* sink
) noexcept nogil:
    """Write the line of a record; false when the sink was full, and then it holds rubbish behind `used`."""
    cdef int64_t timestamp = frame.append_time
    if sink.used > sink.limit:
        return False
    put(sink, frame.prefix, frame.prefix_size)
    put_number(sink, offset)
    put(sink, b',"timestamp":', 13)
    if frame.has_append_time:
        put_number(sink, timestamp)
        put(sink, APPEND_TIME, 33)
    else:
        put_number(sink, <int64_t>(<uint64_t>frame.base_timestamp + <uint64_t>row.timestamp_delta))
        put(sink, CREATE_TIME, 30)
    if not put_field(sink, b',"key', 5, span, row.key_position, row.key_size):
        return False
    if not put_field(sink, b',"value', 7, span, row.value_position, row.value_size):
        return False
    put(sink, b',"headers":[', 12)
    if row.headers_count and not put_headers(sink, span, row):
        return False
    put(sink, b"]}\n", 3)
    return True


cdef bint put_headers(Sink* sink, const Span* span, const RecordRow* row) noexcept nogil:
    """Write headers that were found sound; checked once more, for another thread may have written since."""
    cdef Cursor rest
    cdef int64_t name, name_size, value, value_size, number
    rest.data, rest.position, rest.end = span.data, row.headers_position, span.end
    for number in range(row.headers_count):
        if sink.used > sink.limit:
            return False
        if read_field(&rest, &name, &name_size) != FINE or read_field(&rest, &value, &value_size) != FINE:
            return True
        if number:
            put(sink, b",", 1)
        if not put_field(sink, b'{"key', 5, span, name, name_size):
            return False
        if not put_field(sink, b',"value', 7, span, value, value_size):
            return False
        put(sink, b"}", 1)
    return True


cdef bint put_field(
    Sink* sink, const char* name, Py_ssize_t name_size, const Span* span, Py_ssize_t position, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t used
    cdef State state
    put(sink, name, name_size)
    if size < 0:
        put(sink, b'":null', 6)
        return True
    used = sink.used
    put(sink, b'":"', 3)
    state = put_text(sink, span.data + position, size, span.end - position)
    if state == NOT_TEXT:
        sink.used = used
        put(sink, b'_b64":"', 7)
        state = put_base64(sink, span.data + position, size)
    put(sink, b'"', 1)
    return state == DONE


cdef State put_text(Sink* sink, const uint8_t* data, Py_ssize_t left, Py_ssize_t readable) noexcept nogil:
    """Write bytes as they stand in a JSON string. `readable`: how many may be looked at, `left` of which are meant."""
    cdef uint8_t* out = sink.data
    cdef Py_ssize_t used = sink.used, limit = sink.limit, run
    cdef uint64_t eight, marks, mask
    while left > 0:
        if used > limit:
            return FULL
        if readable >= 8:
            eight = load(data)
        else:
            eight = 0
            memcpy(&eight, data, left)
        if left < 8:
            mask = (<uint64_t>1 << (8 * left)) - 1
            eight = (eight & mask) | (BLANKS & ~mask)
        marks = specials(eight)
        if out is not NULL:
            memcpy(out + used, &eight, 8)
        if marks:
            run = first_marked(marks)
            used += run
            eight >>= 8 * run
            if <uint8_t>eight < 0x80:
                used += put_escape(NULL if out is NULL else out + used, <uint8_t>eight)
                run += 1
            else:
                run += put_characters(out, &used, data + run, left - run)
                if used < 0:
                    return NOT_TEXT
        else:
            run = 8 if left > 8 else left
            used += run
        data += run
        left -= run
        readable -= run
    sink.used = used
    return DONE


cdef inline Py_ssize_t put_characters(
    uint8_t* out, Py_ssize_t* used, const uint8_t* data, Py_ssize_t left
) noexcept nogil:
    """Copy some characters that are not ASCII; return the bytes they take. `used` is -1 when they are no UTF-8."""
    cdef Py_ssize_t done = 0, size, byte
    while done < left and done < 256 and data[done] >= 0x80:
        size = character_size(data + done, left - done)
        if size == 0:
            used[0] = -1
            return done
        if out is not NULL:
            for byte in range(size):
                out[used[0] + byte] = data[done + byte]
        used[0] += size
        done += size
    return done


cdef inline Py_ssize_t put_escape(uint8_t* out, uint8_t byte) noexcept nogil:
    cdef uint8_t letter = 0
    if byte == c'"' or byte == c"\\":
        letter = byte
    elif byte == c"\n":
        letter = c"n"
    elif byte == c"\r":
        letter = c"r"
    elif byte == c"\t":
        letter = c"t"
    elif byte == c"\b":
        letter = c"b"
    elif byte == c"\f":
        letter = c"f"
    if out is not NULL:
        if letter:
            out[0] = c"\\"
            out[1] = letter
        else:
            memcpy(out, b"\\u00", 4)
            out[4] = HEX_DIGITS[byte >> 4]
            out[5] = HEX_DIGITS[byte & 0xF]
    return 2 if letter else 6


cdef State put_base64(Sink* sink, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t needed = (size + 2) // 3 * 4
    cdef uint8_t* out
    cdef uint32_t three
    if needed > sink.limit - sink.used:
        return FULL
    if sink.data is not NULL:
        out = sink.data + sink.used
        while size > 0:
            three = <uint32_t>data[0] << 16
            if size > 1:
                three |= <uint32_t>data[1] << 8
            if size > 2:
                three |= data[2]
            out[0] = SIXTY_FOUR[three >> 18]
            out[1] = SIXTY_FOUR[three >> 12 & 63]
            out[2] = SIXTY_FOUR[three >> 6 & 63] if size > 1 else c"="
            out[3] = SIXTY_FOUR[three & 63] if size > 2 else c"="
            out += 4
            data += 3
            size -= 3
    sink.used += needed
    return DONE


cdef inline void put(Sink* sink, const char* text, Py_ssize_t size) noexcept nogil:
    if sink.data is not NULL:
        memcpy(sink.data + sink.used, text, size)
    sink.used += size


cdef inline void put_number(Sink* sink, int64_t number) noexcept nogil:
    cdef uint64_t rest = <uint64_t>number
    cdef Py_ssize_t size = number_size(number)
    cdef uint8_t* out
    if sink.data is not NULL:
        out = sink.data + sink.used
        if number < 0:
            out[0] = c"-"
            rest = 0 - rest
        out += size
        while rest >= 100:
            out -= 2
            memcpy(out, TWO_DIGITS + 2 * (rest % 100), 2)
            rest //= 100
        if rest >= 10:
            memcpy(out - 2, TWO_DIGITS + 2 * rest, 2)
        else:
            (out - 1)[0] = <uint8_t>(c"0" + rest)
    sink.used += size


cdef inline Py_ssize_t number_size(int64_t number) noexcept nogil:
    cdef uint64_t rest = <uint64_t>number
    cdef Py_ssize_t size = 1
    if number < 0:
        rest = 0 - rest
        size = 2
    while rest >= 10000:
        rest //= 10000
        size += 4
    return size + (rest >= 10) + (rest >= 100) + (rest >= 1000)
