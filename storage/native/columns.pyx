# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records as columns, whole buffers at a time: the compiled form of the reference `reference/columns.py`.

Rows come from a scan that checked them, and columns from the caller. Both are checked again against the buffers, so that
a wrong pair raises an error instead of accessing memory out of bounds.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from offsetfs.storage.native.murmur2 cimport murmur2
from offsetfs.storage.native.record cimport FINE, Cursor, field_size, put_field, put_varint, read_field, varint_size
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

from array import array as _array

from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.reference.columns import Column, Encoded, HeaderColumns

cdef int64_t INT_MAX = 0x7FFFFFFF
cdef array _ints = _array("i")
cdef array _longs = _array("q")

# --- reading -------------------------------------------------------------------------------------------------------


def gather(payload, array rows, Py_ssize_t column):
    """See `reference/columns.py:gather`."""
    cdef Held held = Held(payload)
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        if not 0 <= column < RECORD_COLUMNS - 1:
            raise ValueError("no column of a scan")
        return gathered(held, <const int64_t*>held_rows.buf + column, RECORD_COLUMNS, count)
    finally:
        PyBuffer_Release(&held_rows)


def gather_headers(payload, array rows):
    """See `reference/columns.py:gather_headers`."""
    cdef Py_buffer held_rows
    cdef Py_ssize_t count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        return headers_of(Held(payload), <const RecordRow*>held_rows.buf, count)
    finally:
        PyBuffer_Release(&held_rows)


cdef object headers_of(Held held, const RecordRow* rows, Py_ssize_t count):
    cdef Py_ssize_t row, total = 0, number = 0
    cdef int64_t[4] pair
    cdef int64_t left
    cdef array ends = clone(_ints, count + 1, zero=True)
    cdef array pairs
    cdef Cursor cursor
    for row in range(count):
        left = rows[row].headers_count
        if not 0 <= left <= min(held.buffer.len, INT_MAX) - total:
            raise ValueError("headers outside of their payload")
        total += left
        ends.data.as_ints[row + 1] = <int32_t>total
    pairs = clone(_longs, 4 * total, zero=False)
    cursor.data = held.data
    cursor.end = held.buffer.len
    for row in range(count):
        cursor.position = rows[row].headers_position
        left = ends.data.as_ints[row + 1] - ends.data.as_ints[row]  # as many as there is space for
        if left and not 0 <= cursor.position < cursor.end:
            raise ValueError("headers outside of their payload")
        while left:
            if read_field(&cursor, &pair[0], &pair[1]) != FINE or read_field(&cursor, &pair[2], &pair[3]) != FINE:
                raise ValueError("headers outside of their payload")
            memcpy(pairs.data.as_longlongs + 4 * number, pair, sizeof(pair))
            number += 1
            left -= 1
    names = gathered(held, <const int64_t*>pairs.data.as_longlongs, 4, total)
    return HeaderColumns(ends, names, gathered(held, <const int64_t*>pairs.data.as_longlongs + 2, 4, total))


cdef object gathered(Held held, const int64_t* pairs, Py_ssize_t step, Py_ssize_t count):
    """Return a column of the fields whose position and size are at every `step`th number."""
    cdef array ends = clone(_ints, count + 1, zero=False)
    cdef Py_ssize_t row, nulls = 0, changed = 0
    cdef int64_t total = 0, position, size, limit = held.buffer.len
    cdef int32_t* end = <int32_t*>ends.data.as_ints
    cdef bytearray data, validity = None
    cdef uint8_t* out
    end[0] = 0
    for row in range(count):
        position, size = pairs[row * step], pairs[row * step + 1]
        if size >= 0:
            if position < 0 or size > limit or position > limit - size:
                raise ValueError("a field outside of its payload")
            total += size
        else:
            nulls += 1
        if total > INT_MAX:
            raise ValueError("a column of more than 2 GiB")
        end[row + 1] = <int32_t>total
    data = PyByteArray_FromStringAndSize(NULL, total)
    out = <uint8_t*>PyByteArray_AS_STRING(data)
    with nogil:
        for row in range(count):
            size = end[row + 1] - end[row]
            if size > 0:
                position = pairs[row * step]  # read again: another thread may have written to it
                if 0 <= position <= limit - size:
                    memcpy(out + end[row], held.data + position, size)
                else:
                    changed += 1
    if changed:
        raise ValueError("rows that changed while they were read")
    if nulls:
        validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
        out = <uint8_t*>PyByteArray_AS_STRING(validity)
        memset(out, 0, (count + 7) // 8)
        for row in range(count):
            if pairs[row * step + 1] >= 0:
                out[row >> 3] |= 1 << (row & 7)
    return Column(ends, data, validity)


# --- writing -------------------------------------------------------------------------------------------------------


def spread_keys(keys, Py_ssize_t count, int32_t partitions):
    """See `reference/columns.py:spread_keys`."""
    cdef Values held = Values(keys, count)
    cdef array found = clone(_ints, count, zero=False)
    cdef Py_ssize_t row, changed = 0
    cdef int64_t start, end
    if partitions < 1:
        raise ValueError(f"{partitions} partitions")
    with nogil:
        for row in range(count):
            start, end = held.ends[row], held.ends[row + 1]  # read once: another thread may write to them
            if held.is_null(row):
                found.data.as_ints[row] = -1
            elif 0 <= start <= end <= held._data.buffer.len:
                found.data.as_ints[row] = (murmur2(held.data + start, end - start) & 0x7FFFFFFF) % partitions
            else:
                changed += 1
    if changed:
        raise ValueError("a column that changed while it was read")
    return found


def encode_columns(columns, array picks, Py_ssize_t pick, cursor):
    """See `reference/columns.py:encode_columns`."""
    cdef Held times = Held(columns.timestamps), target = Held(cursor.target, True)
    cdef Py_ssize_t count = times.buffer.len // 8, total = 0
    cdef Values keys = None if columns.keys is None else Values(columns.keys, count)
    cdef Values values = None if columns.values is None else Values(columns.values, count)
    cdef Values names = None, contents = None
    cdef Held spans = None
    cdef Writer writer
    cdef int64_t base = 0
    if picks.typecode != "i" or pick < 0 or not 0 <= cursor.position <= target.buffer.len or cursor.offset_delta < 0:
        raise ValueError("an encoding outside of its buffers")
    if columns.headers is not None:
        spans = Held(columns.headers.ends)
        if spans.buffer.len < 4 * (count + 1):
            raise ValueError("headers outside of their column")
        total = (<const int32_t*>spans.data)[count]
        names, contents = Values(columns.headers.names, total), Values(columns.headers.values, total)
    if cursor.base_timestamp is not None:
        base = cursor.base_timestamp
    writer = Writer(keys, values, names, contents, spans, total)
    writer.position, writer.delta, writer.base = cursor.position, cursor.offset_delta, base
    writer.is_based = cursor.base_timestamp is not None
    pick = writer.write(picks, pick, <const int64_t*>times.data, count, <uint8_t*>target.data, target.buffer.len)
    base_timestamp = writer.base if writer.is_based else None
    grown = BatchCursor(None, writer.position, writer.delta, base_timestamp, writer.latest, writer.values_bytes)
    return Encoded(pick, grown, writer.refused)


cdef class Writer:
    """Writes records one behind the other, and keeps the sums."""

    cdef Values keys, values, names, contents
    cdef const int32_t* spans
    cdef Held _spans
    cdef Py_ssize_t headers_total, position, refused
    cdef int64_t delta, base, latest, values_bytes
    cdef bint is_based

    def __cinit__(self, Values keys, Values values, Values names, Values contents, Held spans, Py_ssize_t total):
        self.keys, self.values, self.names, self.contents, self._spans = keys, values, names, contents, spans
        self.spans = NULL if spans is None else <const int32_t*>spans.data
        self.headers_total = total
        self.latest = -1

    cdef Py_ssize_t write(
        self, array picks, Py_ssize_t pick, const int64_t* times, Py_ssize_t count, uint8_t* target, Py_ssize_t space
    ) except -1:
        cdef Py_ssize_t row, rest, body, picks_count = len(picks)
        cdef int64_t value_size, delta
        cdef uint8_t* out
        while pick < picks_count and self.delta <= INT_MAX:
            row = picks.data.as_ints[pick]
            if not 0 <= row < count:
                raise ValueError("a row that is not there")
            if times[row] < -1:
                raise ValueError(f"a timestamp of {times[row]}")
            if not self.is_based:
                self.base = times[row]
            rest = self.rest_size(row)
            delta = <int64_t>(<uint64_t>times[row] - <uint64_t>self.base)  # wraps around, as a Java long does
            body = 1 + varint_size(delta) + varint_size(self.delta) + rest
            if body > INT_MAX or varint_size(body) + body > space - self.position:
                body = 3 + rest
                self.refused = varint_size(body) + body
                break
            self.is_based = True
            out = target + self.position
            out += put_varint(out, body)
            out[0] = 0
            out += 1
            out += put_varint(out, delta)
            out += put_varint(out, self.delta)
            out = self.put_rest(out, row)
            self.position = out - target
            value_size = -1 if self.values is None else self.values.size(row)
            self.values_bytes += (value_size if value_size > 0 else 0) + 1
            self.latest = max(self.latest, times[row])
            self.delta += 1
            pick += 1
        return pick

    cdef Py_ssize_t rest_size(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t size, number
        size = field_size(-1 if self.keys is None else self.keys.size(row))
        size += field_size(-1 if self.values is None else self.values.size(row))
        if self.spans is NULL:
            return size + 1
        if not 0 <= self.spans[row] <= self.spans[row + 1] <= self.headers_total:
            raise ValueError("headers outside of their column")
        size += varint_size(self.spans[row + 1] - self.spans[row])
        for number in range(self.spans[row], self.spans[row + 1]):
            if self.names.size(number) < 0:
                raise ValueError("a header without a name")
            size += field_size(self.names.size(number)) + field_size(self.contents.size(number))
        return size

    cdef uint8_t* put_rest(self, uint8_t* out, Py_ssize_t row) noexcept:
        cdef Py_ssize_t number
        out = put_value(out, self.keys, row)
        out = put_value(out, self.values, row)
        if self.spans is NULL:
            out[0] = 0
            return out + 1
        out += put_varint(out, self.spans[row + 1] - self.spans[row])
        for number in range(self.spans[row], self.spans[row + 1]):
            out = put_value(out, self.names, number)
            out = put_value(out, self.contents, number)
        return out


cdef inline uint8_t* put_value(uint8_t* out, Values values, Py_ssize_t row) noexcept:
    if values is None:
        return put_field(out, NULL, -1)
    return put_field(out, values.data + values.ends[row], values.size(row))


cdef class Held:
    """A buffer, held as long as this object lives."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef const uint8_t* data

    def __cinit__(self, source, bint is_writable=False):
        PyObject_GetBuffer(source, &self.buffer, PyBUF_WRITABLE if is_writable else PyBUF_SIMPLE)
        self.is_held = True
        self.data = <const uint8_t*>self.buffer.buf

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)


cdef class Values:
    """A column held for reading, every value of which lies in its data."""

    cdef Held _ends, _data, _validity
    cdef const int32_t* ends
    cdef const uint8_t* data
    cdef const uint8_t* validity

    def __cinit__(self, column, Py_ssize_t count):
        cdef Py_ssize_t row
        self._ends, self._data = Held(column.ends), Held(column.data)
        self.ends, self.data = <const int32_t*>self._ends.data, self._data.data
        if not 0 <= count < self._ends.buffer.len // 4:
            raise ValueError("a row outside of its column")
        if column.validity is not None:
            self._validity = Held(column.validity)
            self.validity = self._validity.data
            if self._validity.buffer.len < (count + 7) // 8:
                raise ValueError("a row outside of its column")
        for row in range(count):
            if not 0 <= self.ends[row] <= self.ends[row + 1] <= self._data.buffer.len:
                raise ValueError("a value outside of its column")

    cdef inline bint is_null(self, Py_ssize_t row) noexcept nogil:
        return self.validity is not NULL and not self.validity[row >> 3] >> (row & 7) & 1

    cdef inline int64_t size(self, Py_ssize_t row) noexcept nogil:
        return -1 if self.is_null(row) else self.ends[row + 1] - self.ends[row]
