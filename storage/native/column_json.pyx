# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Columns as lines of JSON: the compiled form of the reference `reference/column_json.py`.

All buffers, ends of values and numbers of children are checked before the first line, so that the loop reads without
checks. Output grows by doubling, and is bounded.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from array import array

from offsetfs.storage.native.json_text cimport character_size, first_marked, load, specials

from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.reference import column_json as reference

JsonColumn = reference.JsonColumn
LINES_BYTES_MAX = reference.LINES_BYTES_MAX
(
    NOTHING, BITS, SIGNED, UNSIGNED, NUMBER, TEXT, BASE64, VERBATIM, DATE, TIME, TIMESTAMP, INSTANT, DECIMAL,
    STRUCT, UNION, LIST, MAP,
) = range(reference.KINDS)

cdef enum Kind:
    K_NOTHING, K_BITS, K_SIGNED, K_UNSIGNED, K_NUMBER, K_TEXT, K_BASE64, K_VERBATIM, K_DATE, K_TIME, K_TIMESTAMP
    K_INSTANT, K_DECIMAL, K_STRUCT, K_UNION, K_LIST, K_MAP, K_KINDS

cdef enum:
    ROOM = 512  # what is written between two looks at the capacity, at most; also the longest decimal part
    DAY_S = 86400

assert K_KINDS == reference.KINDS

cdef int COLUMNS_MAX = reference.COLUMNS_MAX
cdef int DEPTH_MAX = reference.DEPTH_MAX
cdef int64_t SCALE_MAX = reference.SCALE_MAX
cdef int64_t ROWS_MAX = <int64_t>1 << 40
cdef bytes _two_digits = b"".join(b"%02d" % number for number in range(100))
cdef const char* TWO_DIGITS = _two_digits
cdef const char* SIXTY_FOUR = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char* HEX_DIGITS = b"0123456789abcdef"

cdef enum State:
    DONE
    NOT_TEXT
    TOO_MUCH
    NO_MEMORY


cdef struct Column:
    int kind
    bint is_omitted
    int children  # the place of its first child in `Columns.children`
    int child_count
    int64_t start
    int64_t count
    int64_t param
    const char* name
    Py_ssize_t name_size
    const uint8_t* validity
    const int32_t* ends
    const uint8_t* data


cdef struct Out:
    uint8_t* data
    Py_ssize_t used
    Py_ssize_t capacity
    Py_ssize_t bytes_max


def lines(columns, bytes_max=LINES_BYTES_MAX, bytes newline=b"\n"):
    """Return the lines of all rows of the first column, and where each ends. See `reference/column_json.py:lines`."""
    cdef Columns held = Columns(columns)
    cdef int64_t count = held.columns[0].count, row
    cdef object ends = array("q", bytes(8 * count))
    cdef int64_t[::1] places
    cdef Out out
    cdef State state = DONE
    cdef const char* end = newline
    cdef Py_ssize_t end_size = min(len(newline), 1)
    out.data, out.used, out.capacity, out.bytes_max = NULL, 0, 0, bytes_max
    try:
        if count:
            places = ends
            with nogil:
                for row in range(count):
                    state = put_value(held.columns, held.children, 0, row, &out)
                    if state == DONE:
                        state = reserve(&out)
                    if state != DONE:
                        break
                    put(&out, end, end_size)
                    if out.used > out.bytes_max:
                        state = TOO_MUCH
                        break
                    places[row] = out.used
        if state == NO_MEMORY:
            raise MemoryError
        if state != DONE:
            raise DecompressionLimit(f"the values take more than {bytes_max} bytes as JSON")
        return PyBytes_FromStringAndSize(<char*>out.data, out.used), ends
    finally:
        free(out.data)


cdef class Columns:
    """Columns that were checked, with their buffers held for reading."""

    cdef Column* columns
    cdef int* children
    cdef Py_buffer* buffers
    cdef Py_ssize_t buffer_count
    cdef int count
    cdef object kept

    def __cinit__(self, columns):
        cdef int number, child
        if not 1 <= len(columns) <= COLUMNS_MAX:
            raise ValueError(f"{len(columns)} columns")
        self.count = len(columns)
        self.kept = list(columns)
        total = sum(len(column.children) for column in columns)
        if total > COLUMNS_MAX:
            raise ValueError(f"{total} children")
        self.columns = <Column*>PyMem_Calloc(self.count, sizeof(Column))
        self.children = <int*>PyMem_Calloc(max(total, 1), sizeof(int))
        self.buffers = <Py_buffer*>PyMem_Calloc(3 * self.count, sizeof(Py_buffer))
        if self.columns is NULL or self.children is NULL or self.buffers is NULL:
            raise MemoryError
        depths = [0] * self.count
        place = 0
        for number in range(self.count):
            column = self.kept[number]
            self.columns[number].children = place
            for each in column.children:
                if not number < each < self.count:
                    raise ValueError("a child that is no column behind its parent")
                self.children[place] = each
                place += 1
                depths[each] = max(depths[each], depths[number] + 1)
            if depths[number] > DEPTH_MAX:
                raise ValueError(f"more than {DEPTH_MAX} columns within columns")
            self.take(number, column)
        for number in range(self.count):
            self.check(number)

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.buffers is not NULL:
            for number in range(self.buffer_count):
                PyBuffer_Release(&self.buffers[number])
        PyMem_Free(self.columns)
        PyMem_Free(self.children)
        PyMem_Free(self.buffers)

    cdef const uint8_t* hold(self, buffer, Py_ssize_t* size) except? NULL:
        size[0] = 0
        if buffer is None:
            return NULL
        PyObject_GetBuffer(buffer, &self.buffers[self.buffer_count], PyBUF_SIMPLE)
        self.buffer_count += 1
        size[0] = self.buffers[self.buffer_count - 1].len
        return <const uint8_t*>self.buffers[self.buffer_count - 1].buf

    cdef int take(self, int number, column) except -1:
        """Set a column, and check it without its children."""
        cdef Column* own = &self.columns[number]
        cdef Py_ssize_t validity_size, ends_size, data_size
        cdef int64_t end, row, width
        cdef bytes name = column.name
        kind, start, count = column.kind, column.start, column.rows
        if not (0 <= kind < K_KINDS) or start < 0 or count < 0 or start + count > ROWS_MAX:
            raise ValueError("a column of no kind, or with no rows")
        own.kind, own.start, own.count = kind, start, count
        own.is_omitted = column.is_omitted
        own.name, own.name_size = name, len(name)
        own.child_count = len(column.children)
        if own.kind < K_STRUCT and own.child_count or own.kind == K_LIST and own.child_count != 1:
            raise ValueError("a column with children that it cannot have")
        if own.kind == K_MAP and own.child_count != 2:
            raise ValueError("a column with children that it cannot have")
        if own.kind in (K_TIME, K_TIMESTAMP, K_INSTANT) and column.param not in reference.SECOND_UNITS:
            raise ValueError("a time of unknown units")
        if own.kind == K_DECIMAL and not 0 <= column.param <= SCALE_MAX:
            raise ValueError("a decimal of an unknown scale")
        own.param = column.param
        own.validity = self.hold(column.validity, &validity_size)
        own.ends = <const int32_t*>self.hold(column.ends, &ends_size)
        own.data = self.hold(column.data, &data_size)
        end = own.start + own.count
        if own.validity is not NULL and validity_size * 8 < end:
            raise ValueError("a column with too few bits of validity")
        width = 16 if own.kind == K_DECIMAL else 8
        if is_fixed(own.kind) and data_size < width * end or own.kind == K_BITS and data_size * 8 < end:
            raise ValueError("a column with too few values")
        if has_ends(own.kind) and own.count:
            if ends_size < 4 * (end + 1):
                raise ValueError("a column with too few ends")
            if own.kind < K_STRUCT and not self.rise(number, data_size):
                raise ValueError("a column whose ends do not rise, or lie behind its values")
        return 0

    cdef bint rise(self, int number, int64_t most) noexcept:
        """Return whether the ends of values rise, from 0 up to `most`."""
        cdef Column* own = &self.columns[number]
        cdef const int32_t* ends = own.ends + own.start
        cdef int64_t row
        cdef bint rises = ends[0] >= 0
        with nogil:
            for row in range(own.count):
                rises &= ends[row] <= ends[row + 1]
        return rises and ends[own.count] <= most

    cdef int check(self, int number) except -1:
        """Check a column against its children."""
        cdef Column* own = &self.columns[number]
        cdef const int* children = self.children + own.children
        cdef int64_t least = ROWS_MAX
        cdef int place
        if not own.child_count:
            return 0
        for place in range(own.child_count):
            least = min(least, self.columns[children[place]].count)
        if own.kind == K_MAP and self.columns[children[0]].kind != K_TEXT:
            raise ValueError("keys that are no text")
        if own.kind in (K_STRUCT, K_UNION):
            if least < own.count:
                raise ValueError("a child with fewer rows than its parent")
        elif own.count and not self.rise(number, least):
            raise ValueError("a column whose ends do not rise, or lie behind its values")
        return 0


cdef inline bint is_fixed(int kind) noexcept nogil:
    return kind in (K_SIGNED, K_UNSIGNED, K_DATE, K_TIME, K_TIMESTAMP, K_INSTANT, K_DECIMAL)


cdef inline bint has_ends(int kind) noexcept nogil:
    return kind in (K_NUMBER, K_TEXT, K_BASE64, K_VERBATIM, K_LIST, K_MAP)


# --- values --------------------------------------------------------------------------------------------------------


cdef bint is_null(const Column* columns, const int* children, int number, int64_t row) noexcept nogil:
    cdef const Column* own = &columns[number]
    cdef int64_t at = own.start + row
    cdef int place
    if own.kind == K_NOTHING:
        return True
    if own.validity is not NULL and not own.validity[at >> 3] >> (at & 7) & 1:
        return True
    return own.kind == K_UNION and branch(columns, children, number, row) < 0


cdef int branch(const Column* columns, const int* children, int number, int64_t row) noexcept nogil:
    """Return the child of a union that is not null; -1 if there is none."""
    cdef int place, child
    for place in range(columns[number].child_count):
        child = children[columns[number].children + place]
        if not is_null(columns, children, child, row):
            return child
    return -1


cdef State put_named(const Column* columns, const int* children, int number, int64_t row, Out* out) noexcept nogil:
    """Write the rest of a member whose name has no quote at its end yet."""
    cdef const Column* own = &columns[number]
    cdef Py_ssize_t used
    cdef State state
    state = reserve(out)
    if state != DONE:
        return state
    if own.kind == K_UNION:
        if is_null(columns, children, number, row):
            put(out, b'":null', 6)
            return DONE
        return put_named(columns, children, branch(columns, children, number, row), row, out)
    if own.kind in (K_TEXT, K_BASE64) and not is_null(columns, children, number, row):
        used = out.used
        if own.kind == K_TEXT:
            put(out, b'":"', 3)
            state = put_text(own, row, out)
            if state != NOT_TEXT:
                return close_text(out, state)
        out.used = used
        put(out, b'_b64":"', 7)
        return close_text(out, put_base64(own, row, out))
    put(out, b'":', 2)
    return put_value(columns, children, number, row, out)


cdef inline State close_text(Out* out, State state) noexcept nogil:
    if state == DONE:
        state = reserve(out)
    if state == DONE:
        put(out, b'"', 1)
    return state


cdef State put_value(const Column* columns, const int* children, int number, int64_t row, Out* out) noexcept nogil:
    cdef const Column* own = &columns[number]
    cdef int64_t at = own.start + row
    cdef int kind = own.kind
    cdef Py_ssize_t used
    cdef State state = reserve(out)
    if state != DONE:
        return state
    if is_null(columns, children, number, row):
        put(out, b"null", 4)
    elif kind == K_BITS:
        if own.data[at >> 3] >> (at & 7) & 1:
            put(out, b"true", 4)
        else:
            put(out, b"false", 5)
    elif kind == K_SIGNED:
        put_signed(out, (<const int64_t*>own.data)[at])
    elif kind == K_UNSIGNED:
        put_unsigned(out, (<const uint64_t*>own.data)[at])
    elif kind == K_NUMBER:
        return put_number(own, row, out)
    elif kind == K_VERBATIM:
        return put_bytes(out, own.data + own.ends[at], own.ends[at + 1] - own.ends[at])
    elif kind == K_TEXT or kind == K_BASE64:
        used = out.used
        if kind == K_TEXT:
            put(out, b'"', 1)
            state = put_text(own, row, out)
            if state != NOT_TEXT:
                return close_text(out, state)
        out.used = used
        put(out, b'{"b64":"', 8)
        state = close_text(out, put_base64(own, row, out))
        if state == DONE:
            put(out, b"}", 1)
        return state
    elif kind == K_DECIMAL:
        return put_decimal(own.data + 16 * at, own.param, out)
    elif kind == K_DATE:
        put(out, b'"', 1)
        put_date(out, (<const int64_t*>own.data)[at])
        put(out, b'"', 1)
    elif kind <= K_INSTANT:
        put_time(out, kind, (<const int64_t*>own.data)[at], own.param)
    elif kind == K_UNION:
        return put_value(columns, children, branch(columns, children, number, row), row, out)
    elif kind == K_STRUCT:
        return put_struct(columns, children, number, row, out)
    else:
        return put_items(columns, children, number, at, out)
    return DONE


cdef State put_struct(const Column* columns, const int* children, int number, int64_t row, Out* out) noexcept nogil:
    cdef const Column* own = &columns[number]
    cdef const Column* member
    cdef int place, child
    cdef bint follows = False
    cdef State state
    put(out, b"{", 1)
    for place in range(own.child_count):
        child = children[own.children + place]
        member = &columns[child]
        if member.is_omitted and is_null(columns, children, child, row):
            continue
        state = reserve(out)
        if state != DONE:
            return state
        if follows:
            put(out, b",", 1)
        follows = True
        state = put_bytes(out, <const uint8_t*>member.name, member.name_size)
        if state == DONE:
            state = put_named(columns, children, child, row, out)
        if state != DONE:
            return state
    state = reserve(out)
    if state == DONE:
        put(out, b"}", 1)
    return state


cdef State put_items(const Column* columns, const int* children, int number, int64_t at, Out* out) noexcept nogil:
    """Write the items of a list or a map."""
    cdef const Column* own = &columns[number]
    cdef const int* of = children + own.children
    cdef bint is_map = own.kind == K_MAP
    cdef int64_t item
    cdef State state = DONE
    put(out, b"{" if is_map else b"[", 1)
    for item in range(own.ends[at], own.ends[at + 1]):
        state = reserve(out)
        if state != DONE:
            return state
        if item > own.ends[at]:
            put(out, b",", 1)
        if is_map:
            state = put_key(columns, children, of[0], item, out)
            if state == DONE:  # without a suffix of the name, which could be another key
                put(out, b'":', 2)
                state = put_value(columns, children, of[1], item, out)
        else:
            state = put_value(columns, children, of[0], item, out)
        if state != DONE:
            return state
    state = reserve(out)
    if state == DONE:
        put(out, b"}" if is_map else b"]", 1)
    return state


cdef State put_key(const Column* columns, const int* children, int number, int64_t row, Out* out) noexcept nogil:
    cdef Py_ssize_t used = out.used
    cdef State state
    put(out, b'"', 1)
    if is_null(columns, children, number, row):
        return DONE
    state = put_text(&columns[number], row, out)
    if state == NOT_TEXT:
        out.used = used + 1
        state = put_base64(&columns[number], row, out)
    return state


# --- texts ---------------------------------------------------------------------------------------------------------


cdef State grow(Out* out, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t capacity = out.capacity + (out.capacity >> 1) + size + 65536
    cdef void* data
    if out.used > out.bytes_max:
        return TOO_MUCH
    data = realloc(out.data, capacity)
    if data is NULL:
        return NO_MEMORY
    out.data, out.capacity = <uint8_t*>data, capacity
    return DONE


cdef inline State reserve(Out* out) noexcept nogil:
    """Make room for `ROOM` bytes."""
    return DONE if out.capacity - out.used >= ROOM else grow(out, ROOM)


cdef inline void put(Out* out, const char* text, Py_ssize_t size) noexcept nogil:
    memcpy(out.data + out.used, text, size)
    out.used += size


cdef State put_bytes(Out* out, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    """Write bytes as they are, and make room behind them."""
    cdef State state
    if out.capacity - out.used < size + ROOM:
        state = grow(out, size + ROOM)
        if state != DONE:
            return state
    memcpy(out.data + out.used, data, size)
    out.used += size
    return DONE


cdef State put_number(const Column* own, int64_t row, Out* out) noexcept nogil:
    cdef int64_t at = own.start + row
    cdef const uint8_t* text = own.data + own.ends[at]
    cdef Py_ssize_t size = own.ends[at + 1] - own.ends[at]
    if size == 3 and memcmp(text, b"nan", 3) == 0:
        put(out, b'"NaN"', 5)
    elif size == 3 and memcmp(text, b"inf", 3) == 0:
        put(out, b'"Infinity"', 10)
    elif size == 4 and memcmp(text, b"-inf", 4) == 0:
        put(out, b'"-Infinity"', 11)
    else:
        return put_bytes(out, text, size)
    return DONE


cdef State put_text(const Column* own, int64_t row, Out* out) noexcept nogil:
    """Write a text without its quotes; `NOT_TEXT` if it is not UTF-8, with rubbish behind `used`."""
    cdef int64_t at = own.start + row
    cdef const uint8_t* data = own.data + own.ends[at]
    cdef Py_ssize_t left = own.ends[at + 1] - own.ends[at], size
    cdef uint64_t eight, marks
    cdef uint8_t byte
    cdef State state
    while left > 0:
        state = reserve(out)
        if state != DONE:
            return state
        if left >= 8:
            eight = load(data)
            marks = specials(eight)
            memcpy(out.data + out.used, &eight, 8)
            size = first_marked(marks) if marks else 8
            out.used += size
            data += size
            left -= size
            if not marks:
                continue
        byte = data[0]
        if byte >= 0x80:
            size = character_size(data, left)
            if size == 0:
                return NOT_TEXT
            memcpy(out.data + out.used, data, size)
            out.used += size
        else:
            size = 1
            put_character(out, byte)
        data += size
        left -= size
    return DONE


cdef inline void put_character(Out* out, uint8_t byte) noexcept nogil:
    cdef uint8_t letter = 0
    if byte >= 0x20 and byte != c'"' and byte != c"\\":
        out.data[out.used] = byte
        out.used += 1
        return
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
    if letter:
        out.data[out.used] = c"\\"
        out.data[out.used + 1] = letter
        out.used += 2
    else:
        put(out, b"\\u00", 4)
        out.data[out.used] = HEX_DIGITS[byte >> 4]
        out.data[out.used + 1] = HEX_DIGITS[byte & 0xF]
        out.used += 2


cdef State put_base64(const Column* own, int64_t row, Out* out) noexcept nogil:
    cdef int64_t at = own.start + row
    cdef const uint8_t* data = own.data + own.ends[at]
    cdef Py_ssize_t size = own.ends[at + 1] - own.ends[at], needed = (size + 2) // 3 * 4
    cdef uint32_t three
    cdef uint8_t* to
    cdef State state
    if out.capacity - out.used < needed + ROOM:
        state = grow(out, needed + ROOM)
        if state != DONE:
            return state
    to = out.data + out.used
    while size > 0:
        three = <uint32_t>data[0] << 16
        if size > 1:
            three |= <uint32_t>data[1] << 8
        if size > 2:
            three |= data[2]
        to[0] = SIXTY_FOUR[three >> 18]
        to[1] = SIXTY_FOUR[three >> 12 & 63]
        to[2] = SIXTY_FOUR[three >> 6 & 63] if size > 1 else c"="
        to[3] = SIXTY_FOUR[three & 63] if size > 2 else c"="
        to += 4
        data += 3
        size -= 3
    out.used += needed
    return DONE


# --- numbers and times ---------------------------------------------------------------------------------------------


cdef inline void put_unsigned(Out* out, uint64_t number) noexcept nogil:
    cdef uint8_t digits[20]
    cdef int first = 20
    while number >= 100:
        first -= 2
        memcpy(digits + first, TWO_DIGITS + 2 * (number % 100), 2)
        number //= 100
    if number >= 10:
        first -= 2
        memcpy(digits + first, TWO_DIGITS + 2 * number, 2)
    else:
        first -= 1
        digits[first] = <uint8_t>(c"0" + number)
    memcpy(out.data + out.used, digits + first, 20 - first)
    out.used += 20 - first


cdef inline void put_signed(Out* out, int64_t number) noexcept nogil:
    if number < 0:
        put(out, b"-", 1)
        put_unsigned(out, 0 - <uint64_t>number)
    else:
        put_unsigned(out, <uint64_t>number)


cdef inline void put_padded(Out* out, uint64_t number, int width) noexcept nogil:
    """Write a number with zeros in front, `width` digits long."""
    cdef int place
    for place in range(width - 1, -1, -1):
        out.data[out.used + place] = <uint8_t>(c"0" + number % 10)
        number //= 10
    out.used += width


cdef inline int64_t floor_of(int64_t number, int64_t divisor) noexcept nogil:
    cdef int64_t quotient = number // divisor  # truncated, as in C
    return quotient - 1 if number % divisor < 0 else quotient


cdef void put_date(Out* out, int64_t days) noexcept nogil:
    cdef int64_t era = floor_of(days, 146097) + 4  # 719468 = 4 * 146097 + 135080, without an overflow
    cdef int64_t day = days - floor_of(days, 146097) * 146097 + 135080
    cdef int64_t of_era, of_year, shifted, month, year
    if day >= 146097:
        day -= 146097
        era += 1
    of_era = (day - day // 1460 + day // 36524 - day // 146096) // 365
    of_year = day - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + of_era + (month <= 2)
    if year < 0:
        put(out, b"-", 1)
        year = -year
    elif year > 9999:
        put(out, b"+", 1)
    if year > 9999:
        put_unsigned(out, year)
    else:
        put_padded(out, year, 4)
    put(out, b"-", 1)
    put_padded(out, month, 2)
    put(out, b"-", 1)
    put_padded(out, of_year - (153 * shifted + 2) // 5 + 1, 2)


cdef void put_time(Out* out, int kind, int64_t value, int64_t units) noexcept nogil:
    cdef int64_t days = floor_of(value, DAY_S * units)
    cdef int64_t rest = value - days * DAY_S * units, seconds = rest // units
    if kind == K_TIME and days:
        put_signed(out, value)
        return
    put(out, b'"', 1)
    if kind != K_TIME:
        put_date(out, days)
        put(out, b"T", 1)
    put_padded(out, seconds // 3600, 2)
    put(out, b":", 1)
    put_padded(out, seconds // 60 % 60, 2)
    put(out, b":", 1)
    put_padded(out, seconds % 60, 2)
    if units > 1:
        put(out, b".", 1)
        put_padded(out, rest % units, 3 if units == 1000 else 6 if units == 1000000 else 9)
    if kind == K_INSTANT:
        put(out, b"Z", 1)
    put(out, b'"', 1)


cdef State put_decimal(const uint8_t* data, int64_t scale, Out* out) noexcept nogil:
    """Write 128 bits as a decimal in quotes."""
    cdef uint32_t limbs[4]
    cdef uint8_t digits[45]
    cdef int first = 45, limb, digit
    cdef uint64_t rest
    cdef bint is_negative = data[15] >> 7
    cdef int64_t size
    cdef State state
    memcpy(limbs, data, 16)
    if is_negative:
        rest = 1
        for limb in range(4):
            rest += <uint32_t>~limbs[limb]
            limbs[limb] = <uint32_t>rest
            rest >>= 32
    while limbs[0] | limbs[1] | limbs[2] | limbs[3]:
        rest = 0
        for limb in range(3, -1, -1):
            rest = rest << 32 | limbs[limb]
            limbs[limb] = <uint32_t>(rest // 1000000000)
            rest %= 1000000000
        for digit in range(9):
            first -= 1
            digits[first] = <uint8_t>(c"0" + rest % 10)
            rest //= 10
    while first < 45 and digits[first] == c"0":
        first += 1
    size = 45 - first
    if out.capacity - out.used < scale + ROOM:
        state = grow(out, scale + ROOM)
        if state != DONE:
            return state
    put(out, b'"', 1)
    if is_negative:
        put(out, b"-", 1)
    if size > scale:
        put(out, <const char*>digits + first, size - scale)
        first += <int>(size - scale)
        size = scale
    else:
        put(out, b"0", 1)
    if scale:
        put(out, b".", 1)
        for rest in range(scale - size):
            put(out, b"0", 1)
        put(out, <const char*>digits + first, size)
    put(out, b'"', 1)
    return DONE
