# cython: language_level=3
"""Records of a v2 batch, field by field: what several compiled modules have in common.

Every read is checked against the end of what it belongs to, and a size is compared with the bytes that are left before
it is added to anything. Nothing here needs the GIL or raises: what is wrong comes back as a Fault, and `reason` names
it. `reference/codec.py` draws the layout.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.rows cimport RecordRow


cdef enum:
    RECORD_BYTES_MIN = 7
    VARINT_BYTES_MAX = 5
    VARLONG_BYTES_MAX = 10


cdef enum Fault:
    FINE = 0
    VARINT_CUT
    VARINT_LONG
    RECORD_CUT
    FIELD_CUT
    HEADER_COUNT
    HEADER_NAME
    RECORD_REST


cdef struct Cursor:  # what is left of a payload, or of one record in it
    const uint8_t* data
    Py_ssize_t position
    Py_ssize_t end


cdef inline const char* reason(Fault fault) noexcept nogil:
    """Return what is wrong, in words."""
    if fault == VARINT_CUT:
        return "a varint runs over the end"
    if fault == VARINT_LONG:
        return "a varint of too many bytes"
    if fault == RECORD_CUT:
        return "a record longer than what is left"
    if fault == FIELD_CUT:
        return "a field longer than what is left"
    if fault == HEADER_COUNT:
        return "a record of an impossible number of headers"
    if fault == HEADER_NAME:
        return "a header without a name"
    if fault == RECORD_REST:
        return "bytes left over in a record"
    return ""


# --- writing -------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t put_varint(uint8_t* out, int64_t value) noexcept nogil:
    """Write a varint or varlong, at most 10 bytes; return how many."""
    cdef uint64_t rest = zigzag(value)
    cdef Py_ssize_t size = 0
    while rest > 0x7F:
        out[size] = <uint8_t>(rest & 0x7F | 0x80)
        rest >>= 7
        size += 1
    out[size] = <uint8_t>rest
    return size + 1


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = zigzag(value)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    cdef uint64_t raw = <uint64_t>value
    return (raw << 1) ^ (0 - (raw >> 63))


cdef inline Py_ssize_t field_size(Py_ssize_t size) noexcept nogil:
    return varint_size(size) + (size if size > 0 else 0)


cdef inline uint8_t* put_field(uint8_t* out, const void* data, Py_ssize_t size) noexcept nogil:
    out += put_varint(out, size)
    if size > 0:
        memcpy(out, data, size)
        out += size
    return out


# --- reading -------------------------------------------------------------------------------------------------------


cdef inline Fault read_record(Cursor* cursor, RecordRow* row) noexcept nogil:
    """Read the record at the cursor and step behind it. The cursor stays on a fault."""
    cdef Cursor record
    cdef int32_t count
    cdef int64_t field_position, size
    cdef Fault fault = open_record(cursor, &record)
    if fault != FINE:
        return fault
    fault = read_varlong(&record, &row.timestamp_delta)
    if fault != FINE:
        return fault
    fault = read_varint(&record, &count)
    if fault != FINE:
        return fault
    row.offset_delta = count
    fault = read_field(&record, &row.key_position, &row.key_size)
    if fault != FINE:
        return fault
    fault = read_field(&record, &row.value_position, &row.value_size)
    if fault != FINE:
        return fault
    fault = read_varint(&record, &count)
    if fault != FINE:
        return fault
    if count < 0 or count > record.end - record.position:
        return HEADER_COUNT
    row.headers_position = record.position
    row.headers_count = count
    while count > 0:
        fault = read_field(&record, &field_position, &size)
        if fault != FINE:
            return fault
        if size < 0:
            return HEADER_NAME
        fault = read_field(&record, &field_position, &size)
        if fault != FINE:
            return fault
        count -= 1
    if record.position != record.end:
        return RECORD_REST
    cursor.position = record.end
    return FINE


cdef inline Fault step_over(Cursor* cursor, int64_t* offset_delta) noexcept nogil:
    """Read no more of a record than its offset delta, and step behind it."""
    cdef Cursor record
    cdef int64_t timestamp_delta
    cdef int32_t delta
    cdef Fault fault = open_record(cursor, &record)
    if fault != FINE:
        return fault
    fault = read_varlong(&record, &timestamp_delta)
    if fault != FINE:
        return fault
    fault = read_varint(&record, &delta)
    if fault != FINE:
        return fault
    offset_delta[0] = delta
    cursor.position = record.end
    return FINE


cdef inline Fault open_record(const Cursor* cursor, Cursor* record) noexcept nogil:
    """Read the length and step over the attributes; `record` then ends where the record does."""
    cdef int32_t size
    cdef Fault fault
    record[0] = cursor[0]
    fault = read_varint(record, &size)
    if fault != FINE:
        return fault
    if size < 1 or size > record.end - record.position:
        return RECORD_CUT
    record.end = record.position + size
    record.position += 1
    return FINE


cdef inline Fault read_field(Cursor* cursor, int64_t* position, int64_t* size) noexcept nogil:
    """Read a size and step over the bytes it counts; any negative size is a null, -1."""
    cdef int32_t declared
    cdef Fault fault = read_varint(cursor, &declared)
    if fault != FINE:
        return fault
    if declared > cursor.end - cursor.position:
        return FIELD_CUT
    position[0] = cursor.position
    if declared < 0:
        size[0] = -1
    else:
        size[0] = declared
        cursor.position += declared
    return FINE


cdef inline Fault read_varint(Cursor* cursor, int32_t* value) noexcept nogil:
    cdef uint32_t raw = 0, byte
    cdef int shift = 0
    while True:
        if cursor.position >= cursor.end:
            return VARINT_CUT
        byte = cursor.data[cursor.position]
        cursor.position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return FINE
        shift += 7
        if shift == 7 * VARINT_BYTES_MAX:
            return VARINT_LONG


cdef inline Fault read_varlong(Cursor* cursor, int64_t* value) noexcept nogil:
    cdef uint64_t raw = 0, byte
    cdef int shift = 0
    while True:
        if cursor.position >= cursor.end:
            return VARINT_CUT
        byte = cursor.data[cursor.position]
        cursor.position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return FINE
        shift += 7
        if shift == 7 * VARLONG_BYTES_MAX:
            return VARINT_LONG
