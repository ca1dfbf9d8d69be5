# cython: language_level=3
"""Strings eight bytes at a time, for the compiled implementations that write and read JSON: of little-endian machines only."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    int trailing_zeros "__builtin_ctzll"(unsigned long long) noexcept nogil


cdef inline uint64_t load(const uint8_t* data) noexcept nogil:
    """Return eight bytes, the first one lowest."""
    cdef uint64_t eight
    memcpy(&eight, data, 8)
    return eight


cdef inline uint64_t specials(uint64_t eight) noexcept nogil:
    """Mark the first byte, if there is one, that a JSON string cannot hold as it is, or that is no ASCII.

    Those are controls, quotes, backslashes and all above 7F. Zero when there are none; else the lowest mark is at the
    top of the first of them, and marks above it may be wrong (a subtraction borrows from the byte above).
    """
    cdef uint64_t ones = <uint64_t>0x0101010101010101
    cdef uint64_t tops = <uint64_t>0x8080808080808080
    cdef uint64_t quotes = eight ^ (ones * 0x22)
    cdef uint64_t backslashes = eight ^ (ones * 0x5C)
    return ((eight - ones * 0x20) | (quotes - ones) | (backslashes - ones) | eight) & tops


cdef inline Py_ssize_t first_marked(uint64_t marks) noexcept nogil:
    return trailing_zeros(marks) >> 3


cdef inline Py_ssize_t character_size(const uint8_t* data, Py_ssize_t left) noexcept nogil:
    """Return how many bytes the character here takes, which is no ASCII; 0 when they are not well-formed UTF-8."""
    cdef uint8_t lead = data[0]
    cdef uint8_t lowest = 0x80, highest = 0xBF
    if lead < 0xC2 or lead > 0xF4 or left < 2:
        return 0
    if lead < 0xE0:
        return 2 if is_continuation(data[1]) else 0
    if lead < 0xF0:
        if lead == 0xE0:
            lowest = 0xA0
        elif lead == 0xED:
            highest = 0x9F
        return 3 if left > 2 and lowest <= data[1] <= highest and is_continuation(data[2]) else 0
    if lead == 0xF0:
        lowest = 0x90
    elif lead == 0xF4:
        highest = 0x8F
    if left > 3 and lowest <= data[1] <= highest and is_continuation(data[2]) and is_continuation(data[3]):
        return 4
    return 0


cdef inline bint is_continuation(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80
