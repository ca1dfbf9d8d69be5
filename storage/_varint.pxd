# cython: language_level=3
"""Kafka's varints for compiled modules: see `varint`, which is the reference."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


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


cdef inline Py_ssize_t read_varint(const uint8_t* data, Py_ssize_t left, int32_t* value) noexcept nogil:
    """Read a number of 32 bits; return how many bytes it took, 0 when it runs over `left` or does not stop in 5."""
    cdef uint32_t raw = 0, byte
    cdef Py_ssize_t size = 0
    while size < left and size < 5:
        byte = data[size]
        raw |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
            return size
    return 0


cdef inline Py_ssize_t read_varlong(const uint8_t* data, Py_ssize_t left, int64_t* value) noexcept nogil:
    """Read a number of 64 bits; return how many bytes it took, 0 when it runs over `left` or does not stop in 10."""
    cdef uint64_t raw = 0, byte
    cdef Py_ssize_t size = 0
    while size < left and size < 10:
        byte = data[size]
        raw |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
            return size
    return 0
