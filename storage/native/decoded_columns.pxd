# cython: language_level=3
"""Columns in Arrow's layout that grow value by value, for the compiled decoders of values with a schema.

A function that appends returns FINE, or TOO_LARGE if the columns would need more memory than is left; then `truncate`
makes the columns of a record equal in their lengths again. The reference of a column is `reference/avro.py:_Column`.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum Kind:
    NOTHING, BITS, WIDE, VARIABLE, STRUCT, ITEMS

cdef enum:
    COLUMN_NUMBERS = 4
    INT32_MAX = 0x7FFFFFFF

cdef enum:
    FINE = 0
    TOO_LARGE = 255  # no decoder has so many faults of its own


cdef struct Bytes:  # memory that grows
    uint8_t* data
    int64_t size
    int64_t space


cdef struct Column:
    int kind
    int64_t width
    const int64_t* children
    int64_t children_count
    int64_t count
    int64_t null_count
    Bytes validity  # empty if all values are valid
    Bytes ends
    Bytes data


# --- memory --------------------------------------------------------------------------------------------------------


cdef inline int grow(Bytes* memory, int64_t more, int64_t* left) noexcept nogil:
    """Make space for `more` bytes."""
    cdef int64_t space = max(2 * memory.space, memory.size + more, 64)
    cdef void* grown
    if space - memory.space > left[0]:
        space = memory.size + more
        if space - memory.space > left[0]:
            return TOO_LARGE
    grown = PyMem_RawRealloc(memory.data, space)
    if grown == NULL:
        return TOO_LARGE
    left[0] -= space - memory.space
    memory.data, memory.space = <uint8_t*>grown, space
    return FINE


cdef inline int reserve(Bytes* memory, int64_t more, int64_t* left) noexcept nogil:
    return FINE if memory.space - memory.size >= more else grow(memory, more, left)


cdef inline int put_bit(Bytes* bits, int64_t number, bint bit, int64_t* left) noexcept nogil:
    """Append bit `number`."""
    if not number & 7:
        if reserve(bits, 1, left) != FINE:
            return TOO_LARGE
        bits.data[bits.size] = 0
        bits.size += 1
    bits.data[number >> 3] |= <uint8_t>(bit << (number & 7))
    return FINE


cdef inline int put_int32(Bytes* numbers, int64_t number, int64_t* left) noexcept nogil:
    if number > INT32_MAX or reserve(numbers, 4, left) != FINE:
        return TOO_LARGE
    (<int32_t*>(numbers.data + numbers.size))[0] = <int32_t>number
    numbers.size += 4
    return FINE


# --- columns -------------------------------------------------------------------------------------------------------


cdef inline int note_valid(Column* column, int64_t* left) noexcept nogil:
    """Count a value that was appended."""
    if column.validity.size and put_bit(&column.validity, column.count, True, left) != FINE:
        return TOO_LARGE
    column.count += 1
    return FINE


cdef inline int note_null(Column* column, int64_t* left) noexcept nogil:
    cdef int64_t size = column.count // 8 + 1
    if not column.validity.size:  # all before it are valid
        if reserve(&column.validity, size, left) != FINE:
            return TOO_LARGE
        memset(column.validity.data, 0xFF, size)
        column.validity.data[size - 1] = <uint8_t>((1 << (column.count & 7)) - 1)
        column.validity.size = size
    elif put_bit(&column.validity, column.count, False, left) != FINE:
        return TOO_LARGE
    column.count += 1
    column.null_count += 1
    return FINE


cdef inline int append_null(Column* columns, int64_t number, int64_t* left) noexcept nogil:
    """Append a null. On TOO_LARGE, `truncate` makes the columns equal again."""
    cdef Column* column = columns + number
    cdef int64_t child
    cdef int fault = FINE
    if column.kind == BITS:
        fault = put_bit(&column.data, column.count, False, left)
    elif column.kind == WIDE:
        fault = reserve(&column.data, column.width, left)
        if fault == FINE:
            memset(column.data.data + column.data.size, 0, column.width)
            column.data.size += column.width
    elif column.kind == VARIABLE:
        fault = put_int32(&column.ends, column.data.size, left)
    elif column.kind == ITEMS:
        fault = put_int32(&column.ends, columns[column.children[0]].count, left)
    elif column.kind == STRUCT:
        for child in range(column.children_count):
            fault = append_null(columns, column.children[child], left)
            if fault != FINE:
                return fault
    if fault != FINE:
        return fault
    return note_null(column, left)


cdef inline int fill_members(Column* columns, const Column* column, int64_t number, int64_t* left) noexcept nogil:
    """Append nulls to all members of a union but the one that has the value."""
    cdef int64_t child
    cdef int fault
    for child in range(column.children_count):
        if child != number:
            fault = append_null(columns, column.children[child], left)
            if fault != FINE:
                return fault
    return FINE


cdef inline void truncate(Column* columns, int64_t number, int64_t count) noexcept nogil:
    """Remove all values behind the first `count`, which a value that cannot be decoded has left."""
    cdef Column* column = columns + number
    cdef int64_t child, at
    if column.kind == STRUCT:
        for child in range(column.children_count):
            truncate(columns, column.children[child], count)
    elif column.kind == ITEMS:
        at = (<int32_t*>column.ends.data)[count]
        for child in range(column.children_count):
            truncate(columns, column.children[child], at)
        column.ends.size = 4 * (count + 1)
    elif column.kind == VARIABLE:
        column.ends.size = 4 * (count + 1)
        column.data.size = (<int32_t*>column.ends.data)[count]
    elif column.kind == WIDE:
        column.data.size = count * column.width
    elif column.kind == BITS:
        truncate_bits(&column.data, count)
    if column.validity.size:
        for at in range(count, column.count):
            column.null_count -= not column.validity.data[at >> 3] >> (at & 7) & 1
        truncate_bits(&column.validity, count)
    column.count = count


cdef inline void truncate_bits(Bytes* bits, int64_t count) noexcept nogil:
    """Keep the first `count` bits; those behind them in the last byte become 0."""
    bits.size = (count + 7) >> 3
    if count & 7:
        bits.data[bits.size - 1] &= <uint8_t>((1 << (count & 7)) - 1)


cdef inline int append_wide(
    Column* columns, int64_t number, const void* value, int64_t width, int64_t* left
) noexcept nogil:
    cdef Column* column = columns + number
    if number < 0:
        return FINE
    if reserve(&column.data, width, left) != FINE:
        return TOO_LARGE
    memcpy(column.data.data + column.data.size, value, width)
    column.data.size += width
    return note_valid(column, left)


cdef inline int append_bytes(
    Column* columns, int64_t number, const void* value, int64_t size, int64_t* left
) noexcept nogil:
    cdef Column* column = columns + number
    if number < 0:
        return FINE
    if reserve(&column.data, size, left) != FINE:
        return TOO_LARGE
    if size:
        memcpy(column.data.data + column.data.size, value, size)
    if put_int32(&column.ends, column.data.size + size, left) != FINE:
        return TOO_LARGE
    column.data.size += size
    return note_valid(column, left)


cdef inline void shrink(Bytes* memory, int64_t* left) noexcept nogil:
    """Give back the space that has no bytes."""
    cdef int64_t space = max(memory.size, 1)
    cdef void* shrunk
    if memory.space <= space:
        return
    shrunk = PyMem_RawRealloc(memory.data, space)
    if shrunk != NULL:
        left[0] += memory.space - space
        memory.data, memory.space = <uint8_t*>shrunk, space


cdef inline void shrink_all(Column* columns, int64_t count, int64_t* left) noexcept nogil:
    """Give back the space that a value has used which needed more than was left; the next ones have it."""
    cdef int64_t number
    for number in range(count):
        shrink(&columns[number].validity, left)
        shrink(&columns[number].ends, left)
        shrink(&columns[number].data, left)


cdef inline void release(Column* column) noexcept nogil:
    PyMem_RawFree(column.validity.data)
    PyMem_RawFree(column.ends.data)
    PyMem_RawFree(column.data.data)


# --- texts ---------------------------------------------------------------------------------------------------------


cdef inline bint is_utf8(const uint8_t* text, int64_t size) noexcept nogil:
    cdef int64_t at = 0, more
    cdef uint64_t word
    cdef uint32_t point, smallest
    while at < size:
        while size - at >= 8:
            memcpy(&word, text + at, 8)
            if word & <uint64_t>0x8080808080808080U:
                break
            at += 8
        if at == size:
            return True
        if text[at] < 0x80:
            at += 1
            continue
        if 0xC2 <= text[at] <= 0xDF:
            more, point, smallest = 1, text[at] & 0x1F, 0x80
        elif 0xE0 <= text[at] <= 0xEF:
            more, point, smallest = 2, text[at] & 0x0F, 0x800
        elif 0xF0 <= text[at] <= 0xF4:
            more, point, smallest = 3, text[at] & 0x07, 0x10000
        else:
            return False
        if more >= size - at:
            return False
        at += 1
        while more:
            if text[at] & 0xC0 != 0x80:
                return False
            point = point << 6 | text[at] & 0x3F
            at += 1
            more -= 1
        if point < smallest or point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            return False
    return True
