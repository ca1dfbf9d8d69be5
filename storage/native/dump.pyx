# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Formats the record lines of a dump, whole batches at a time: the compiled form of the reference `reference/dump.py`.

Rows come from a scan of the same payload, but are not trusted: positions are compared with the ends of the payload
before bytes are read, and a line is only started if the longest possible line fits into the target.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow

from offsetfs.storage.errors import MalformedBatch

cdef enum:
    LINE_SIZE_MAX = 256
    REPLACEMENT_SIZE = 3
    NO_OFFSET = -1
    LABEL_SIZE_MAX = 32
    NUMBER_SIZE_MAX = 20
    VARINT_BYTES_MAX = 5

cdef int64_t INT_MAX = 0x7FFFFFFF
cdef uint64_t TOP_BITS = <uint64_t>0x8080808080808080
cdef bytes _two_digits = b"".join(b"%02d" % number for number in range(100))
cdef const char* TWO_DIGITS = _two_digits


cdef struct Style:
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    bint has_append_time
    int64_t base_sequence
    bint metadata
    bint data
    int64_t offset_min
    int64_t offset_end
    Py_ssize_t label_size
    uint8_t label[LABEL_SIZE_MAX]
    int64_t shown_timestamp  # the last one that was turned into digits
    Py_ssize_t shown_size
    uint8_t shown[NUMBER_SIZE_MAX]


cdef struct Span:
    const uint8_t* data
    Py_ssize_t size


def format_records(payload, array rows, Py_ssize_t first, style, bytearray target, Py_ssize_t used):
    """Write the lines of the records from row `first` on. See `reference/dump.py:format_records`."""
    cdef Style how = style_of(style)
    cdef Py_ssize_t count = len(rows) // RECORD_COLUMNS, number
    cdef Py_buffer source, out
    cdef Span span
    cdef uint8_t* end
    cdef const RecordRow* all_rows
    cdef int64_t offset
    cdef Py_ssize_t needed
    if rows.typecode != "q":
        raise TypeError("rows are 64-bit numbers")
    if not 0 <= first <= count or not 0 <= used <= len(target):
        raise ValueError("lines outside of their buffers")
    all_rows = <const RecordRow*>rows.data.as_longlongs
    PyObject_GetBuffer(payload, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(target, &out, PyBUF_WRITABLE)
        try:
            span.data = <const uint8_t*>source.buf
            span.size = source.len
            for number in range(first, count):
                check_inside(&all_rows[number], span.size)
                offset = <int64_t>(<uint64_t>how.base_offset + <uint64_t>all_rows[number].offset_delta)
                if not how.offset_min <= offset < how.offset_end:
                    continue
                needed = space_for(&all_rows[number], &span)
                if needed < 0:
                    raise MalformedBatch("a header longer than what is left")
                if needed > out.len - used:
                    return number, used
                end = put_line(<uint8_t*>out.buf + used, &span, &all_rows[number], offset, &how)
                used = end - <uint8_t*>out.buf
            return count, used
        finally:
            PyBuffer_Release(&out)
    finally:
        PyBuffer_Release(&source)


def follow(array rows, int64_t base_offset, int64_t last_offset, gaps):
    """Append a pair to `gaps` for each offset that is not the previous one plus 1. See `reference/dump.py:follow`."""
    cdef Py_ssize_t number
    cdef const RecordRow* row
    cdef int64_t offset
    if rows.typecode != "q":
        raise TypeError("rows are 64-bit numbers")
    for number in range(len(rows) // RECORD_COLUMNS):
        row = <const RecordRow*>rows.data.as_longlongs + number
        offset = <int64_t>(<uint64_t>base_offset + <uint64_t>row.offset_delta)
        if last_offset != NO_OFFSET and offset != <int64_t>(<uint64_t>last_offset + 1):
            gaps.extend((last_offset, offset))
        last_offset = offset
    return last_offset


cdef Style style_of(style) except *:
    cdef Style how
    cdef bytes label = style.timestamp_label
    if len(label) > LABEL_SIZE_MAX:
        raise ValueError("a label of more than 32 bytes")
    how.label_size = len(label)
    memcpy(how.label, <const char*>label, len(label))
    how.base_offset = style.base_offset
    how.base_timestamp = style.base_timestamp
    how.has_append_time = style.append_time is not None
    how.append_time = style.append_time if how.has_append_time else 0
    how.base_sequence = style.base_sequence
    how.metadata = style.metadata
    how.data = style.data
    how.offset_min = style.offset_min
    how.offset_end = style.offset_end
    how.shown_size = 0
    how.shown_timestamp = 0
    return how


cdef int check_inside(const RecordRow* row, int64_t size) except -1:
    if (
        not 0 <= row.key_position <= size
        or row.key_size > size - row.key_position
        or not 0 <= row.value_position <= size
        or row.value_size > size - row.value_position
        or not 0 <= row.headers_position <= size
    ):
        raise ValueError("rows of another payload")
    return 0


# --- a line --------------------------------------------------------------------------------------------------------


cdef Py_ssize_t space_for(const RecordRow* row, const Span* span) noexcept nogil:
    """Return the size of the longest line this record can have; -1 when its headers are not where the row says."""
    cdef Py_ssize_t text = 0, position = row.headers_position, name
    cdef int64_t left = row.headers_count
    if row.key_size > 0:
        text += row.key_size
    if row.value_size > 0:
        text += row.value_size
    while left > 0:
        position = next_name(span, position, &name)
        if position < 0:
            return -1
        text += position - name
        position = after_value(span, position)
        if position < 0:
            return -1
        left -= 1
    return LINE_SIZE_MAX + REPLACEMENT_SIZE * text + <Py_ssize_t>max(row.headers_count, 0)


cdef uint8_t* put_line(uint8_t* out, const Span* span, const RecordRow* row, int64_t offset, Style* how) noexcept nogil:
    if how.metadata:
        out = put_metadata(out, span, row, offset, how)
    if how.data:
        if row.key_size >= 0:
            out = put_bytes(out, b" key: ", 6) if how.metadata else put_bytes(out, b"| key: ", 7)
            out = put_text(out, span.data + row.key_position, row.key_size)
        if row.value_size >= 0:
            out = put_bytes(out, b" payload: ", 10)
            out = put_text(out, span.data + row.value_position, row.value_size)
    out[0] = c"\n"
    return out + 1


cdef uint8_t* put_metadata(uint8_t* out, const Span* span, const RecordRow* row, int64_t offset, Style* how) noexcept nogil:
    out = put_bytes(out, b"| offset: ", 10)
    out = put_number(out, offset)
    out[0] = c" "
    out = put_bytes(out + 1, <const char*>how.label, how.label_size)
    out = put_bytes(out, b": ", 2)
    out = put_timestamp(out, row.timestamp_delta, how)
    out = put_bytes(out, b" keySize: ", 10)
    out = put_number(out, row.key_size)
    out = put_bytes(out, b" valueSize: ", 12)
    out = put_number(out, row.value_size)
    out = put_bytes(out, b" sequence: ", 11)
    out = put_number(out, sequence_of(how.base_sequence, row.offset_delta))
    out = put_bytes(out, b" headerKeys: [", 14)
    if row.headers_count > 0:
        out = put_names(out, span, row)
    out[0] = c"]"
    return out + 1


cdef inline uint8_t* put_timestamp(uint8_t* out, int64_t delta, Style* how) noexcept nogil:
    """Write the timestamp. Adjacent records often have the same one, so the digits of the last one are cached."""
    cdef int64_t timestamp
    if how.has_append_time:
        timestamp = how.append_time
    else:
        timestamp = <int64_t>(<uint64_t>how.base_timestamp + <uint64_t>delta)
    if how.shown_size == 0 or timestamp != how.shown_timestamp:
        how.shown_size = put_number(how.shown, timestamp) - how.shown
        how.shown_timestamp = timestamp
    return put_bytes(out, <const char*>how.shown, how.shown_size)


cdef uint8_t* put_names(uint8_t* out, const Span* span, const RecordRow* row) noexcept nogil:
    """Write the header names, which `space_for` found inside the payload, separated by commas."""
    cdef Py_ssize_t position = row.headers_position, name
    cdef int64_t left = row.headers_count
    while left > 0:
        position = next_name(span, position, &name)
        out = put_text(out, span.data + name, position - name)
        position = after_value(span, position)
        left -= 1
        if left:
            out[0] = c","
            out += 1
    return out


cdef inline int64_t sequence_of(int64_t base_sequence, int64_t offset_delta) noexcept nogil:
    """Return a record's sequence: 0 follows 2³¹−1, with the overflow of a Java int."""
    if base_sequence < 0:
        return -1
    if base_sequence > <int32_t><uint32_t>(INT_MAX - offset_delta):
        return <int32_t><uint32_t>(offset_delta - (INT_MAX - base_sequence) - 1)
    return <int32_t><uint32_t>(base_sequence + offset_delta)


# --- headers -------------------------------------------------------------------------------------------------------


cdef Py_ssize_t next_name(const Span* span, Py_ssize_t position, Py_ssize_t* name) noexcept nogil:
    """Return the position after the name of the header at `position`, and where the name begins; -1 if it is
    malformed.
    """
    cdef int32_t size = 0
    name[0] = read_varint(span, position, &size)
    if name[0] < 0 or size > span.size - name[0]:
        return -1
    return name[0] + max(size, 0)


cdef Py_ssize_t after_value(const Span* span, Py_ssize_t position) noexcept nogil:
    cdef Py_ssize_t start
    return next_name(span, position, &start)


cdef Py_ssize_t read_varint(const Span* span, Py_ssize_t position, int32_t* value) noexcept nogil:
    """Return the position after the varint; -1 if it is incomplete or too long."""
    cdef uint32_t raw = 0, byte
    cdef int count
    for count in range(VARINT_BYTES_MAX):
        if position >= span.size:
            return -1
        byte = span.data[position]
        position += 1
        raw |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return position
    return -1


# --- numbers and text ----------------------------------------------------------------------------------------------


cdef inline uint8_t* put_bytes(uint8_t* out, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(out, text, size)
    return out + size


cdef inline uint8_t* put_number(uint8_t* out, int64_t value) noexcept nogil:
    cdef uint8_t digits[NUMBER_SIZE_MAX]
    cdef uint64_t rest
    cdef int place = NUMBER_SIZE_MAX, pair
    if value < 0:
        out[0] = c"-"
        out += 1
        rest = 0 - <uint64_t>value
    else:
        rest = <uint64_t>value
    while rest >= 100:
        pair = <int>(rest % 100)
        rest //= 100
        place -= 2
        memcpy(digits + place, TWO_DIGITS + 2 * pair, 2)
    if rest >= 10:
        place -= 2
        memcpy(digits + place, TWO_DIGITS + 2 * <int>rest, 2)
    else:
        place -= 1
        digits[place] = <uint8_t>(c"0" + rest)
    memcpy(out, digits + place, NUMBER_SIZE_MAX - place)
    return out + NUMBER_SIZE_MAX - place


cdef uint8_t* put_text(uint8_t* out, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Copy valid UTF-8, and write U+FFFD for invalid bytes, as `java_text.printed` does."""
    cdef Py_ssize_t position = 0, length
    while True:
        length = put_ascii(out, data + position, size - position)
        position += length
        out += length
        if position >= size:
            return out
        length = valid_size(data + position, size - position)
        if length:
            memcpy(out, data + position, length)
            out += length
            position += length
        else:
            out = put_bytes(out, b"\xef\xbf\xbd", 3)
            position += malformed_size(data + position, size - position)


cdef inline Py_ssize_t put_ascii(uint8_t* out, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Copy bytes below 0x80 and return their number; bytes after them may be written too, and are overwritten later."""
    cdef uint64_t words[4]
    cdef Py_ssize_t done = 0
    while size - done >= 32:
        memcpy(words, data + done, 32)
        if (words[0] | words[1] | words[2] | words[3]) & TOP_BITS:
            break
        memcpy(out + done, words, 32)
        done += 32
    while size - done >= 8:
        memcpy(words, data + done, 8)
        if words[0] & TOP_BITS:
            break
        memcpy(out + done, words, 8)
        done += 8
    while done < size and data[done] < 0x80:
        out[done] = data[done]
        done += 1
    return done


cdef inline Py_ssize_t valid_size(const uint8_t* data, Py_ssize_t left) noexcept nogil:
    """Return the length of the sequence of two to four bytes here, 0 when none is."""
    cdef uint8_t lead = data[0]
    if 0xC2 <= lead <= 0xDF:
        return 2 if left >= 2 and continues(data[1]) else 0
    if 0xE0 <= lead <= 0xEF:
        if left < 3 or not may_follow(lead, data[1]) or not continues(data[2]):
            return 0
        return 0 if lead == 0xED and data[1] >= 0xA0 else 3  # a surrogate
    if 0xF0 <= lead <= 0xF4:
        if left < 4 or not may_follow(lead, data[1]):
            return 0
        return 4 if continues(data[2]) and continues(data[3]) else 0
    return 0


cdef Py_ssize_t malformed_size(const uint8_t* data, Py_ssize_t left) noexcept nogil:
    """Return how many bytes one replacement character stands for. See `java_text.malformed_size`."""
    cdef uint8_t lead = data[0]
    if 0xE0 <= lead <= 0xEF:
        if left < 2 or not may_follow(lead, data[1]):
            return 1
        if left == 2:
            return 2
        return 3 if continues(data[2]) else 2
    if 0xF0 <= lead <= 0xF7:
        if lead > 0xF4 or (left >= 2 and not may_follow(lead, data[1])):
            return 1
        if left >= 3 and not continues(data[2]):
            return 2
        return left if left < 3 else 3
    return 1


cdef inline bint may_follow(uint8_t lead, uint8_t second) noexcept nogil:
    if lead == 0xE0:
        return 0xA0 <= second <= 0xBF
    if lead == 0xF0:
        return 0x90 <= second <= 0xBF
    if lead == 0xF4:
        return 0x80 <= second <= 0x8F
    return continues(second)


cdef inline bint continues(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80
