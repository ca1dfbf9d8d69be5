# cython: language_level=3
"""The murmur2 hash that assigns a key to a partition in Kafka's clients (`partitioner`), for inclusion in other modules."""

from libc.stdint cimport uint8_t, uint32_t


cdef inline uint32_t murmur2(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995, word
    cdef uint32_t hashed = <uint32_t>0x9747B28C ^ <uint32_t>size
    while size >= 4:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= m
        word = (word ^ (word >> 24)) * m
        hashed = hashed * m ^ word
        data += 4
        size -= 4
    if size == 3:
        hashed ^= <uint32_t>data[2] << 16
    if size >= 2:
        hashed ^= <uint32_t>data[1] << 8
    if size >= 1:
        hashed = (hashed ^ data[0]) * m
    hashed = (hashed ^ (hashed >> 13)) * m
    return hashed ^ (hashed >> 15)
