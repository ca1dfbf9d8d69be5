# cython: language_level=3
"""What other decoders of values cimport from that of Avro: buffers that are handed over, and columns of values."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from offsetfs.storage.native.decoded_columns cimport Bytes


cdef class Memory:
    cdef Bytes held


cdef Memory handed_over(Bytes* memory)


cdef class Source:
    cdef Py_buffer ends_held, data, validity_held
    cdef int held  # how many of them
    cdef const int32_t* ends
    cdef const uint8_t* validity
    cdef int64_t count

    cdef inline bint is_null(self, int64_t row) noexcept nogil:
        return self.validity != NULL and not self.validity[row >> 3] >> (row & 7) & 1
