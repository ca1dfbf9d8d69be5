# cython: language_level=3
"""The header of a plain v2 batch: one that is whole and valid, neither compressed nor part of a transaction.

In C, and from untrusted bytes: no read passes the end of the block.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from offsetfs.storage.native.record cimport RECORD_BYTES_MIN

cdef extern from "crc32c.h" nogil:
    void crc32c_prepare()
    uint32_t crc32c_of(uint32_t crc, const uint8_t* data, size_t size)


cdef enum:
    HEADER_BYTES = 61
    LOG_OVERHEAD_BYTES = 12
    MAGIC_END_BYTES = 17
    CODEC_BITS = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTIONAL_BIT = 0x10
    CONTROL_BIT = 0x20
    DELETE_HORIZON_BIT = 0x40


cdef enum Status:
    MORE_BYTES = 0  # what is left is no whole batch
    OTHER_BATCH  # a batch follows that is not plain, or not sound
    MAP_FULL
    OUT_OF_SPACE


cdef struct Bounds:  # between which offsets the next batch must lie
    int64_t floor
    int64_t limit


cdef struct Header:
    int64_t base_offset
    int64_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int64_t count
    Py_ssize_t size
    uint8_t attributes


cdef inline bint read_plain(
    const uint8_t* data, Py_ssize_t left, const Bounds* bounds, Header* header, Status* status
) noexcept nogil:
    """Read the header of a sound, plain batch; false with the status when there is none in what is left."""
    status[0] = MORE_BYTES
    if left < MAGIC_END_BYTES:
        return False
    header.size = <Py_ssize_t>big_int(data + 8) + LOG_OVERHEAD_BYTES
    if header.size > left:
        return False
    status[0] = OTHER_BATCH
    if data[16] != 2 or header.size < HEADER_BYTES:
        return False
    header.attributes = data[22]
    if header.attributes & (CODEC_BITS | TRANSACTIONAL_BIT | CONTROL_BIT):
        return False
    header.base_offset = big_long(data)
    header.last_offset_delta = big_int(data + 23)
    if header.base_offset < bounds.floor or header.last_offset_delta < 0 or header.base_offset >= bounds.limit:
        return False
    if header.last_offset_delta >= bounds.limit - header.base_offset:
        return False
    header.base_timestamp = big_long(data + 27)
    header.max_timestamp = big_long(data + 35)
    header.producer_id = big_long(data + 43)
    header.count = big_int(data + 57)
    if not 0 <= header.count <= (header.size - HEADER_BYTES) // RECORD_BYTES_MIN:
        return False
    return crc32c_of(0, data + 21, header.size - 21) == <uint32_t>big_int(data + 17)


cdef inline int32_t big_int(const uint8_t* data) noexcept nogil:
    return <int32_t>(<uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3])


cdef inline int64_t big_long(const uint8_t* data) noexcept nogil:
    return <int64_t>(<uint64_t><uint32_t>big_int(data) << 32 | <uint32_t>big_int(data + 4))


cdef inline void put_int(uint8_t* out, int64_t value) noexcept nogil:
    out[0] = <uint8_t>(value >> 24)
    out[1] = <uint8_t>(value >> 16)
    out[2] = <uint8_t>(value >> 8)
    out[3] = <uint8_t>value


cdef inline void put_long(uint8_t* out, int64_t value) noexcept nogil:
    put_int(out, value >> 32)
    put_int(out + 4, value)
